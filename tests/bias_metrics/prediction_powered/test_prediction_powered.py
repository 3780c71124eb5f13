"""Human identity labels on part of the rows, helped by terms on all of them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bias_metrics import (
    Assistance,
    Rows,
    compare_bias,
    compare_prediction_powered,
    evaluate_bias,
    prediction_powered_bias,
)
from bias_metrics._core.intervals import auc_interval, newcombe_interval, quantile
from bias_metrics.metrics import METRICS, PAIRS, SUBGROUP_METRICS
from bias_metrics.prediction_powered import PoweredMeasurement, PoweredPairing
from bias_metrics.prediction_powered import rows as rows_module
from bias_metrics.prediction_powered.cells import (
    error_of,
    estimate,
    estimate_difference,
    gained,
    tune,
)
from bias_metrics.prediction_powered.model import PoweredModel
from bias_metrics.prediction_powered.rows import PoweredRows
from bias_metrics.report import Options


class Home:
    """A sample: a fifth of the rows is labelled, terms find most mentions and few others."""

    def __init__(self, seed=0, n=3000, found=0.85, wrong=0.01, auc_shift=1.5):
        self.rng = np.random.default_rng(seed)
        self.toxic, gay, old, self.labelled = (
            self.rng.random(n) < share for share in (0.3, 0.2, 0.3, 0.2)
        )
        self.score = self.rng.normal(auc_shift * self.toxic)
        self.human = {"gay": gay, "old": old}
        self.matched = {
            name: self.rng.random(n) < np.where(one, found, wrong)
            for name, one in self.human.items()
        }
        self.clusters = self.rng.integers(0, 150, n)

    def rows(self, clusters=None, background="outside_subgroup"):
        return Rows(self.toxic, self.human, clusters=clusters, background=background)

    def powered(self, **options):
        rows, options = self._checked(options)
        return prediction_powered_bias(rows, self.score, self.matched, self.labelled, **options)

    def compared(self, other, **options):
        rows, options = self._checked(options)
        known = self.matched, self.labelled
        return compare_prediction_powered(rows, self.score, other, *known, **options)

    def _checked(self, options):
        of_rows = {
            name: options.pop(name) for name in ("clusters", "background") if name in options
        }
        return self.rows(**of_rows), options

    def part(self):
        human = {name: one[self.labelled] for name, one in self.human.items()}
        return self.toxic[self.labelled], self.score[self.labelled], human


def cell(report, metric="bnsp_auc", name="gay"):
    return getattr(report.subgroups[name], metric)


def assert_same(one, other, *, exactly):
    """Sums over clusters have no order that is the same for a part of the rows."""
    if exactly:
        assert one == other
    for name, value in vars(one).items():
        known = getattr(other, name)
        assert value == (pytest.approx(known, rel=1e-12) if isinstance(known, float) else known)


def other_scores(rows):
    return rows.score + rows.rng.normal(0, 0.7, rows.score.size)


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
@pytest.mark.parametrize("all_labelled", [False, True], ids=["part", "all"])
def test_what_is_measured_once_is_reported_at_any_confidence_for_any_subgroups(
    monkeypatch, clustered, all_labelled
):
    rows = Home()
    rows.labelled |= all_labelled
    other, clusters = other_scores(rows), rows.clusters if clustered else None
    checked = PoweredRows.of(rows.rows(clusters), rows.matched, rows.labelled)
    measured = PoweredMeasurement(checked, rows.score)
    pairing = PoweredPairing(checked, [rows.score, other])
    options = Options.of(checked.human)
    expected = {
        level: (
            rows.powered(clusters=clusters, confidence=level),
            rows.compared(other, clusters=clusters, confidence=level),
        )
        for level in (0.9, 0.99)
    }
    measured.report(options)
    pairing.comparison(options)
    monkeypatch.setattr(PoweredModel, "pieces", None)
    for level, found in expected.items():
        again = replace(options, confidence=level)
        assert (measured.report(again), pairing.comparison(again)) == found
    some = replace(options, groups=("gay",))
    assert list(measured.report(some, ["gay"]).subgroups) == ["gay"]
    assert list(pairing.comparison(some, ["gay"]).subgroups) == ["gay"]


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_with_all_rows_labelled_every_number_is_the_ordinary_one(clustered, background):
    rows = Home()
    rows.labelled[:] = True
    options = {"background": background, "clusters": rows.clusters if clustered else None}
    ordinary = evaluate_bias(rows.toxic, rows.score, rows.human, **options)
    found = rows.powered(**options)
    assert sum(found.overall.labelled.values()) == found.overall.n
    assert replace(found, overall=ordinary.overall) == ordinary
    other = other_scores(rows)
    compared = rows.compared(other, **options)
    plain = compare_bias(rows.toxic, rows.score, other, rows.human, **options)
    assert compared.subgroups == plain.subgroups
    assert compared.final_score == plain.final_score
    assert compared.overall.labelled == found.overall.labelled


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_terms_that_match_nothing_leave_the_cells_of_the_labelled_rows(clustered):
    rows = Home()
    rows.matched = {name: np.zeros_like(one) for name, one in rows.human.items()}
    clusters = rows.clusters if clustered else None
    part = {"clusters": clusters[rows.labelled]} if clustered else {}
    ordinary = evaluate_bias(*rows.part(), **part)
    found = rows.powered(clusters=clusters)
    other = other_scores(rows)
    compared = rows.compared(other, clusters=clusters)
    labels, scores, human = rows.part()
    plain = compare_bias(labels, scores, other[rows.labelled], human, **part)
    for name in rows.human:
        for metric in SUBGROUP_METRICS:
            assert_same(
                cell(found, metric, name), cell(ordinary, metric, name), exactly=not clustered
            )
            assert compared.subgroups[name][metric] == plain.subgroups[name][metric]
    reason = "terms match too few labelled rows"
    assert found.subgroups["gay"].assisted["bnsp_auc"] == Assistance(reason=reason)


@pytest.mark.parametrize(("n", "too_few"), [(1, True), (2, False)])
def test_terms_must_match_two_labelled_rows_of_a_class(n, too_few):
    rows = Home()
    others, labelled = (
        np.flatnonzero(~rows.toxic & known) for known in (~rows.labelled, rows.labelled)
    )
    rows.matched["gay"] = np.isin(np.arange(3000), [*others[:20], *labelled[:n]])
    reason = rows.powered().subgroups["gay"].assisted["negative_aeg"].reason
    assert (reason == "terms match too few labelled rows") is too_few


def test_perfect_terms_give_nearly_the_numbers_of_all_rows():
    rows = Home(found=1.0, wrong=0.0)
    whole = evaluate_bias(rows.toxic, rows.score, rows.human)
    found = rows.powered()
    for metric in SUBGROUP_METRICS:
        one = cell(found, metric)
        assert found.subgroups["gay"].assisted[metric].weight == pytest.approx(1, abs=0.1)
        assert float(one) == pytest.approx(float(cell(whole, metric)), abs=0.3 * one.std_error)
        assert one.std_error == pytest.approx(cell(whole, metric).std_error, rel=0.15)
    assert found.overall.auc == whole.overall.auc


def test_human_labels_of_unlabelled_rows_do_not_matter():
    rows = Home()
    known = rows.powered()
    rows.human = {name: one & rows.labelled for name, one in rows.human.items()}
    assert rows.powered() == known


def test_the_order_of_rows_does_not_matter():
    rows = Home()
    known = rows.powered()
    order = rows.rng.permutation(rows.toxic.size)
    rows.toxic, rows.score, rows.labelled = (
        one[order] for one in (rows.toxic, rows.score, rows.labelled)
    )
    for masks in (rows.human, rows.matched):
        masks.update({name: one[order] for name, one in masks.items()})
    found = rows.powered()
    for metric in SUBGROUP_METRICS:
        assert float(cell(found, metric)) == pytest.approx(float(cell(known, metric)), rel=1e-12)


def by_definition(toxic, score, human, matched, labelled, metric):
    """A cell from its definition: slow placements, the best weight, the bias removed."""

    def auc(mask, rows):
        pair = PAIRS[metric]
        of = {"positive": toxic & rows, "negative": ~toxic & rows}
        x = np.flatnonzero(of[pair.x] & mask)
        y = np.flatnonzero(of[pair.y] & (mask if pair.inside else ~mask))
        wins = (score[x][:, None] > score[y]) + (score[x][:, None] == score[y]) / 2
        wins = 1 - wins if pair.flip else wins
        each = np.zeros(toxic.size)
        each[x] = (wins.mean(axis=1) - wins.mean()) / np.sqrt(x.size * (x.size - 1))
        each[y] = (wins.mean(axis=0) - wins.mean()) / np.sqrt(y.size * (y.size - 1))
        return wins.mean(), each

    value, on_value = auc(human, labelled)
    (part, on_part), (whole, on_whole) = auc(matched, labelled), auc(matched, labelled | ~labelled)
    shift, on_shift = part - whole, on_part - on_whole
    squares = (on_shift**2).sum()
    weight = (on_value * on_shift).sum() / squares
    residual = (on_value - weight * on_shift) / (1 - on_shift**2 / squares)
    bias = -(on_shift**2 * residual).sum() / squares
    each = residual - shift * on_shift * residual / squares
    error = np.sqrt((each**2).sum())
    return value - weight * shift - bias - METRICS[metric].centre, weight, error


@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
def test_a_cell_is_that_of_its_definition(metric):
    rows = Home(n=1500)
    known = rows.human["gay"], rows.matched["gay"], rows.labelled
    value, weight, error = by_definition(rows.toxic, rows.score, *known, metric)
    found = rows.powered()
    assert cell(found, metric).std_error == pytest.approx(error, rel=1e-9)
    assert found.subgroups["gay"].assisted[metric].weight == pytest.approx(weight, rel=1e-9)
    assert float(cell(found, metric)) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("metric", ["bnsp_auc", "negative_aeg"])
def test_the_error_is_that_of_leaving_each_cluster_out(metric):
    rows = Home(n=6000)
    clusters = rows.rng.integers(0, 40, 6000)
    rows.score += 0.5 * rows.rng.normal(size=40)[clusters]
    known = rows.toxic, rows.score, rows.human["gay"], rows.matched["gay"], rows.labelled

    def measure(kept):
        toxic, score, human, matched, labelled = (one[kept] for one in known)
        found = prediction_powered_bias(
            Rows(toxic, {"gay": human}, clusters=clusters[kept]), score, {"gay": matched}, labelled
        )
        return cell(found, metric)

    without = np.array([float(measure(clusters != one)) for one in range(40)])
    jackknife = np.sqrt(39 / 40 * ((without - without.mean()) ** 2).sum())
    assert measure(clusters >= 0).std_error == pytest.approx(jackknife, rel=0.1)


def test_clusters_of_one_row_give_the_errors_of_independent_rows():
    rows = Home()
    found, plain = rows.powered(clusters=np.arange(rows.toxic.size)), rows.powered()
    for metric in SUBGROUP_METRICS:
        assert cell(found, metric).std_error == pytest.approx(
            cell(plain, metric).std_error, rel=1e-9
        )
        assert cell(found, metric).n_clusters is not None
        assert cell(plain, metric).n_clusters is None
    assert found.final_score.std_error == pytest.approx(plain.final_score.std_error, rel=1e-9)
    assert found.final_score.row_std_error is None


def test_rows_repeated_in_clusters_are_worth_no_more_than_once():
    rows = Home(n=1500)
    once = rows.powered(clusters=np.arange(1500))
    for name in ("toxic", "score", "labelled"):
        setattr(rows, name, np.tile(getattr(rows, name), 3))
    for masks in (rows.human, rows.matched):
        masks.update({name: np.tile(one, 3) for name, one in masks.items()})
    thrice = rows.powered(clusters=np.tile(np.arange(1500), 3))
    assert cell(thrice).std_error == pytest.approx(cell(once).std_error, rel=0.05)


def test_the_aggregates_are_those_of_the_cells():
    found = Home().powered()
    values = [float(cell(found, "bnsp_auc", name)) for name in found.subgroups]
    mean = (sum(one**-5 for one in values) / 2) ** (-1 / 5)
    assert float(found.power_mean.bnsp_auc) == pytest.approx(mean)
    quarters = found.overall.auc, *found.power_mean.by_metric().values()
    assert float(found.final_score) == pytest.approx(sum(map(float, quarters)) / 4)
    assert found.final_score.low < found.final_score.value < found.final_score.high


def test_a_difference_has_one_weight_for_both_models_and_is_that_of_their_cells():
    rows = Home()
    found = rows.compared(other_scores(rows))
    for metric in SUBGROUP_METRICS:
        one = found.subgroups["gay"][metric]
        assert one.first == float(cell(found.first, metric))
        assert one.value == pytest.approx(one.first - one.second)
        assert found.first.subgroups["gay"].assisted == found.second.subgroups["gay"].assisted
    assert found.final_score.value == pytest.approx(
        float(found.first.final_score) - float(found.second.final_score)
    )
    positives, n = int((rows.labelled & rows.toxic).sum()), int(rows.labelled.sum())
    assert found.overall.labelled == {"positive": positives, "negative": n - positives}
    assert found.to_dict()["overall"]["labelled"] == found.overall.labelled


@pytest.mark.parametrize(
    ("metric", "few"),
    [("subgroup_auc", True), ("bnsp_auc", True), ("positive_aeg", False), ("negative_aeg", False)],
)
def test_a_difference_with_few_errors_comes_from_both_intervals(metric, few):
    rows = Home()
    found = rows.compared(other_scores(rows))
    one, a, b = (
        found.subgroups["old"][metric],
        *(cell(report, metric, "old") for report in (found.first, found.second)),
    )
    assert found.first.subgroups["old"].assisted[metric].gain > 1
    bias, centre = found.first.subgroups["old"], METRICS[metric].centre
    sizes = {"positive_aeg": bias.n_positive, "negative_aeg": bias.n_negative}
    smaller = sizes.get(metric, min(sizes.values()))
    errors = [smaller * min(x.value + centre, 1 - x.value - centre) for x in (a, b)]
    assert (min(errors) < 20) == few
    down = one.value - one.low
    together = (a.std_error**2 + b.std_error**2 - one.std_error**2) / 2
    correlation = together / (a.std_error * b.std_error)
    (a_down, a_up), (b_down, b_up) = ((x.value - x.low, x.high - x.value) for x in (a, b))
    square = (1 - correlation) * math.hypot(a_down, b_up) ** 2
    square += correlation * max(a_down - b_down, b_up - a_up, 0) ** 2
    assert (down == pytest.approx(math.sqrt(square))) == few
    # Else from the error of the difference, with Student's quantile.
    assert few or 1.9599 < down / one.std_error < 2.1


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_terms_make_a_difference_more_precise(clustered):
    rows = Home()
    clusters = rows.clusters if clustered else None
    other = other_scores(rows)
    found = rows.compared(other, clusters=clusters)
    labels, scores, human = rows.part()
    at = None if clusters is None else clusters[rows.labelled]
    plain = compare_bias(labels, scores, other[rows.labelled], human, clusters=at)
    for metric in SUBGROUP_METRICS:
        error = found.subgroups["old"][metric].std_error
        assert error < 0.8 * plain.subgroups["old"][metric].std_error
        assert (found.subgroups["old"][metric].n_clusters is None) == (not clustered)
        gain = found.first.subgroups["old"].assisted[metric].gain
        assert 1 < gain < (plain.subgroups["old"][metric].std_error / error) ** 2


def test_the_gain_is_the_ratio_of_variances_less_its_own_error():
    rows = Home()
    found, plain = rows.powered(), evaluate_bias(*rows.part())
    ratio = (cell(plain).std_error / cell(found).std_error) ** 2
    n = found.subgroups["gay"].n_positive
    gain = found.subgroups["gay"].assisted["bnsp_auc"].gain
    assert gain == pytest.approx(ratio / (1 + np.sqrt(2 / n)))


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
@pytest.mark.parametrize("auc_shift", [0.5, 1.5], ids=["many errors", "few errors"])
@pytest.mark.parametrize("metric", ["bpsn_auc", "negative_aeg"])
def test_an_interval_is_that_of_as_many_rows_as_the_labelled_ones_are_worth(
    metric, auc_shift, clustered
):
    rows = Home(auc_shift=auc_shift)
    clusters = rows.clusters if clustered else None
    checked = PoweredRows.of(rows.rows(clusters), rows.matched, rows.labelled)
    pieces = PoweredModel(checked, rows.score).pieces("gay")[metric]
    powered = rows.powered(clusters=clusters, confidence=0.9)
    one = cell(powered, metric)
    centre = 0.5 if metric.endswith("aeg") else 0.0
    gain = powered.subgroups["gay"].assisted[metric].gain
    assert gain > 1.1
    worth = [n * gain for n in pieces.sizes]
    tuning = tune(pieces.sums.each, pieces.on_shift)
    sums = estimate(pieces)[0][1]
    assert sums.each == pytest.approx(
        tuning.influences(pieces.sums.each, pieces.shift, pieces.on_shift)
    )
    if clustered:
        options = {"n_clusters": pieces.sums.n_clusters}
        z = quantile(0.9, pieces.sums.freedom)
    else:
        options = {"freedom": min(sums.freedom_by_fourths, min(pieces.sizes) - 2)}
        z = quantile(0.9)
        positives = np.count_nonzero(rows.labelled & rows.toxic & ~rows.human["gay"])
        negatives = np.count_nonzero(rows.labelled & ~rows.toxic & rows.human["gay"])
        others = np.count_nonzero(rows.labelled & ~rows.toxic & ~rows.human["gay"])
        of_metric = {"bpsn_auc": {positives, negatives}, "negative_aeg": {others, negatives}}
        assert set(pieces.sizes) == of_metric[metric]
    low, high = auc_interval(one.value + centre, one.std_error, *worth, z, **options)
    few = min(pieces.sizes) * min(one.value, 1 - one.value) < 20
    assert metric == "negative_aeg" or few == (auc_shift == 1.5)
    if not clustered and metric == "bpsn_auc" and few:
        by_counts = newcombe_interval(one.value, *worth, z)
        low, high = min(low, by_counts[0]), max(high, by_counts[1])
    assert (one.low, one.high) == pytest.approx((low - centre, high - centre))


def test_a_model_and_itself_do_not_differ():
    rows = Home()
    found = rows.compared(rows.score)
    differences = [*found.subgroups["gay"].values(), found.final_score, found.overall.auc]
    assert {(one.value, one.low, one.high) for one in differences} == {(0.0, 0.0, 0.0)}


def test_a_cell_without_errors_is_left_alone_and_says_why():
    rows = Home()
    rows.score = rows.toxic + 0.1 * rows.rng.random(rows.toxic.size)
    found = rows.powered()
    assert cell(found).value == 1
    reason = "the labelled rows have no errors there"
    assert found.subgroups["gay"].assisted["bnsp_auc"].reason == reason
    compared = rows.compared(other_scores(rows))
    assert compared.first.subgroups["gay"].assisted["bnsp_auc"].reason == reason
    assert_same(cell(found), cell(evaluate_bias(*rows.part())), exactly=True)


def test_a_subgroup_without_labelled_rows_is_undefined_whatever_terms_say():
    rows = Home()
    rows.human["gay"] &= ~rows.labelled
    found = rows.powered()
    assert cell(found).value is None
    assert found.subgroups["gay"].assisted["bnsp_auc"].reason == "no subgroup positives"
    assert found.final_score.value is None
    compared = rows.compared(other_scores(rows))
    assert compared.subgroups["gay"].bnsp_auc.reason == "no subgroup positives"
    assert compared.final_score.value is None
    assert compared.overall.auc.value is not None


def test_one_model_that_is_always_wrong_leaves_no_error_of_a_power_mean():
    rows = Home()
    wrong = np.where(rows.human["gay"], -1.0 * rows.toxic, rows.score)
    right, rows.score = rows.score, wrong
    for first, second in ((wrong, right), (right, wrong)):
        rows.score = first
        found = rows.compared(second)
        one = found.power_mean["subgroup_auc"]
        assert (one.low, one.reason) == (None, "gay is 0, where a power mean has no derivative")
        assert found.power_mean["bpsn_auc"].low is not None
        assert found.overall.auc.low is not None


def test_rows_of_one_class_have_no_overall_auc_with_clusters_and_without():
    rows = Home()
    rows.toxic[:] = False
    for options in ({}, {"clusters": rows.clusters}):
        found = rows.powered(**options)
        assert found.overall.auc.value is None
        assert found.final_score.value is None
        assert cell(found, "negative_aeg").value is not None


def test_few_clusters_are_no_evidence():
    rows = Home()
    found = rows.powered(clusters=rows.clusters % 15)
    assert cell(found).low is None
    assert cell(found).reason.endswith("clusters where 20 are needed")
    assert found.subgroups["gay"].assisted["bnsp_auc"].weight == 0


def test_an_estimate_outside_its_range_is_not_shown():
    rows = Home()
    checked = PoweredRows.of(rows.rows(), rows.matched, rows.labelled)
    both = [
        replace(PoweredModel(checked, scores).pieces("gay")["bnsp_auc"], shift=-1.0)
        for scores in (rows.score, other_scores(rows))
    ]
    outside = Assistance(reason="with terms the estimate would be outside its range")
    assert estimate(both[0]) == ((both[0].ordinary, both[0].sums), outside)
    found = estimate_difference(tuple(both))
    assert found == (None, tuple((one.ordinary, one.sums) for one in both), outside)
    known = PoweredModel(checked, other_scores(rows)).pieces("gay")["bnsp_auc"]
    for pair in ((both[0], known), (known, both[0])):
        assert estimate_difference(pair)[2] == outside


@pytest.mark.parametrize(("worth", "freedom"), [(2.0, 1), (2.5, 1), (3.0, 1), (4.0, 2)])
def test_a_difference_of_few_labelled_rows_has_two_degrees_less_but_one(worth, freedom):
    rows = Home()
    checked = PoweredRows.of(rows.rows(), rows.matched, rows.labelled)
    both = tuple(
        replace(PoweredModel(checked, scores).pieces("gay")["bnsp_auc"], sizes=(worth, 500.0))
        for scores in (rows.score, other_scores(rows))
    )
    apart, ((a, _), (b, _)), _ = estimate_difference(both)
    found = apart.difference(a.at(0.95), b.at(0.95), 0.95)
    t = abs(found.value) / found.std_error
    inside = {
        1: 2 / np.pi * np.arctan(t),
        2: t / np.hypot(t, np.sqrt(2)),
    }  # Student's, in closed form
    assert found.p_value == pytest.approx(1 - inside[freedom])


def test_a_difference_that_terms_make_less_precise_is_left_alone():
    rows = Home(n=800, found=0.1, wrong=0.1)
    other = other_scores(rows)
    found = rows.compared(other)
    labels, scores, human = rows.part()
    plain = compare_bias(labels, scores, other[rows.labelled], human)
    reasons = {
        (name, metric): one.reason
        for name, bias in found.first.subgroups.items()
        for metric, one in bias.assisted.items()
    }
    alone = [key for key, one in reasons.items() if one == "terms do not make it more precise"]
    assert alone
    for name, metric in alone:
        known = plain.subgroups[name][metric]
        assert found.subgroups[name][metric].ends == known.ends


def test_a_weight_above_1_is_1_and_a_negative_one_0():
    on_human = np.array([0.3, -0.1, -0.2, 0.0])
    largest = tune(on_human, 0.5 * on_human)
    assert (largest.weight, largest.moves.tolist()) == (1, [0, 0, 0, 0])
    assert tune(on_human, 0.8 * on_human).weight == 1
    leverage = on_human**2 / (on_human @ on_human)
    assert largest.kept == pytest.approx(1 - leverage)
    assert tune(on_human, -on_human) is None
    assert tune(on_human, 0 * on_human) is None
    assert tune(on_human, np.array([1.0, 0, 0, 0])) is None
    assert error_of(on_human) == pytest.approx(np.sqrt(0.14))
    assert (gained(0.2, 0.1), gained(0.2, 0.0)) == (pytest.approx(4), math.inf)


def test_records_have_the_same_keys_and_the_gains():
    found = Home().powered()
    records = found.rows()
    assert len({tuple(one) for one in records}) == 1
    assert records[0]["gain"] == found.subgroups["gay"].assisted["subgroup_auc"].gain > 1
    assert records[-1]["gain"] is None
    plain = found.to_dict()
    assert plain["overall"]["labelled"] == found.overall.labelled
    assert set(plain["subgroups"]["gay"]["assisted"]["bnsp_auc"]) == {"weight", "gain"}
    assert Assistance(reason="why").to_dict() == {"weight": 0.0, "gain": 1.0, "reason": "why"}


def test_labels_chosen_by_terms_are_refused():
    rows = Home()
    rows.labelled = rows.rng.random(3000) < np.where(rows.matched["gay"], 0.6, 0.1)
    with pytest.raises(ValueError, match="random sample of the rows of each class") as error:
        rows.powered()
    assert "`matched['gay']`" in str(error.value)


def test_labels_chosen_by_scores_are_refused():
    rows = Home()
    rows.labelled = rows.rng.random(3000) < np.where(rows.score > 1, 0.5, 0.1)
    with pytest.raises(ValueError, match=r"mean of `y_score` of .* on labelled positives"):
        rows.powered()


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
@pytest.mark.parametrize("many", [False, True], ids=["few labelled", "many labelled"])
def test_how_far_two_means_are_apart_is_counted_in_the_larger_of_two_errors(clustered, many):
    rng = np.random.default_rng(6)
    n_part, n_other = (300, 20) if many else (20, 300)
    part, other = rng.random(n_part), 0.3 + 2 * rng.random(n_other)
    codes = np.arange(320) % 16 if clustered else np.arange(320)
    labelled = np.arange(320) < n_part
    z, mean, of_others = rows_module._apart(np.append(part, other), labelled, codes)
    assert (mean, of_others) == pytest.approx((part.mean(), other.mean()))
    every = np.append((part - part.mean()) / n_part, -(other - other.mean()) / n_other)
    own = sum(every[codes == one].sum() ** 2 for one in np.unique(codes))
    pooled = np.append(part, other).var() * (1 / n_part + 1 / n_other)
    expected = (part.mean() - other.mean()) / np.sqrt(max(own, pooled))
    assert z == pytest.approx(expected)


def test_means_of_fewer_than_twenty_rows_or_of_equal_values_are_not_apart():
    values, codes = np.arange(39.0), np.arange(39)
    for n in (19, 20):  # and as few of the others
        assert rows_module._apart(values, codes < n, codes)[0] == 0
    assert rows_module._apart(np.ones(40), np.arange(40) < 20, np.arange(40))[0] == 0


def test_the_class_whose_labels_were_chosen_is_named():
    rows = Home()
    rows.labelled[rows.toxic] = (rows.score > 1.5)[rows.toxic]
    with pytest.raises(ValueError, match=r"mean of `y_score` of .* on labelled positives"):
        rows.powered()


def test_weights_are_refused():
    rows = Home()
    weighted = Rows(rows.toxic, rows.human, sample_weight=np.ones(3000))
    with pytest.raises(ValueError, match="prediction-powered inference"):
        prediction_powered_bias(weighted, rows.score, rows.matched, rows.labelled)


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_aggregates_count_clusters_where_there_are_any(clustered):
    rows = Home()
    found = rows.powered(clusters=rows.clusters if clustered else None)
    for one in (found.final_score, found.power_mean.bpsn_auc):
        assert (one.n_clusters is not None) == clustered


def test_more_labels_of_one_class_are_fine():
    rows = Home()
    rows.labelled = rows.rng.random(3000) < np.where(rows.toxic, 0.5, 0.1)
    assert cell(rows.powered()).low is not None


def test_whole_clusters_may_be_labelled():
    rows = Home()
    rows.matched["gay"] |= rows.clusters < 60  # a few threads are about it
    rows.labelled = np.isin(rows.clusters, rows.rng.permutation(150)[:40])
    assert cell(rows.powered(clusters=rows.clusters)).low is not None


def test_too_few_rows_to_compare_are_no_reason_to_refuse():
    rows = Home(n=60)
    rows.labelled = rows.score < np.median(rows.score)
    rows.labelled[rows.toxic] = True
    assert sum(rows.powered().overall.labelled.values()) == rows.labelled.sum()


def test_names_must_agree_and_some_rows_be_labelled():
    rows = Home()
    rows.matched.pop("old")
    with pytest.raises(ValueError, match="must have the names of `subgroups`; in only one: old"):
        rows.powered()
    rows = Home()
    rows.labelled[:] = False
    with pytest.raises(ValueError, match="`labelled` must be true of some rows; got none of 3000"):
        rows.powered()
