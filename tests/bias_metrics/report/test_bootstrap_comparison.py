"""Two models on the same resampled rows."""

import numpy as np
import pytest

from bias_metrics import bootstrap_comparison, compare_bias

METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")


def draw(n=1500, noise=1.0):
    rng = np.random.default_rng(4)
    y_true = rng.random(n) < 0.4
    shared = rng.normal(size=n) + y_true
    first, second = (shared + noise * rng.normal(size=n) for _ in range(2))
    return y_true, first, second, {"gay": rng.random(n) < 0.4, "muslim": rng.random(n) < 0.3}


def resample(rows, n_replicates=300, **options):
    rng = np.random.default_rng(1)
    return bootstrap_comparison(*rows, rng=rng, n_replicates=n_replicates, **options)


def every_number(found):
    yield found.overall.auc
    yield found.final_score
    yield from found.power_mean.values()
    for name in ("gay", "muslim"):
        yield from (found.subgroups[name][metric] for metric in METRICS)


@pytest.mark.parametrize("clustered", [False, True])
def test_its_standard_errors_and_intervals_are_those_of_theory(clustered):
    rows = draw()
    codes = np.arange(1500) // 5 if clustered else None
    pairs = zip(
        every_number(resample(rows, clusters=codes)),
        every_number(compare_bias(*rows, clusters=codes)),
        strict=True,
    )
    for drawn, exact in pairs:
        assert drawn.std_error == pytest.approx(exact.std_error, rel=0.2)
        assert drawn.low == pytest.approx(exact.low, abs=exact.std_error)
        assert drawn.high == pytest.approx(exact.high, abs=exact.std_error)
        assert drawn.n_undefined == 0


def test_the_models_are_paired():
    apart = resample(draw(noise=1.0)).overall.auc
    alike = resample(draw(noise=0.1)).overall.auc
    assert alike.std_error < 0.3 * apart.std_error


def test_identical_scores_differ_by_nothing():
    y_true, first, _, groups = draw(400)
    found = resample((y_true, first, first, groups), 20)
    for one in every_number(found):
        assert (one.low, one.high, one.std_error) == (0, 0, 0)


def test_few_errors_reach_as_far_as_the_interval_in_closed_form():
    y_true, first, second, groups = draw(300)
    rows = y_true, first + 5 * y_true, second + 5 * y_true, groups
    drawn, exact = resample(rows, 50), compare_bias(*rows)
    cell = drawn.subgroups["gay"].bpsn_auc
    assert cell.low <= exact.subgroups["gay"].bpsn_auc.low < 0
    assert cell.high >= exact.subgroups["gay"].bpsn_auc.high > 0


@pytest.mark.parametrize("n_clusters", [None, 15])
def test_what_has_no_interval_in_closed_form_has_none_here_for_the_same_reason(n_clusters):
    y_true, first, second, groups = draw(300)
    groups |= {"rare": np.arange(300) == 0, "nobody": np.zeros(300, dtype=bool)}
    codes = None if n_clusters is None else np.arange(300) % n_clusters
    drawn = resample((y_true, first, second, groups), 20, clusters=codes)
    exact = compare_bias(y_true, first, second, groups, clusters=codes)
    for name, cells in drawn.subgroups.items():
        for metric, one in cells.items():
            if exact.subgroups[name][metric].low is None:
                assert one.low is None
                assert one.reason == exact.subgroups[name][metric].reason
            else:
                assert one.low <= one.high
    assert drawn.final_score.low is None
    assert drawn.final_score.reason == exact.final_score.reason
    assert drawn.to_dict()["subgroups"]["rare"]["subgroup_auc"]["reason"]


def test_a_subgroup_may_have_any_name():
    y_true, first, second, groups = draw(300)
    named = {"power_mean": groups["gay"], "overall": groups["muslim"]}
    found = resample((y_true, first, second, named), 20)
    assert list(found.subgroups) == ["power_mean", "overall"]
    assert found.power_mean.bpsn_auc != found.subgroups["power_mean"].bpsn_auc


def test_wrong_options_are_refused():
    with pytest.raises(TypeError, match="`rng` must be a numpy Generator"):
        bootstrap_comparison(*draw(50), rng=7)
    with pytest.raises(ValueError, match="`n_replicates` must be at least 2; got 1"):
        resample(draw(50), 1)
