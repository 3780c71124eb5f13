"""Evidence 4: transformations that must not change a metric, for every public function."""

import inspect
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bias_metrics
from bias_metrics import MetricValue, evaluate_bias, final_score, power_mean, roc_auc
from bias_metrics.metrics import SUBGROUP_METRICS

POWER_MEAN_PARTS = ("subgroup_auc", "bpsn_auc", "bnsp_auc")


@dataclass(frozen=True)
class Rows:
    y_true: np.ndarray
    y_score: np.ndarray
    in_subgroup: np.ndarray
    sample_weight: np.ndarray | None = None

    def take(self, order):
        weight = None if self.sample_weight is None else self.sample_weight[order]
        return Rows(self.y_true[order], self.y_score[order], self.in_subgroup[order], weight)

    def repeated(self):
        rows = replace(self, sample_weight=None)
        return rows.take(np.repeat(np.arange(self.y_true.size), self.sample_weight))


@st.composite
def draw_rows(draw, *, weighted=None, both_groups=False):
    """Draw up to 30 rows with many ties; weights of 0, 1, 2 and 3 are equally likely."""
    row = st.tuples(st.booleans(), st.integers(-3, 3), st.booleans(), st.integers(0, 3))
    drawn = draw(st.lists(row, max_size=30))
    if both_groups:  # at least one row in every cell, so that every metric is defined
        drawn += [(y, draw(st.integers(-3, 3)), g, 1) for y in (0, 1) for g in (0, 1)]
    columns = np.array(drawn, dtype=np.int64).reshape(-1, 4).T
    if weighted is None:
        weighted = draw(st.booleans())
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return Rows(
        columns[0].astype(bool),
        (columns[1] / 10).astype(dtype),
        columns[2].astype(bool),
        columns[3] if weighted else None,
    )


def bind_overall(rows):
    return [roc_auc(rows.y_true, rows.y_score, sample_weight=rows.sample_weight).value]


def in_subgroup(name):
    def measure(rows):
        arrays = (rows.y_true, rows.y_score, rows.in_subgroup)
        return [getattr(bias_metrics, name)(*arrays, sample_weight=rows.sample_weight).value]

    return measure


def make_report(rows):
    groups = {"g": rows.in_subgroup, "rest": ~rows.in_subgroup}
    return evaluate_bias(rows.y_true, rows.y_score, groups, sample_weight=rows.sample_weight)


def make_whole_report(rows):
    table = make_report(rows)
    worst = [table.worst(metric).value.value for metric in SUBGROUP_METRICS]
    return [number.value for number in table.values()] + worst


def make_slice_reports(rows):
    groups = {"g": rows.in_subgroup, "rest": ~rows.in_subgroup}
    slices = {"all": np.ones_like(rows.in_subgroup), "toxic or g": rows.y_true | rows.in_subgroup}
    all_rows = bias_metrics.Rows(rows.y_true, groups, sample_weight=rows.sample_weight)
    reports = bias_metrics.evaluate_slices(all_rows, rows.y_score, slices=slices)
    return [report.overall.auc.value for report in reports.values()]


def compute_power_mean(rows):
    values = [in_subgroup(name)(rows)[0] for name in POWER_MEAN_PARTS]
    return [None if None in values else power_mean(values)]


def compute_final_score(rows):
    parts = {name: in_subgroup(name)(rows)[0] for name in POWER_MEAN_PARTS}
    means = {name: MetricValue(value) for name, value in parts.items()}
    return [final_score(MetricValue(bind_overall(rows)[0]), means).value]


# Every public function, as a list of numbers of some rows.
REGISTRY = {
    "roc_auc": bind_overall,
    **{name: in_subgroup(name) for name in (*POWER_MEAN_PARTS, "positive_aeg", "negative_aeg")},
    "power_mean": compute_power_mean,
    "final_score": compute_final_score,
    "evaluate_bias": make_whole_report,
    "evaluate_slices": make_slice_reports,
}
# Two models, and more, have invariances of their own, in test_comparison.py.
OF_TWO_MODELS = {"compare_bias", "compare_candidates"}
# Those that describe data or make masks have a registry in test_invariances_of_data.py.
OF_DATA = {"intersections", "roll_up"}
# Errors at a threshold have theirs in test_invariances_of_thresholds.py.
AT_A_THRESHOLD = {
    *("equal_error_rate", "error_rates", "fned", "fped", "pinned_auc"),
    *("pinned_auc_equality_difference", "threshold_report", "threshold_table"),
}
# Gaps of error rates, and changes of decisions, have theirs in thresholds/.
RATES = {"changed_decisions", "equal_error_range", "rate_gaps"}
# Indicators have theirs in thresholds/test_indicators.py.
INDICATORS = {"decision_indicators"}
# Calibration has its own, in calibration/test_calibration.py.
CALIBRATION = {"calibration_report", "compare_calibration"}
# Marked rows have theirs in thresholds/test_marked.py.
MARKED = {"marked_rows"}
# Moving from one model to another has its own in thresholds/.
SUCCESSION = {"transfer_threshold"}
# The same numbers under the names of the Kaggle notebooks: test_kaggle.py.
RENAMED = {"compute_bias_metrics_for_model"}
every_metric = pytest.mark.parametrize("measure", REGISTRY.values(), ids=REGISTRY)


def test_the_registry_holds_every_public_function():
    public = {name: getattr(bias_metrics, name) for name in bias_metrics.__all__}
    functions = {name for name, member in public.items() if inspect.isfunction(member)}
    assert functions == set().union(
        *(REGISTRY, OF_DATA, OF_TWO_MODELS, AT_A_THRESHOLD),
        *(RENAMED, RATES, CALIBRATION, MARKED, SUCCESSION),
        INDICATORS,
    )


