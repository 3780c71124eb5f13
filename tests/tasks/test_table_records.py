"""A table of numbers, and the one that is read from its JSON, are equal."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cells import cell, read_table
from support.judging import report_of

from bias_metrics import (
    BiasTable,
    Key,
    MetricValue,
    RowCounts,
    compare_bias,
    compare_candidates,
    evaluate_bias,
    rate_gaps,
)
from bias_metrics.thresholds import compare_rate_gaps
from biasgate.tasks.common.untrusted import check_document
from biasgate.tasks.records import Report

N = 400
RNG = np.random.default_rng(3)
LABEL = RNG.random(N) < 0.4
SCORE, OTHER = (np.round(LABEL + RNG.standard_normal(N), 2) for _ in range(2))
NAMES = ["gay", "a/b", "null", "None", "auc", "=1+1", "\N{ZERO WIDTH JOINER}", "", "nobody"]
GROUPS = {name: RNG.random(N) < 0.3 for name in NAMES} | {"nobody": np.zeros(N, dtype=bool)}
CLUSTERS, WEIGHTS = np.arange(N) // 3, RNG.lognormal(0, 0.5, N)

AT = {"threshold_a": 0.5, "threshold_b": 0.7}
DIFFERENCES = compare_bias(LABEL, SCORE, OTHER, GROUPS)
TABLES = {
    "one model": evaluate_bias(LABEL, SCORE, GROUPS),
    "covered": evaluate_bias(LABEL, SCORE, GROUPS, power_mean_groups=["gay", "a/b"]),
    "clusters": evaluate_bias(LABEL, SCORE, GROUPS, clusters=CLUSTERS, background="no_identity"),
    "weights": evaluate_bias(LABEL, SCORE, GROUPS, sample_weight=WEIGHTS),
    "without groups": evaluate_bias(LABEL, SCORE, {}),
    "gaps": rate_gaps(LABEL, SCORE, GROUPS, threshold=0.5),
    "differences": DIFFERENCES,
    "differences with clusters": compare_bias(LABEL, SCORE, OTHER, GROUPS, clusters=CLUSTERS),
    "differences of gaps": compare_rate_gaps(LABEL, SCORE, OTHER, GROUPS, **AT),
    "both": evaluate_bias(LABEL, SCORE, GROUPS).add_numbers(DIFFERENCES, "champion"),
    "candidates": compare_candidates(LABEL, {"one": SCORE, "two": OTHER}, OTHER, GROUPS)["one"],
    "numbers without counts": BiasTable({Key("auc"): MetricValue(None, "no rows")}, {}),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_that_is_read_is_equal_to_the_one_that_was_written(table):
    record = json.loads(json.dumps(table.to_dict()))
    read = read_table(record)
    assert read == table
    assert list(read) == list(table)
    assert list(read.counts) == list(table.counts)
    assert read.to_dict() == table.to_dict()


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_report_has_the_table_and_nothing_else(table):
    report = report_of(table)
    content = json.loads(json.dumps(report.to_dict()))
    assert report.bias == table
    assert check_document(content, Report, "report.json") == report


NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(name=st.text(max_size=5), value=NUMBERS, end=NUMBERS, reason=st.text(min_size=1, max_size=5))
def test_any_name_reason_and_number_is_read_as_it_was_written(name, value, end, reason):
    number = MetricValue(value, reason, low=end, high=end)
    rows = {None: RowCounts(3, 5), name: RowCounts(1, 0, {"positive": 0.5})}
    numbers = {Key("auc"): number, Key("auc", name): number, Key("auc", name, name, name): number}
    table = BiasTable(numbers, rows, covered=(name,), thresholds={(name, name): 0.5})
    assert read_table(table.to_dict()) == table


def test_the_number_of_a_group_without_a_name_is_not_that_of_all_rows():
    record = TABLES["one model"].to_dict()
    assert cell(record, "bpsn_auc") != cell(record, "bpsn_auc", "")
    read = read_table(record)
    assert read[Key("bpsn_auc")] != read[Key("bpsn_auc", "")]
