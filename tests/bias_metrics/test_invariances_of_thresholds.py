"""Transformations that must not change errors at a threshold, for every function of these."""

import inspect
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bias_metrics
from bias_metrics import (
    equal_error_range,
    equal_error_rate,
    error_rates,
    fned,
    fped,
    pinned_auc,
    pinned_auc_equality_difference,
    threshold_report,
    threshold_table,
)

MODULES = ("decisions", "dixon", "pinned_auc", "thresholds")


@dataclass(frozen=True)
class Rows:
    y_true: np.ndarray
    y_score: np.ndarray
    masks: np.ndarray
    sample_weight: np.ndarray

    @property
    def subgroups(self):
        return {"a": self.masks[:, 0], "b": self.masks[:, 1]}

    def take(self, order):
        return Rows(**{name: getattr(self, name)[order] for name in vars(self)})


@st.composite
def draw_rows(draw):
    """Draw up to 30 rows with many ties; weights of 0, 1, 2 and 3 are equally likely."""
    n = draw(st.integers(0, 30))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return Rows(
        y_true=rng.random(n) < draw(st.sampled_from([0.2, 0.5])),
        y_score=(rng.integers(0, 8, n) / 8).astype(draw(st.sampled_from([np.float32, np.float64]))),
        masks=rng.random((n, 2)) < draw(st.sampled_from([0.2, 0.6])),
        sample_weight=rng.integers(0, 4, n),
    )


def list_arrays(rows):
    return rows.y_true, rows.y_score, rows.subgroups


def bind_pinned(function):
    """Bind both forms; the sampled form uses the same generator every time."""

    def measure(rows, _):
        last = rows.subgroups["a"] if function is pinned_auc else rows.subgroups
        sampled = {"method": "sampled", "rng": np.random.default_rng(0)}
        forms = [function(*list_arrays(rows)[:2], last, **options) for options in ({}, sampled)]
        return {str(i): form.to_dict() for i, form in enumerate(forms)}

    return measure


def measure_error_range(rows, _):
    """Measure the range, and the number of rows below each end."""
    if rows.y_true.all() or not rows.y_true.any():
        return {}
    ends = equal_error_range(*list_arrays(rows)[:2])
    below = [int((rows.y_score < end).sum()) for end in ends]
    return {"thresholds": list(ends), "n_below": below}


# Every public function of MODULES, as plain values of some rows and their weights.
WEIGHTED = {
    "equal_error_rate": lambda rows, weight: {
        method: equal_error_rate(
            *list_arrays(rows)[:2], method=method, sample_weight=weight
        ).to_dict()
        for method in ("rates", "counts")
    },
    "error_rates": lambda rows, weight: error_rates(
        *list_arrays(rows)[:2], threshold=0.5, sample_weight=weight
    ).to_dict(),
    "threshold_table": lambda rows, weight: threshold_table(
        *list_arrays(rows), sample_weight=weight
    ).to_dict(),
}
REGISTRY = WEIGHTED | {
    "equal_error_range": measure_error_range,
    "fned": lambda rows, _: fned(*list_arrays(rows)).to_dict(),
    "fped": lambda rows, _: fped(*list_arrays(rows)).to_dict(),
    "pinned_auc": bind_pinned(pinned_auc),
    "pinned_auc_equality_difference": bind_pinned(pinned_auc_equality_difference),
    "threshold_report": lambda rows, _: threshold_report(
        *list_arrays(rows), threshold=0.5
    ).to_dict(),
}
every_function = pytest.mark.parametrize("measure", REGISTRY.values(), ids=REGISTRY)
every_weighted = pytest.mark.parametrize("measure", WEIGHTED.values(), ids=WEIGHTED)


def iterate_leaves(node):
    if isinstance(node, dict):
        return [leaf for key in sorted(node) for leaf in iterate_leaves(node[key])]
    if isinstance(node, list):
        return [leaf for child in node for leaf in iterate_leaves(child)]
    return [node]


def test_the_registry_holds_every_public_function_of_these_modules():
    public = {name: getattr(bias_metrics, name) for name in bias_metrics.__all__}
    functions = {
        name
        for name, member in public.items()
        if inspect.isfunction(member) and member.__module__.rpartition(".")[2] in MODULES
    }
    assert functions == REGISTRY.keys()


def test_those_that_take_weights_are_known_as_such():
    takes = {
        name
        for name in REGISTRY
        if "sample_weight" in inspect.signature(getattr(bias_metrics, name)).parameters
    }
    assert takes == WEIGHTED.keys()


@every_weighted
@given(rows=draw_rows())
def test_integer_weights_equal_repetition(measure, rows):
    repeated = rows.take(np.repeat(np.arange(rows.y_true.size), rows.sample_weight))
    assert measure(rows, rows.sample_weight) == measure(repeated, None)


