"""A cut selects the same rows whatever width its column is stored in."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import (
    Rows,
    ScoreCounts,
    changed_decisions,
    decision_indicators,
    error_rates,
    fned,
    fped,
    rate_gaps,
    threshold_report,
    threshold_table,
    transfer_threshold,
)
from bias_metrics.parts import reaches_cut, widen_floats
from bias_metrics.thresholds import compare_rate_gaps

CUTS = (0.1, 0.3, 0.6, 0.7, 0.9)
WIDTHS = {
    "float16": lambda values: values.astype(np.float16),
    "float32": lambda values: values.astype(np.float32),
    "widened from 32 bits": lambda values: values.astype(np.float32).astype(float),
    "JSON of pandas": lambda values: values.astype(np.float32).astype(float).round(10),
    "pandas float32": lambda values: pd.Series(values, dtype="float32"),
    "pandas Float32": lambda values: pd.Series(values, dtype="Float32"),
    "pandas arrow": lambda values: pd.Series(values, dtype="float[pyarrow]"),
}


def list_decimals(n=300):
    rng = np.random.default_rng(8)
    return rng.integers(0, 11, n) / 10


Y_TRUE = np.random.default_rng(9).random(300) < 0.4
GROUPS = {"gay": np.arange(300) % 3 == 0, "tall": np.arange(300) % 4 == 0}
ROWS = Rows(Y_TRUE, GROUPS)
# Each gives numbers of rows at a threshold.
FUNCTIONS = {
    "error_rates": lambda s, t: error_rates(Y_TRUE, s, threshold=t).to_dict(),
    "threshold_table": lambda s, t: threshold_table(
        Y_TRUE, s, GROUPS, thresholds=[0.2, t]
    ).to_dict(),
    "threshold_report": lambda s, t: threshold_report(Y_TRUE, s, GROUPS, threshold=t).to_dict(),
    "fped": lambda s, t: fped(Y_TRUE, s, GROUPS, threshold=t).to_dict(),
    "fned": lambda s, t: fned(Y_TRUE, s, GROUPS, threshold=t).to_dict(),
    "rate_gaps": lambda s, t: rate_gaps(ROWS, s, threshold=t).to_dict(),
    "compare_rate_gaps": lambda s, t: compare_rate_gaps(
        ROWS, s, list_decimals(), threshold_a=t, threshold_b=t
    ).to_dict(),
    "changed_decisions": lambda s, t: changed_decisions(
        ROWS, s, list_decimals(), threshold_a=t, threshold_b=t
    ).to_dict(),
    "decision_indicators": lambda s, t: decision_indicators(ROWS, s, threshold=t).to_dict(),
    "transfer_threshold": lambda s, t: transfer_threshold(
        s, list_decimals(), GROUPS, threshold=t
    ).to_dict(),
    "ScoreCounts.flagged": lambda s, t: ScoreCounts.from_rows(ROWS, s, shard="a").count_flagged(t),
    "ScoreCounts.rate_gaps": lambda s, t: (
        ScoreCounts.from_rows(ROWS, s, shard="a").rate_gaps(threshold=t).to_dict()
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_threshold_flags_the_same_rows_in_every_width(width, function):
    for cut in CUTS:
        wide, narrow = (
            FUNCTIONS[function](scores, cut)
            for scores in (list_decimals(), WIDTHS[width](list_decimals()))
        )
        assert narrow == wide


def test_a_threshold_of_numpy_is_the_decimal_that_it_prints_as():
    for kind in (np.float16, np.float32, np.float64):
        assert error_rates([1, 0], [0.1, 0.09], threshold=kind(0.1)).n_true_positive == 1
        assert error_rates([1, 0], [0.7, 0.69], threshold=kind(0.7)).n_true_positive == 1


@given(
    values=st.lists(st.integers(-(10**4), 10**4), min_size=1).map(lambda x: np.array(x) / 10**4),
    cut=st.integers(-(10**4), 10**4).map(lambda x: x / 10**4),
)
def test_decimals_are_cut_alike_in_32_bits_in_64_and_in_json(values, cut):
    single = values.astype(np.float32)
    for stored in (single, single.astype(float), single.astype(float).round(10)):
        assert reaches_cut(stored, cut).tolist() == (values >= cut).tolist()


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1).map(np.array),
    at=st.integers(0, 10**6),
)
def test_a_cut_that_is_a_value_of_the_column_is_exact(values, at):
    cut = values[at % len(values)]
    assert reaches_cut(values, cut).tolist() == (values >= cut).tolist()


def test_a_cut_beside_a_number_that_is_exact_in_32_bits_is_not_that_number():
    assert reaches_cut(np.array([0.5], np.float32), np.nextafter(0.5, 1)).tolist() == [False]
    assert reaches_cut(np.array([0.25, 1.0]), 0.25000000001).tolist() == [False, True]


def test_a_fraction_of_raters_is_cut_alike_in_both_widths():
    fractions = np.arange(7) / 6  # 5/6 is below itself in 32 bits
    for at in fractions:
        assert reaches_cut(fractions.astype(np.float32), at).tolist() == (fractions >= at).tolist()


def test_a_missing_number_reaches_no_cut():
    assert reaches_cut(np.array([np.nan, 0.7], np.float32), 0.7).tolist() == [False, True]


def test_numbers_of_16_bits_are_read_as_they_print():
    assert widen_floats(np.array([0.1, 0.7, 1.0, np.nan], np.float16))[:3].tolist() == [
        0.1,
        0.7,
        1.0,
    ]
