"""The report of a slice is computed only from its rows."""

import numpy as np
import pytest

from bias_metrics import Rows, evaluate_bias, evaluate_slices

OF_ROWS = ("sample_weight", "clusters", "background")
OPTIONS = {
    "everything": {},
    "cells": {"intervals": "cells"},
    "values": {"intervals": False},
    "no identity": {"background": "no_identity"},
    "some groups": {"power_mean_groups": ["gay"], "power": -2, "confidence": 0.9},
}


@pytest.fixture
def rows():
    rng = np.random.default_rng(4)
    y_true = rng.random(800) < 0.4
    y_score = np.round(rng.normal(size=800) + y_true, 1)
    subgroups = {"gay": rng.random(800) < 0.2, "muslim": rng.random(800) < 0.3}
    return y_true, y_score, subgroups


@pytest.fixture
def slices():
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, 300, 800)
    return {"short": lengths < 100, "long": lengths >= 100, "reply": rng.random(800) < 0.5}


def assert_equal_values(one, other):
    """Compare plain values, up to rounding: tied rows may be summed in another order."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert_equal_values(value, other[key])
    else:
        assert one == (pytest.approx(other, rel=1e-12) if isinstance(one, float) else other)


def evaluate_slice(rows, in_slice, **options):
    y_true, y_score, subgroups = rows
    inside = {name: np.asarray(mask)[in_slice] for name, mask in subgroups.items()}
    return evaluate_bias(y_true[in_slice], y_score[in_slice], inside, **options)


def select_slices(rows, slices, **options):
    y_true, y_score, subgroups = rows
    of_rows = {name: options.pop(name) for name in OF_ROWS if name in options}
    return evaluate_slices(Rows(y_true, subgroups, **of_rows), y_score, slices=slices, **options)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_slice_is_measured_as_if_there_were_no_other_rows(rows, slices, options):
    found = select_slices(rows, slices, **options)
    assert list(found) == ["short", "long", "reply"]
    for name, in_slice in slices.items():
        assert_equal_values(
            found[name].to_dict(), evaluate_slice(rows, in_slice, **options).to_dict()
        )


@pytest.mark.parametrize("option", ["sample_weight", "clusters"])
def test_weights_and_clusters_are_those_of_the_slices_rows(rows, slices, option):
    # Clusters 60 and above have no row in `reply`: codes must close the gap.
    each = np.where(slices["reply"], np.arange(800) % 60, 60 + np.arange(800) % 30)
    found = select_slices(rows, slices, **{option: each})
    for name, in_slice in slices.items():
        expected = evaluate_slice(rows, in_slice, **{option: each[in_slice]})
        assert_equal_values(found[name].to_dict(), expected.to_dict())


def test_a_slice_without_rows_or_without_positives_is_undefined_with_the_reason(rows):
    none = np.zeros(800, dtype=bool)
    found = select_slices(rows, {"none": none, "harmless": ~rows[0]})
    assert found["none"].overall.auc.reason == "no negatives and no positives"
    assert found["harmless"].overall.auc.reason == "no positives"
    assert found["harmless"].subgroups["gay"].negative_aeg.value is not None


def test_without_slices_there_are_no_reports(rows):
    assert select_slices(rows, {}) == {}


def test_a_slice_that_is_no_mask_is_refused_by_name(rows):
    with pytest.raises(ValueError, match=r"`slices\['short'\]` must be boolean"):
        select_slices(rows, {"short": np.arange(800)})
