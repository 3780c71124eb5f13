"""The bootstrap, against rows that are really repeated and against theoretical standard errors."""

import numpy as np
import pytest

from bias_metrics import evaluate_bias
from bias_metrics._core.influence import rank_rows
from bias_metrics.report.bootstrap import bootstrap_bias
from bias_metrics.report.replicates import FINAL, OVERALL, RESAMPLED, Resampling


def draw(n=1200):
    rng = np.random.default_rng(0)
    y_true = rng.random(n) < 0.4
    y_score = np.round(rng.random(n) + 0.3 * y_true, 1)
    return y_true, y_score, {"gay": rng.random(n) < 0.4, "muslim": rng.random(n) < 0.3}


class Drawn:
    """A generator that draws the rows it was told, class by class."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def integers(self, low, high, n):
        del low
        drawn = self.draws.pop(0)
        assert len(drawn) == n == high
        return drawn


@pytest.mark.parametrize("clustered", [False, True])
def test_a_replicate_is_the_report_of_the_repeated_rows(clustered):
    y_true, y_score, masks = draw(200)
    rng = np.random.default_rng(3)
    ranked = rank_rows(y_true, y_score)
    members = {name: ranked.members(np.flatnonzero(mask)) for name, mask in masks.items()}
    codes = np.arange(200) % 40 if clustered else None
    resampling = Resampling(ranked, members, codes, -5.0, tuple(masks))
    if clustered:
        clusters = rng.integers(0, 40, 40)
        rows = np.concatenate([np.flatnonzero(codes == one) for one in clusters])
        drawn = Drawn(clusters)
    else:
        positions = [rng.integers(0, one, one) for one in (y_true.sum(), (~y_true).sum())]
        rows_of = [np.flatnonzero(y_true), np.flatnonzero(~y_true)]
        sorted_rows = [rows[np.argsort(ranked.position[rows])] for rows in rows_of]
        rows = np.concatenate(
            [of_class[at] for of_class, at in zip(sorted_rows, positions, strict=True)]
        )
        drawn = Drawn(*positions)
    found = dict(resampling.draw(drawn))
    kept = {name: mask[rows] for name, mask in masks.items()}
    expected = evaluate_bias(y_true[rows], y_score[rows], kept, intervals=False)
    assert found[OVERALL] == pytest.approx(expected.overall.auc.value, abs=1e-12)
    assert found[FINAL] == pytest.approx(expected.final_score.value, abs=1e-12)
    for name in masks:
        for metric in RESAMPLED:
            value = getattr(expected.subgroups[name], metric).value
            assert found[name, metric] == pytest.approx(value, abs=1e-12)


def test_its_standard_errors_are_those_of_theory():
    y_true, y_score, masks = draw()
    report = evaluate_bias(y_true, y_score, masks)
    spread = bootstrap_bias(y_true, y_score, masks, rng=np.random.default_rng(1), n_replicates=500)
    # 500 replicates know a standard deviation to 3 %; five of those.
    assert spread.overall.auc.std_error == pytest.approx(report.overall.auc.std_error, rel=0.16)
    assert spread.final_score.std_error == pytest.approx(report.final_score.std_error, rel=0.16)
    for name in masks:
        for metric in RESAMPLED:
            cell = getattr(report.subgroups[name], metric)
            drawn = spread.subgroups[name][metric]
            assert drawn.std_error == pytest.approx(cell.std_error, rel=0.16)
            assert drawn.low == pytest.approx(cell.low, abs=0.02)
            assert drawn.n_undefined == 0


def test_clusters_of_repeated_rows_widen_it():
    y_true, y_score, masks = (draw(300)[0], draw(300)[1], draw(300)[2])
    twice = np.tile(y_true, 4), np.tile(y_score, 4), {k: np.tile(m, 4) for k, m in masks.items()}
    rows = bootstrap_bias(*twice, rng=np.random.default_rng(1), n_replicates=200)
    clusters = bootstrap_bias(
        *twice,
        rng=np.random.default_rng(1),
        n_replicates=200,
        clusters=np.tile(np.arange(300), 4),
    )
    ratio = clusters.overall.auc.std_error / rows.overall.auc.std_error
    assert ratio == pytest.approx(2, rel=0.25)


def test_a_replicate_without_a_group_is_counted_and_not_dropped():
    y_true = np.arange(40) % 2 == 1
    rare = np.zeros(40, dtype=bool)
    rare[:3] = True  # one positive, two negatives
    spread = bootstrap_bias(
        y_true,
        np.linspace(0, 1, 40),
        {"rare": rare},
        rng=np.random.default_rng(0),
        n_replicates=300,
    )
    missing = spread.subgroups["rare"]["subgroup_auc"].n_undefined
    # A given positive of 20 is missed with probability (19/20)^20 = .358, both negatives
    # of 20 with .122: .436 in all, known to .029 from 300 replicates.
    assert missing / 300 == pytest.approx(0.436, abs=0.09)
    assert spread.final_score.n_undefined >= missing
    assert spread.overall.auc.n_undefined == 0


def test_a_group_that_is_never_there_has_no_spread():
    y_true, y_score, _ = draw(100)
    spread = bootstrap_bias(
        y_true,
        y_score,
        {"none": np.zeros(100, dtype=bool)},
        rng=np.random.default_rng(0),
        n_replicates=10,
    )
    assert spread.subgroups["none"]["bpsn_auc"].low is None
    assert spread.power_mean["bpsn_auc"].n_undefined == 10
    only_positives = bootstrap_bias(
        [1, 1], [0.1, 0.2], {}, rng=np.random.default_rng(0), n_replicates=5
    )
    assert only_positives.overall.auc.n_undefined == 5


def test_the_same_generator_gives_the_same_report():
    rows = draw(200)
    one, other = (
        bootstrap_bias(*rows, rng=np.random.default_rng(7), n_replicates=20) for _ in range(2)
    )
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
