"""Transformations that must not change a description of data, for functions without metrics."""

import inspect
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bias_metrics
from bias_metrics.metrics import SUBGROUP_METRICS

MODULES = ("intersections", "subgroups")
IDENTITIES = ("gay", "muslim", "tall")


@dataclass(frozen=True)
class Rows:
    """Rows, some with identities."""

    label_fraction: np.ndarray
    y_score: np.ndarray
    masks: np.ndarray

    @property
    def y_true(self):
        return self.label_fraction >= 0.5

    @property
    def subgroups(self):
        return dict(zip(IDENTITIES, self.masks.T, strict=True))

    def take(self, order):
        return Rows(**{name: getattr(self, name)[order] for name in vars(self)})


@st.composite
def draw_rows(draw):
    n = 3 * draw(st.integers(0, 8))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return Rows(
        label_fraction=rng.integers(0, 11, n) / 10,
        y_score=rng.integers(0, 6, n) / 8,
        masks=rng.random((n, 3)) < 0.4,
    )


def find_worst_subgroups(rows):
    arrays = rows.y_true, rows.y_score, rows.subgroups
    table = bias_metrics.evaluate_bias(*arrays, intervals=False)
    return {name: table.worst(name).to_dict() for name in SUBGROUP_METRICS}


# Every public function of MODULES, and the worst group, as plain values made from some rows.
REGISTRY = {
    "intersections": lambda rows: bias_metrics.intersections(
        rows.subgroups, max_order=3, min_support=2, y_true=rows.y_true
    ).to_dict(),
    "roll_up": lambda rows: bias_metrics.roll_up(rows.subgroups).to_dict(),
    "worst": find_worst_subgroups,
}
every_function = pytest.mark.parametrize("describe", REGISTRY.values(), ids=REGISTRY)


def iterate_leaves(node):
    if isinstance(node, dict):
        return [leaf for key in sorted(node) for leaf in iterate_leaves(node[key])]
    if isinstance(node, list):
        return [leaf for child in node for leaf in iterate_leaves(child)]
    return [node]


def assert_equal_values(one, other):
    assert one.keys() == other.keys()
    for left, right in zip(iterate_leaves(one), iterate_leaves(other), strict=True):
        numbers = isinstance(left, float) and isinstance(right, float)
        assert left == (pytest.approx(right, abs=1e-12) if numbers else right)


def test_the_registry_holds_every_public_function_of_these_modules():
    public = {name: getattr(bias_metrics, name) for name in bias_metrics.__all__}
    functions = {
        name
        for name, member in public.items()
        if inspect.isfunction(member) and member.__module__.rpartition(".")[2] in MODULES
    }
    assert functions | {"worst"} == REGISTRY.keys()


@every_function
@given(rows=draw_rows(), seed=st.integers(0, 1000))
def test_the_order_of_the_rows_does_not_count(describe, rows, seed):
    order = np.random.default_rng(seed).permutation(rows.y_score.size)
    assert_equal_values(describe(rows.take(order)), describe(rows))


@every_function
@given(rows=draw_rows())
def test_describing_leaves_its_arguments_as_they_were(describe, rows):
    before = rows.take(np.arange(rows.y_score.size))
    describe(rows)
    for name, array in vars(before).items():
        np.testing.assert_array_equal(getattr(rows, name), array)


@every_function
@given(rows=draw_rows())
def test_zeros_and_ones_mean_what_false_and_true_mean(describe, rows):
    assert_equal_values(describe(replace(rows, masks=rows.masks.astype(np.int8))), describe(rows))


@every_function
@given(rows=draw_rows())
def test_results_are_plain_python_values(describe, rows):
    assert {type(leaf) for leaf in iterate_leaves(describe(rows))} <= {int, float, str, type(None)}


@given(rows=draw_rows())
def test_what_is_made_of_aucs_does_not_change_with_the_ranks(rows):
    _, ranks = np.unique(rows.y_score, return_inverse=True)
    ranked = replace(rows, y_score=ranks.reshape(-1))
    describe = REGISTRY["worst"]
    assert_equal_values(describe(ranked), describe(rows))


def keep_shares(node):
    """Return all values except counts."""
    if isinstance(node, dict):
        numbers = {key: keep_shares(child) for key, child in node.items()}
        return {k: v for k, v in numbers.items() if not k.startswith("n")}
    return [keep_shares(child) for child in node] if isinstance(node, list) else node


@given(rows=draw_rows(), times=st.integers(2, 4))
def test_shares_of_rows_that_are_all_repeated_are_the_same(rows, times):
    repeated = rows.take(np.tile(np.arange(rows.y_score.size), times))
    describe = REGISTRY["worst"]
    assert_equal_values(keep_shares(describe(repeated)), keep_shares(describe(rows)))
