"""Which labels are changed: those in excess, that the scores contradict, lowest first."""

import numpy as np
import pytest

from bias_metrics.mitigation.relabelling import relabel_to_prior

# Rows 0 to 3 mention the term, 4 to 7 mention none; one of two of these is toxic.
GAY = np.array([[1], [1], [1], [1], [0], [0], [0], [0]], bool)
LABELS = [1, 1, 1, 1, 1, 1, 0, 0]
SCORES = [0.9, 0.3, 0.1, 0.2, 0.9, 0.9, 0.1, 0.1]


def relabel(labels=LABELS, scores=SCORES, buckets=(0,) * 8, mentions=GAY, threshold=0.5):
    return relabel_to_prior(labels, scores, buckets, mentions, threshold=threshold)


def test_the_lowest_scores_are_changed_until_the_term_is_at_the_prior():
    found = relabel()
    assert found.chosen.tolist() == [2, 3]  # four of four become two of four, as of the others
    [cell] = found.cells
    assert (cell.n, cell.n_positive, cell.excess, cell.changed) == (4, 4, 2, 2)
    assert cell.share_after == 0.5


def test_labels_that_the_scores_agree_with_are_kept():
    found = relabel(threshold=0.15)
    assert found.chosen.tolist() == [2]
    assert (found.cells[0].excess, found.cells[0].changed) == (2, 1)
    assert relabel(threshold=0.2).chosen.tolist() == [2]  # a score at it, too


def test_a_term_below_the_prior_keeps_its_labels():
    found = relabel(labels=[1, 0, 0, 0, 1, 1, 0, 0])
    assert found.chosen.size == 0
    assert found.cells[0].excess == 0


def test_each_bucket_has_its_own_prior():
    found = relabel(labels=[1, 1, 1, 1, 1, 1, 0, 0], buckets=[0, 0, 1, 1, 0, 0, 1, 1])
    assert found.chosen.tolist() == [2, 3]
    assert [cell.prior for cell in found.cells] == [1.0, 0.0]


def test_a_bucket_without_other_rows_has_the_prior_of_all():
    found = relabel(buckets=[3] * 4 + [0] * 4)
    assert (found.cells[0].prior, found.chosen.tolist()) == (0.5, [2, 3])


def test_a_row_with_two_terms_is_changed_once():
    both = np.hstack([GAY, GAY])
    found = relabel(mentions=both)
    assert found.chosen.tolist() == [2, 3]
    assert [cell.excess for cell in found.cells] == [2, 0]


def test_ties_are_changed_in_the_order_of_rows():
    assert relabel(scores=[0.1] * 8).chosen.tolist() == [0, 1]


def test_a_result_is_a_table():
    found = relabel()
    assert found.to_dict()["n_changed"] == 2
    assert found.rows()[0]["share_after"] == 0.5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mentions": np.ones((8, 1), bool)}, "must leave rows without any of the terms"),
        ({"labels": [1, 0]}, "`y_score` must have"),
        ({"labels": [1, 0], "scores": [0.1, 0.2]}, "one value for each of the 2 rows"),
        ({"buckets": [-1] * 8}, "whole numbers of at least 0"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        relabel(**wrong)