@every_metric
@given(rows=draw_rows(weighted=True))
def test_integer_weights_equal_repetition(measure, rows):
    assert measure(rows) == measure(rows.repeated())


@every_metric
@given(rows=draw_rows(weighted=True))
def test_rows_of_weight_zero_equal_absent_rows(measure, rows):
    assert measure(rows) == measure(rows.take(rows.sample_weight > 0))


@every_metric
@given(rows=draw_rows(weighted=False))
def test_weights_of_one_equal_no_weights(measure, rows):
    ones = np.ones(rows.y_true.size)
    assert measure(replace(rows, sample_weight=ones)) == measure(rows)


@every_metric
@given(rows=draw_rows(weighted=True), factor=st.sampled_from([0.125, 0.3, 7.0, 1e6]))
def test_only_the_proportions_of_the_weights_count(measure, rows, factor):
    scaled = replace(rows, sample_weight=rows.sample_weight * factor)
    assert measure(scaled) == pytest.approx(measure(rows), abs=1e-12)


@every_metric
@given(rows=draw_rows())
def test_replacing_scores_by_their_ranks_changes_nothing(measure, rows):
    _, ranks = np.unique(rows.y_score, return_inverse=True)
    assert measure(replace(rows, y_score=ranks)) == measure(rows)


@every_metric
@given(rows=draw_rows(), seed=st.integers(0, 1000))
def test_the_order_of_the_rows_does_not_count(measure, rows, seed):
    order = np.random.default_rng(seed).permutation(rows.y_true.size)
    assert measure(rows.take(order)) == measure(rows)


@every_metric
@given(rows=draw_rows())
def test_measuring_leaves_its_arguments_as_they_were(measure, rows):
    before = rows.take(np.arange(rows.y_true.size))
    measure(rows)
    for name in ("y_true", "y_score", "in_subgroup"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(before, name))


@pytest.mark.parametrize("name", ["roc_auc", *POWER_MEAN_PARTS])
@given(rows=draw_rows())
def test_negating_the_scores_maps_an_auc_to_its_complement(name, rows):
    [value] = REGISTRY[name](rows)
    [negated] = REGISTRY[name](replace(rows, y_score=-rows.y_score))
    assert negated == (None if value is None else pytest.approx(1 - value, abs=1e-12))


@pytest.mark.parametrize("name", ["positive_aeg", "negative_aeg"])
@given(rows=draw_rows())
def test_negating_the_scores_negates_a_gap(name, rows):
    [value] = REGISTRY[name](rows)
    [negated] = REGISTRY[name](replace(rows, y_score=-rows.y_score))
    assert negated == (None if value is None else pytest.approx(-value, abs=1e-12))


@given(rows=draw_rows())
def test_flipping_the_mask_swaps_bpsn_with_bnsp(rows):
    flipped = replace(rows, in_subgroup=~rows.in_subgroup)
    for name, other in [("bpsn_auc", "bnsp_auc"), ("bnsp_auc", "bpsn_auc")]:
        assert REGISTRY[name](flipped) == pytest.approx(REGISTRY[other](rows), abs=1e-12)


@pytest.mark.parametrize("name", ["positive_aeg", "negative_aeg"])
@given(rows=draw_rows())
def test_flipping_the_mask_negates_a_gap(name, rows):
    [value] = REGISTRY[name](rows)
    [flipped] = REGISTRY[name](replace(rows, in_subgroup=~rows.in_subgroup))
    assert flipped == (None if value is None else pytest.approx(-value, abs=1e-12))


@pytest.mark.parametrize(
    ("name", "sign", "other"),
    [
        *(("bpsn_auc", 1, "bnsp_auc"), ("subgroup_auc", 1, "subgroup_auc")),
        ("positive_aeg", -1, "negative_aeg"),
    ],
)
@given(rows=draw_rows())
def test_turning_labels_and_scores_around_exchanges_the_classes(name, sign, other, rows):
    [value] = REGISTRY[name](rows)
    [turned] = REGISTRY[other](replace(rows, y_true=~rows.y_true, y_score=-rows.y_score))
    assert turned == (None if value is None else pytest.approx(sign * value, abs=1e-12))


@given(rows=draw_rows(both_groups=True))
def test_overall_auc_is_the_mean_of_four_aucs_weighted_by_their_pairs(rows):
    weight = np.ones(rows.y_true.size) if rows.sample_weight is None else rows.sample_weight
    y, g = rows.y_true, rows.in_subgroup
    pos, sub_pos = weight[y & ~g].sum(), weight[y & g].sum()
    neg, sub_neg = weight[~y & ~g].sum(), weight[~y & g].sum()
    wins = (
        in_subgroup("subgroup_auc")(rows)[0] * sub_pos * sub_neg
        + bind_overall(rows.take(~g))[0] * pos * neg
        + in_subgroup("bpsn_auc")(rows)[0] * pos * sub_neg
        + in_subgroup("bnsp_auc")(rows)[0] * sub_pos * neg
    )
    pairs = (pos + sub_pos) * (neg + sub_neg)
    assert bind_overall(rows)[0] == pytest.approx(wins / pairs, abs=1e-12)


@given(rows=draw_rows(both_groups=True))
def test_every_value_lies_in_its_range(rows):
    for key, number in make_report(rows).items():
        low, high = (-0.5, 0.5) if key.metric.endswith("_aeg") else (0, 1)
        assert low <= number.value <= high
