"""The bootstrap, against rows that are really repeated and against theoretical standard errors."""

import numpy as np
import pytest

from bias_metrics import bootstrap_bias, evaluate_bias
from bias_metrics.metrics import SUBGROUP_METRICS


def draw(n=1200):
    rng = np.random.default_rng(0)
    y_true = rng.random(n) < 0.4
    y_score = np.round(rng.random(n) + 0.3 * y_true, 1)
    return y_true, y_score, {"gay": rng.random(n) < 0.4, "muslim": rng.random(n) < 0.3}


def resample(rows, n_replicates, seed=1, **options):
    rng = np.random.default_rng(seed)
    return bootstrap_bias(*rows, rng=rng, n_replicates=n_replicates, **options)


@pytest.mark.parametrize("clustered", [False, True])
def test_its_numbers_are_those_of_the_repeated_rows(clustered):
    y_true, y_score, masks = draw(200)
    codes = np.arange(200) % 40 if clustered else None
    found = resample((y_true, y_score, masks), 2, clusters=codes)
    rng, drawn = np.random.default_rng(1), []
    for _ in range(2):
        if clustered:
            clusters = rng.integers(0, 40, 40)
            rows = np.concatenate([np.flatnonzero(codes == one) for one in clusters])
        else:
            of_class = np.flatnonzero(y_true), np.flatnonzero(~y_true)
            rows = np.concatenate([one[rng.integers(0, one.size, one.size)] for one in of_class])
        kept = {name: mask[rows] for name, mask in masks.items()}
        report = evaluate_bias(y_true[rows], y_score[rows], kept, intervals=False)
        drawn.append(
            {(None, "auc"): report.overall.auc, (None, "final_score"): report.final_score}
            | {(None, name): getattr(report.power_mean, name) for name in SUBGROUP_METRICS[:3]}
            | {
                (name, metric): getattr(bias, metric)
                for name, bias in report.subgroups.items()
                for metric in SUBGROUP_METRICS
            }
        )
    assert found.numbers.keys() == drawn[0].keys()
    for key, one in found.numbers.items():
        pair = [float(each[key]) for each in drawn]
        assert one.std_error == pytest.approx(np.std(pair, ddof=1), abs=1e-12)
        # Percentiles of two values lie between them: 2.5 % of the way from each.
        ends = min(pair) + np.array([0.025, 0.975]) * abs(pair[0] - pair[1])
        assert (one.low, one.high) == pytest.approx(tuple(ends), abs=1e-12)


def test_its_standard_errors_are_those_of_theory():
    rows = draw()
    report, spread = evaluate_bias(*rows), resample(rows, 500)
    # 500 replicates know a standard deviation to 3 %; five of those.
    assert spread.numbers[None, "auc"].std_error == pytest.approx(
        report.overall.auc.std_error, rel=0.16
    )
    assert spread.numbers[None, "final_score"].std_error == pytest.approx(
        report.final_score.std_error, rel=0.16
    )
    for name, bias in report.subgroups.items():
        for metric in SUBGROUP_METRICS:
            cell, drawn = getattr(bias, metric), spread.numbers[name, metric]
            assert drawn.std_error == pytest.approx(cell.std_error, rel=0.16)
            assert (drawn.low, drawn.high) == pytest.approx((cell.low, cell.high), abs=0.02)
            assert drawn.n_undefined == 0


def test_clusters_of_repeated_rows_widen_it():
    y_true, y_score, masks = draw(300)
    four = np.tile(y_true, 4), np.tile(y_score, 4), {k: np.tile(m, 4) for k, m in masks.items()}
    rows, clusters = (
        resample(four, 200, clusters=codes).numbers[None, "auc"].std_error
        for codes in (None, np.tile(np.arange(300), 4))
    )
    assert clusters / rows == pytest.approx(2, rel=0.25)


def test_a_replicate_without_a_group_is_counted_and_not_dropped():
    y_true = np.arange(40) % 2 == 1
    rare = np.arange(40) < 3  # one positive, two negatives
    spread = resample((y_true, np.linspace(0, 1, 40), {"rare": rare}), 300, seed=0).numbers
    cell = spread["rare", "subgroup_auc"]
    # A given positive of 20 is missed with probability (19/20)^20 = .358, both negatives
    # of 20 with .122: .436 in all, known to .029 from 300 replicates.
    assert cell.n_undefined / 300 == pytest.approx(0.436, abs=0.09)
    assert (cell.low, cell.high) == (None, None)
    assert cell.std_error is not None
    assert spread[None, "final_score"].n_undefined >= cell.n_undefined
    assert spread[None, "auc"].n_undefined == 0


def test_one_replicate_with_a_number_has_no_spread():
    y_true, rare = np.arange(40) % 2 == 1, np.arange(40) < 3
    rows = y_true, np.linspace(0, 1, 40), {"rare": rare}
    cells = [resample(rows, 2, seed).numbers["rare", "subgroup_auc"] for seed in range(12)]
    assert {cell.n_undefined for cell in cells} == {0, 1, 2}
    for cell in cells:
        assert (cell.std_error is None) is (cell.n_undefined > 0)


def test_a_group_that_is_never_there_has_no_spread():
    y_true, y_score, _ = draw(100)
    spread = resample((y_true, y_score, {"none": np.zeros(100, dtype=bool)}), 10).numbers
    assert spread["none", "bpsn_auc"].std_error is None
    assert spread[None, "bpsn_auc"].n_undefined == 10
    assert resample(([1, 1], [0.1, 0.2], {}), 5).numbers[None, "auc"].n_undefined == 5


def test_one_cluster_is_always_drawn_and_no_rows_have_no_clusters():
    y_true, y_score, masks = draw(100)
    [alone] = {
        one.std_error
        for one in resample(
            (y_true, y_score, masks), 9, clusters=np.zeros(100, int)
        ).numbers.values()
    }
    assert alone == 0
    assert resample(([], [], {}), 5, clusters=[]).numbers[None, "auc"].n_undefined == 5


def test_the_same_generator_gives_the_same_report():
    one, other = (resample(draw(200), 20) for _ in range(2))
    assert one == other


@pytest.mark.parametrize(
    ("option", "error", "message"),
    [
        ({"rng": 0}, TypeError, "`rng` must be a numpy Generator"),
        ({"n_replicates": 1}, ValueError, "`n_replicates` must be at least 2; got 1"),
        ({"confidence": 95}, ValueError, "`confidence` must be between 0 and 1"),
    ],
)
def test_wrong_options_are_refused(option, error, message):
    with pytest.raises(error, match=message):
        bootstrap_bias(*draw(100), **({"rng": np.random.default_rng(0)} | option))
