"""Rows to label where two models disagree."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import sample_to_label


def flags(n_after, n_before, n_both, n_neither):
    counts = (n_after, n_before, n_both, n_neither)
    return np.repeat([0, 1, 1, 0], counts), np.repeat([1, 0, 1, 0], counts)


def sample(counts, seed=0, **options):
    known = {"margin": 0.01, "rng": np.random.default_rng(seed)}
    return sample_to_label(*flags(*counts), **known | options)


def test_the_number_of_rows_is_the_one_worked_out_by_hand():
    # A tenth is flagged by one model alone: (1.96 x 0.1 / 0.01)^2 = 384.1, so 385 rows, three
    # quarters of them (288.75) from the larger stratum.
    found = sample((750, 250, 1000, 8000))
    assert [one.n_sampled for one in found.strata] == [289, 97, 50, 50]
    assert [one.weight for one in found.strata] == [750 / 289, 250 / 97, 20, 160]


@given(counts=st.tuples(*[st.integers(0, 200)] * 4).filter(any), seed=st.integers(0, 2**32))
def test_the_weights_add_up_to_the_rows_of_each_stratum(counts, seed):
    found = sample(counts, seed, margin=0.05)
    before, after = flags(*counts)
    assert len(set(found.sampled.tolist())) == found.sampled.size
    for one, mask in zip(
        found.strata,
        (after & ~before & 1, before & ~after & 1, before & after, (1 - before) * (1 - after)),
        strict=True,
    ):
        within = np.asarray(mask, dtype=bool)[found.sampled]
        assert one.n == int(mask.sum())
        assert within.sum() == one.n_sampled
        assert found.weights[within].sum() == pytest.approx(one.n)


def test_the_difference_in_accuracy_is_known_to_the_margin():
    rng = np.random.default_rng(1)
    before, after = flags(600, 400, 1000, 8000)
    errors = []
    for seed in range(200):
        label = rng.random(10_000) < 0.5  # where the interval is widest
        true = (after == label).mean() - (before == label).mean()
        found = sample((600, 400, 1000, 8000), seed)
        right = (after == label)[found.sampled] * 1.0 - (before == label)[found.sampled]
        errors.append(abs(right @ found.weights / 10_000 - true))
    assert np.mean(np.array(errors) <= 0.01) >= 0.95  # less: the rows are not drawn twice


def test_models_that_always_agree_leave_nothing_to_decide():
    found = sample((0, 0, 10, 90), n_alike=20)
    assert [one.n_sampled for one in found.strata] == [0, 0, 10, 20]
    assert found.strata[0].weight is None


def test_the_same_seed_draws_the_same_rows():
    counts = (100, 100, 100, 100)
    assert sample(counts, 3).sampled.tolist() == sample(counts, 3).sampled.tolist()
    assert (
        sample(counts, 3, n_alike=9).sampled.tolist()
        != sample(counts, 4, n_alike=9).sampled.tolist()
    )


def test_plain_values_have_no_rows():
    found = sample((5, 5, 5, 5)).to_dict()
    assert found.keys() == {"strata", "margin", "confidence"}
    assert math.isclose(found["margin"], 0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"margin": 0}, "`margin`"), ({"margin": 1}, "`margin`"), ({"n_alike": 0}, "`n_alike` must")],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sample((5, 5, 5, 5), **options)
