"""The number of uses of a set, and the number after which its best candidate proves nothing."""

import pytest
from support.partial import partial

from bias_metrics.gate import estimate_optimism
from biasgate.tasks.tracking.set_uses import assess_set_use

Z95 = 1.6448536


def verdict(digest="a", low=-0.02, high=0.02):
    """A verdict whose objective differs from the champion's with a standard error of .0122."""
    return partial(
        {
            "evaluation_set": {"name": "comments", "digest": "d" * 64},
            "candidate": {"digest": digest},
            "objective": {"metric": "final_score", "confidence": 0.95, "low": low, "high": high},
        }
    )


def test_one_candidate_is_not_flattered():
    use = assess_set_use([verdict()], 1)
    assert (use.flattered_by, use.at_most, use.spent_by) == (0, 0, None)
    assert use.sentence == "comments has judged 1 candidate so far."
    assert not use.is_reused


def test_the_error_is_that_of_a_difference_over_the_root_of_two():
    use = assess_set_use([verdict()], 5)
    assert use.flattered_by == pytest.approx(estimate_optimism(0.02 / Z95 / 2**0.5, 5))
    assert "looks 0.0100 better in final_score by chance; up to 0.0137" in use.sentence
    assert use.is_reused


def test_without_a_champion_nothing_is_known_of_the_error():
    use = assess_set_use([verdict(low=None, high=None)], 5)
    assert (use.flattered_by, use.at_most) == (None, None)
    assert use.sentence == "comments has judged 5 candidates so far."


def test_the_candidate_that_is_the_champion_tells_no_error():
    assert assess_set_use(
        [verdict(low=0.0, high=0.0), verdict("b")], 2
    ).flattered_by == pytest.approx(estimate_optimism(0.02 / Z95 / 2**0.5, 2))


@pytest.mark.parametrize(
    ("n", "spent_by", "words"),
    [
        (9, None, "candidates."),
        (10, "adaptive use", "later candidates. In that case, the set is spent"),
        (60, "adaptive use", "later candidates. In that case, the set is spent"),
        (65, "selection", "The set is spent: chance makes"),
    ],
)
def test_a_set_is_spent_when_chance_reaches_the_bound_of_the_policy(n, spent_by, words):
    use = assess_set_use([verdict()], n)
    assert use.spent_by == spent_by
    assert words in use.sentence
