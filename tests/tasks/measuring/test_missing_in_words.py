"""How many comments have no score, in words."""

import pytest
from support.partial import partial

from biasgate.tasks.measuring.identities import missing_sentence
from biasgate.tasks.scoring.outcomes import describe_reasons


@pytest.mark.parametrize(
    ("n", "told"),
    [
        (1, "1 of 30 comments has no score (1 refused). It is left out of all other numbers."),
        (2, "2 of 30 comments have no score (2 refused). They are left out of all other numbers."),
    ],
)
def test_one_comment_without_a_score_is_told_of_in_the_singular(n, told):
    found = {"overall": {"n": 30, "n_missing": n}, "reasons": {"refused": n}, "subgroups": {}}
    assert missing_sentence(partial(found)) == told


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
