"""Sentences about comments without a score, and about truncated comments."""

import numpy as np
import pytest
from support.partial import partial

from bias_metrics import marked_rows
from bias_metrics.families import bonferroni_level
from biasgate.tasks.measuring.identities import describe_missing, describe_truncated
from biasgate.tasks.scoring.outcomes import describe_reasons


@pytest.mark.parametrize(
    ("n", "told"),
    [
        (1, "1 of 30 comments has no score (1 refused). It is left out of all other numbers."),
        (2, "2 of 30 comments have no score (2 refused). They are left out of all other numbers."),
    ],
)
def test_one_comment_without_a_score_is_told_of_in_the_singular(n, told):
    found = {"overall": {"n": 30, "n_marked": n}, "reasons": {"refused": n}, "subgroups": {}}
    assert describe_missing(partial(found), partial(found)) == told


def joint_of(n_marked, n=200, level=None):
    """Count the marked comments of identities with 200 comments each."""
    of_rows = np.repeat(np.arange(len(n_marked)), n)
    marked = np.concatenate([np.arange(n) < one for one in n_marked.values()])
    groups = {name: of_rows == at for at, name in enumerate(n_marked) if name}
    return marked_rows(marked, groups, confidence=level or bonferroni_level(len(groups), 0.025))


def sentence_of(n_missing, level=None):
    """Return the sentence for identities with these numbers of missing scores."""
    joint = joint_of(n_missing, level=level)
    found = {"overall": joint.overall.to_dict(), "reasons": {"refused": joint.overall.n_marked}}
    return describe_missing(partial(found), joint), joint


def test_an_identity_is_named_only_if_it_is_significant_among_all_of_them():
    counts = {"": 20, "blue": 33} | dict.fromkeys(("red", "green", "grey", "pink", "gold"), 20)
    apart, joint = (
        sentence_of(counts, level=level)[1].subgroups["blue"].gap for level in (0.95, None)
    )
    assert joint.low < 0 < apart.low
    assert sentence_of(counts)[0] == (
        "153 of 1,400 comments have no score (153 refused). They are left out of all other numbers."
    )
    text, joint = sentence_of(counts | {"blue": 60})
    gap = joint.subgroups["blue"].gap
    assert gap.low > 0
    assert text.endswith(
        "it is significantly more often so for blue: 30.0%, "
        f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]."
    )


def test_the_other_identities_that_are_significant_are_named_too():
    counts = {"": 2, "blue": 150, "red": 120, "green": 2, "grey": 2}
    assert sentence_of(counts)[0].endswith("]. Also significantly more often for red.")


def test_nobody_is_named_without_intervals():
    rows = np.arange(100) < 50
    joint = marked_rows(rows, {"blue": rows}, clusters=np.arange(100) % 10)
    assert joint.subgroups["blue"].gap.low is None
    found = {"overall": joint.overall.to_dict(), "reasons": {"refused": 50}}
    assert describe_missing(partial(found), joint).endswith("out of all other numbers.")


@pytest.mark.parametrize(
    ("reason", "n", "told"),
    [
        ("status 200", 11, "11 answers without a score"),
        ("status 200 (No such script)", 1, "1 answer without a score (No such script)"),
        ("status 400", 1200, "1,200 answers with status 400"),
        ("status 400 (Bad input)", 1, "1 answer with status 400 (Bad input)"),
        ("other answers", 1, "1 other answer"),
        ("other answers", 4, "4 other answers"),
        ("too_long", 3, "3 too long"),
        ("no_score", 3, "3 without a score in the file"),
        ("no_answer", 3, "3 without a usable answer"),
        ("language", 3, "3 in an unsupported language"),
        ("tokenizer", 3, "3 not split into tokens"),
        ("empty", 3, "3 empty"),
        ("a reason of an extension", 3, "3 a reason of an extension"),
    ],
)
def test_each_reason_is_told_with_its_number_before_it(reason, n, told):
    assert describe_reasons({reason: n}) == told
    assert describe_reasons({"refused": 40, reason: n}) == f"40 refused, {told}"


def test_truncation_is_a_reservation_only_if_an_identity_differs_significantly():
    text, is_reservation = describe_truncated(joint_of({"": 20, "blue": 30, "red": 20}))
    assert text == (
        "70 of 600 comments were truncated: the model read only a part of each. No identity "
        "differs significantly."
    )
    assert not is_reservation
    others = dict.fromkeys(("", "red", "green", "grey", "pink", "gold"), 20)
    joint = joint_of(others | {"blue": 60})
    gap = joint.subgroups["blue"].gap
    assert gap.low > 0
    text, is_reservation = describe_truncated(joint)
    assert is_reservation
    assert text == (
        "180 of 1,400 comments were truncated: the model read only a part of each. Compared with "
        f"others it is significantly more often so for blue: 30.0%, {gap.value:+.3f} "
        f"[{gap.low:+.3f}, {gap.high:+.3f}]."
    )


def test_an_identity_with_significantly_fewer_truncated_comments_is_named_if_none_has_more():
    joint = joint_of({"": 100, "blue": 60, "red": 99, "green": 97})
    assert all(joint.subgroups[name].gap.low < 0 for name in ("red", "green"))
    gap = joint.subgroups["blue"].gap
    text, is_reservation = describe_truncated(joint)
    assert is_reservation
    assert text.endswith(
        "significantly less often so for blue: 30.0%, "
        f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]."
    )
