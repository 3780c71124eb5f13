"""The threshold that spreads errors most evenly, among those good enough elsewhere."""

import numpy as np
import pytest

from bias_metrics.mitigation.thresholds import even_threshold

GENERAL = [0, 0, 1, 1], [0.1, 0.3, 0.4, 0.8]
PHRASES = [0, 0, 1, 1], [0.5, 0.2, 0.9, 0.7]
GROUPS = {"gay": [1, 0, 1, 0], "tall": [0, 1, 0, 1]}


def found(general=GENERAL, phrases=PHRASES, groups=GROUPS, recall=0.5, precision=0.6):
    return even_threshold(
        *phrases, groups, good_on=general, min_recall=recall, min_precision=precision
    )


def test_recall_and_precision_are_those_of_the_general_rows():
    one = found(recall=1, precision=0)
    assert one.recall == 1
    assert one.threshold <= 0.4
    assert found(recall=0.5, precision=1).precision == 1


def test_the_gap_is_the_largest_distance_of_a_rate_from_that_of_all_rows():
    one = found(recall=1, precision=1)
    assert (one.threshold, one.gap) == (0.4, 1 / 2)  # half of the negatives, all of gay's
    assert one.subgroup in GROUPS


def test_one_row_of_a_class_decides_its_rate_alone():
    """A third of the negatives is flagged, and the only one of gay's."""
    phrases = [0, 0, 0, 1, 1], [0.95, 0.1, 0.2, 1, 1]
    groups = {"gay": [1, 0, 0, 1, 0], "tall": [0, 1, 1, 0, 1]}
    one = found(([0, 1], [0.1, 0.9]), phrases, groups, recall=1, precision=1)
    assert one.gap == pytest.approx(1 - 1 / 3)
    assert (one.threshold, one.subgroup, one.recall, one.precision) == (0.9, "gay", 1, 1)


def test_recall_and_precision_each_have_their_own_limit():
    """At .8 a half of the positives is flagged and nothing else; at .1 all three rows are."""
    general = [1, 0, 1], [0.1, 0.3, 0.8]
    one = found(general, recall=0.5, precision=1)
    assert (one.threshold, one.recall, one.precision) == (0.8, 1 / 2, 1)
    one = found(general, recall=1, precision=0.5)
    assert (one.threshold, one.recall, one.precision) == (0.1, 1, 2 / 3)


def test_no_threshold_has_a_smaller_gap():
    rng = np.random.default_rng(0)
    y, s = rng.random(300) < 0.4, rng.random(300)
    masks = {name: rng.random(300) < 0.3 for name in "ab"}
    general = rng.random(200) < 0.5, rng.random(200)
    best = found(general, (y, s), masks, recall=0.5, precision=0)
    for t in np.unique(general[1]):
        if (general[1][general[0]] >= t).mean() >= 0.5:
            gaps = [
                abs((s[m & cell] >= t).mean() - (s[cell] >= t).mean())
                for m in masks.values()
                for cell in (y, ~y)
            ]
            assert best.gap <= max(gaps) + 1e-12


def test_of_equal_gaps_the_highest_precision_is_taken():
    flat = [0, 0, 1, 1], [0.0, 0.0, 1.0, 1.0]
    assert found(phrases=flat, recall=0, precision=0).precision == 1


def test_without_a_good_threshold_there_is_a_reason():
    wrong = [0, 1], [0.9, 0.1]
    one = found(wrong, recall=1, precision=0.9)
    assert (one.threshold, one.reason) == (None, "no threshold has recall 1 and precision 0.9")


@pytest.mark.parametrize(
    ("groups", "lack"),
    [
        ({}, "there are no subgroups"),
        ({"gay": [1, 1, 0, 0]}, "subgroup 'gay' lacks one"),
        (GROUPS | {"old": [0, 0, 1, 1]}, "subgroup 'old' lacks one"),
    ],
)
def test_subgroups_need_both_classes(groups, lack):
    with pytest.raises(ValueError, match=f"`subgroups` must have both classes; {lack}"):
        found(groups=groups)


def test_general_rows_without_positives_have_no_good_threshold():
    assert found(([0, 0], [0.1, 0.2])).threshold is None
