"""Error rates before and after, on the same rows: differences and their intervals."""

import math

import numpy as np
import pytest

from bias_metrics.mitigation.thresholds import ALL, rate_changes

# Four harmless rows, of which two were flagged and one is; two toxic ones, one newly missed.
LABELS = [0, 0, 0, 0, 1, 1]
BEFORE = [1, 1, 0, 0, 1, 1]
AFTER = [0, 1, 0, 0, 1, 0]
GAY = {"gay": [1, 1, 1, 1, 0, 0]}


def changes(clusters=None, after=AFTER):
    return rate_changes(LABELS, BEFORE, after, GAY, clusters=clusters)


def test_a_rate_changes_by_the_share_of_rows_that_are_decided_otherwise():
    found = changes()[ALL]
    assert found["false_positive_rate"].value == -1 / 4
    assert found["false_negative_rate"].value == 1 / 2


def test_the_error_is_that_of_a_mean_of_paired_changes():
    found = changes()["gay"]["false_positive_rate"]
    paired = np.array([-1.0, 0, 0, 0])
    error = paired.std(ddof=1) / math.sqrt(4)
    assert found.std_error == pytest.approx(error)
    assert found.high - found.value == pytest.approx(3.182446 * error, rel=1e-6)
    assert found.value - found.low == pytest.approx(3.182446 * error, rel=1e-6)


def test_rows_of_one_cluster_count_as_one():
    [one] = [changes(clusters=np.array([0, 0, 1, 1, 2, 3]))["gay"]["false_positive_rate"]]
    assert one.std_error == pytest.approx(1 / 4)  # sums of residuals: -1/2 and 1/2
    alone = changes(clusters=np.zeros(6, int))["gay"]["false_positive_rate"]
    assert (alone.value, alone.low) == (-1 / 4, None)
    assert alone.reason == "one cluster tells nothing about the spread of clusters"


def test_the_same_decisions_change_nothing():
    found = changes(after=BEFORE)[ALL]["false_positive_rate"]
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_a_rate_without_rows_is_undefined():
    assert changes()["gay"]["false_negative_rate"].reason == "no rows of the class"


def test_a_confidence_must_be_a_share():
    with pytest.raises(ValueError, match="`confidence` must be"):
        rate_changes(LABELS, BEFORE, AFTER, GAY, confidence=2)