@every_weighted
@given(rows=draw_rows())
def test_rows_of_weight_zero_equal_absent_rows(measure, rows):
    present = rows.take(rows.sample_weight > 0)
    assert measure(rows, rows.sample_weight) == measure(present, present.sample_weight)


def keep_shares(node):
    """Return all values except counts."""
    if isinstance(node, dict):
        return {key: keep_shares(child) for key, child in node.items() if not key.startswith("n_")}
    return [keep_shares(child) for child in node] if isinstance(node, list) else node


@every_weighted
@given(rows=draw_rows(), factor=st.sampled_from([0.125, 0.3, 7.0, 1e6]))
def test_only_the_proportions_of_the_weights_count(measure, rows, factor):
    scaled = iterate_leaves(keep_shares(measure(rows, rows.sample_weight * factor)))
    for one, other in zip(
        scaled, iterate_leaves(keep_shares(measure(rows, rows.sample_weight))), strict=True
    ):
        numbers = isinstance(one, float) and isinstance(other, float)
        assert one == (pytest.approx(other, abs=1e-12) if numbers else other)


@every_function
@given(rows=draw_rows(), seed=st.integers(0, 1000))
def test_the_order_of_the_rows_does_not_count(measure, rows, seed):
    order = np.random.default_rng(seed).permutation(rows.y_true.size)
    shuffled = rows.take(order)
    assert measure(shuffled, None) == measure(rows, None)


@every_function
@given(rows=draw_rows())
def test_measuring_leaves_its_arguments_as_they_were(measure, rows):
    before = rows.take(np.arange(rows.y_true.size))
    measure(rows, rows.sample_weight)
    for name, array in vars(before).items():
        np.testing.assert_array_equal(getattr(rows, name), array)


@every_function
@given(rows=draw_rows())
def test_results_are_plain_python_values(measure, rows):
    plain = {int, float, bool, str, type(None)}
    assert {type(leaf) for leaf in iterate_leaves(measure(rows, None))} <= plain


def drop_thresholds(node):
    if isinstance(node, dict):
        kept = {key: child for key, child in node.items() if not key.startswith("threshold")}
        return {key: drop_thresholds(child) for key, child in kept.items()}
    return [drop_thresholds(child) for child in node] if isinstance(node, list) else node


# A fixed threshold means another decision when the scores are replaced by their ranks.
AT_A_FIXED_THRESHOLD = {"error_rates", "threshold_report"}


@pytest.mark.parametrize("name", sorted(REGISTRY.keys() - AT_A_FIXED_THRESHOLD))
@given(rows=draw_rows())
def test_replacing_scores_by_their_ranks_changes_thresholds_alone(name, rows):
    _, ranks = np.unique(rows.y_score, return_inverse=True)
    ranked = replace(rows, y_score=ranks.reshape(-1))

    found = [REGISTRY[name](one, None) for one in (ranked, rows)]
    if name == "equal_error_rate":  # `counts` looks between 0 and 1 only
        found = [by_method["rates"] for by_method in found]
    one, other = (drop_thresholds(each) for each in found)
    assert one == other


WRONG = [
    ("y_true", [0, 1, 0.7, 1], "`y_true` must be boolean (or 0 and 1); got 0.7 (row 2)."),
    ("y_score", [0.1, 0.2], "`y_score` must have 4 rows like `y_true`; got 2."),
    ("y_score", [0.1, np.nan, 0.3, 0.4], "`y_score` must be finite; got nan (row 1)."),
    ("in_subgroup", [0, 1], "`in_subgroup` must have 4 rows like `y_true`; got 2."),
    ("subgroups", {"g": [0, 1]}, "`subgroups['g']` must have 4 rows like `y_true`; got 2."),
    ("sample_weight", [1, -2, 3, 4], "`sample_weight` must be at least 0; got -2.0 (row 1)."),
]
GOOD = {
    "y_true": [0, 1, 0, 1],
    "y_score": [0.1, 0.2, 0.3, 0.4],
    "in_subgroup": [0, 1, 1, 0],
    "subgroups": {"g": [0, 1, 1, 0]},
    "threshold": 0.5,
}
PARAMETERS = {
    name: inspect.signature(getattr(bias_metrics, name)).parameters.keys() for name in REGISTRY
}


@pytest.mark.parametrize(
    ("name", "argument", "value", "message"),
    [(name, *wrong) for name in REGISTRY for wrong in WRONG if wrong[0] in PARAMETERS[name]],
)
def test_every_function_refuses_a_wrong_array_in_the_same_words(name, argument, value, message):
    known = GOOD | {argument: value, "rng": np.random.default_rng(0)}
    arguments = {key: known[key] for key in known.keys() & PARAMETERS[name]}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        getattr(bias_metrics, name)(**arguments)
