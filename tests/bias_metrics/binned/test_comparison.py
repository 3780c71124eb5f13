"""Two models by counts: the differences of the exact comparison, with wider bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import Rows, ScoreCounts, compare_bias


def two_models(seed, n=600):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.3
    groups = {name: rng.random(n) < share for name, share in {"gay": 0.3, "muslim": 0.2}.items()}
    shared = rng.normal(1.5 * y_true, 1)
    scores = [shared + 0.4 * rng.normal(size=n) + shift * groups["gay"] for shift in (0, 0.5)]
    return Rows(y_true, groups), *scores


def counts_of(rows, *scores, **options):
    return [ScoreCounts.of(rows, score, shard="all", **options) for score in scores]


def differences(comparison):
    others = {**comparison.power_mean, "final": comparison.final_score}
    return {**comparison.subgroups, None: others | {"auc": comparison.overall.auc}}


@given(st.integers(0, 10**6), st.sampled_from(["outside_subgroup", "no_identity"]))
def test_every_interval_holds_that_of_the_paired_comparison(seed, background):
    rows, a, b = two_models(seed)
    options = {"background": background, "confidence": 0.9}
    first, second = counts_of(rows, a, b, bits=6)
    found = differences(first.compare(second, **options))
    exact = differences(compare_bias(rows.y_true, a, b, rows.subgroups, **options))
    assert found.keys() == exact.keys()
    for name, of_group in exact.items():
        for metric, cell in of_group.items():
            own = found[name][metric]
            assert own.low <= cell.low
            assert own.high >= cell.high
            if cell.size_high is not None:
                assert own.size_low <= cell.size_low
                assert own.size_high >= cell.size_high


def test_values_and_bounds_are_those_of_the_two_reports():
    rows, a, b = two_models(1)
    first, second = counts_of(rows, a, b)
    found = first.compare(second).subgroups["gay"].bpsn_auc
    own, other = (one.report().subgroups["gay"].bpsn_auc for one in (first, second))
    assert (found.first, found.second, found.value) == (
        own.value,
        other.value,
        own.value - other.value,
    )
    assert (found.low, found.high) == (own.low - other.high, own.high - other.low)
    assert found.std_error == own.std_error + other.std_error
    assert found.p_value is None


def test_an_undefined_number_has_an_undefined_difference():
    rows = Rows([0, 1, 0], {"gay": [1, 0, 0]})
    first, second = counts_of(rows, [0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    found = first.compare(second)
    assert found.subgroups["gay"].subgroup_auc.reason == "no subgroup positives"
    assert found.subgroups["gay"].positive_aeg.size_high is None


def test_counts_of_other_rows_are_refused():
    rows, a, b = two_models(1)
    first, second = counts_of(rows, a, b)
    with pytest.raises(ValueError, match="must be of the same rows; their shards differ"):
        first.compare(ScoreCounts.of(rows, b, shard="others"))
    renamed = Rows(rows.y_true, dict(zip("ab", rows.subgroups.values(), strict=True)))
    with pytest.raises(ValueError, match="must be of the same rows; their names differ"):
        first.compare(ScoreCounts.of(renamed, b, shard="all"))
    fewer = rows.within(np.arange(rows.n) > 0)
    with pytest.raises(ValueError, match="of the same rows; their numbers of rows differ"):
        second.compare(ScoreCounts.of(fewer, b[1:], shard="all"))
