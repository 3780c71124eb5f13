"""How many comments have no score, in words."""

import pytest
from support.partial import partial

from biasgate.tasks.measuring.identities import missing_sentence


@pytest.mark.parametrize(
    ("n", "told"),
    [
        (1, "1 of 30 comments has no score (refused 1). It is left out of all other numbers."),
        (2, "2 of 30 comments have no score (refused 2). They are left out of all other numbers."),
    ],
)
def test_one_comment_without_a_score_is_told_of_in_the_singular(n, told):
    found = {"overall": {"n": 30, "n_missing": n}, "reasons": {"refused": n}, "subgroups": {}}
    assert missing_sentence(partial(found)) == told
