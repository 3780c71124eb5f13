"""A sample drawn by strata: plain formulas, R's survey, and what is refused."""

import io
import subprocess

import numpy as np
import pytest
from support.r import require_r

from bias_metrics import Rows, compare_bias, decision_indicators, evaluate_bias
from bias_metrics._core.strata import Strata
from bias_metrics.report.evaluation import report_of
from bias_metrics.report.steps import Options

SURVEY = """
suppressMessages(library(survey))
rows <- read.csv(file("stdin"))
design <- svydesign(ids = ~unit, strata = ~stratum, weights = ~weight, data = rows, nest = TRUE)
own <- subset(design, mask == 1)
found <- c(SE(svymean(~right, design)), SE(svymean(~right, own)),
  SE(svyratio(~false, ~harmless, design)), SE(svytotal(~moves, design)), degf(design))
cat(sprintf("%.17g", found), "\\n")
"""


def drawn(seed, n_units=None, n=900):
    """Rows of three strata, of which the first was drawn ten times as often; or clusters of it."""
    rng = np.random.default_rng(seed)
    units = np.arange(n) if n_units is None else rng.integers(0, n_units, n)
    stratum = (units * 3 // (units.max() + 1)).astype(np.intp)
    y_true = rng.random(n) < np.array([0.7, 0.3, 0.1])[stratum]
    y_score = rng.normal(y_true + np.array([1.5, 0.5, 0])[stratum])
    mask = rng.random(n) < 0.4
    return y_true, y_score, mask, np.array([1.0, 10.0, 10.0])[stratum], units, stratum


def by_stratum(moves, units, stratum):
    """The standard error of a total of influences: n / (n - 1) times squares, by stratum."""
    variance = 0.0
    for one in np.unique(stratum):
        own = np.unique(units[stratum == one])
        totals = np.array([moves[units == unit].sum() for unit in own])
        variance += own.size / (own.size - 1) * ((totals - totals.mean()) ** 2).sum()
    return variance**0.5


def moves_of_auc(y_true, y_score, weight):
    """How far each row moves the overall AUC, by a loop over all pairs."""
    x, y = y_score[y_true], y_score[~y_true]
    w_x, w_y = weight[y_true] / weight[y_true].sum(), weight[~y_true] / weight[~y_true].sum()
    wins = x[:, None] > y
    auc = w_x @ wins @ w_y
    moves = np.empty(y_true.size)
    moves[y_true], moves[~y_true] = w_x * (wins @ w_y - auc), w_y * (w_x @ wins - auc)
    return moves


@pytest.mark.parametrize("n_units", [None, 90])
@pytest.mark.parametrize("seed", range(3))
def test_an_auc_has_the_error_of_the_plain_formula(seed, n_units):
    y_true, y_score, mask, weight, units, stratum = drawn(seed, n_units)
    clusters = None if n_units is None else units
    options = {"sample_weight": weight, "clusters": clusters}
    found = evaluate_bias(y_true, y_score, {"gay": mask}, strata=stratum, **options)
    plain = by_stratum(moves_of_auc(y_true, y_score, weight), units, stratum)
    # Influences are divided by the root of 1 - the unit's share of its class.
    assert 1 <= found.overall.auc.std_error / plain < (1.01 if n_units is None else 1.06)
    without = evaluate_bias(y_true, y_score, {"gay": mask}, **options).overall.auc
    assert found.overall.auc.std_error < without.std_error
    assert found.overall.auc.value == without.value


def test_each_stratum_costs_a_few_rows_a_degree_of_freedom():
    stats, rng = pytest.importorskip("scipy.stats"), np.random.default_rng(1)
    y_true, stratum = np.arange(12) % 2 == 1, np.arange(12) // 4
    scores = rng.normal(y_true, 1.0, (2, 12))
    change = compare_bias(y_true, *scores, {}, strata=stratum).overall.auc
    size = abs(change.value) / change.std_error
    assert change.p_value == pytest.approx(2 * stats.t.sf(size, 6 - 3))


def test_a_share_of_equal_weights_has_the_error_of_a_stratified_mean():
    y_true, y_score, mask, _, units, stratum = drawn(1)
    rows = Rows(y_true, {"gay": mask}, strata=stratum.astype(str))
    right = (y_score >= 1) == y_true
    share = decision_indicators(rows, y_score, threshold=1.0).overall.shares["accuracy"]
    moves = (right - right.mean()) / right.size
    assert share.std_error == pytest.approx(by_stratum(moves, units, stratum), rel=1e-12)


def test_a_share_in_clusters_has_the_error_of_stratified_totals():
    y_true, y_score, mask, _, units, stratum = drawn(1, 90)
    rows = Rows(y_true, {"gay": mask}, clusters=units, strata=stratum)
    right = (y_score >= 1) == y_true
    share = decision_indicators(rows, y_score, threshold=1.0).overall.shares["accuracy"]
    plain = by_stratum((right - right.mean()) / right.size, units, stratum)
    assert 1 <= share.std_error / plain < 1.06


@pytest.mark.parametrize(
    ("clusters", "drawn", "can"),
    [
        (None, [2, 2], True),
        (None, [2, 1], False),
        (None, [4], False),
        ([0, 0, 1, 1], [1, 1], True),
        ([0, 1, 1, 2], [2, 2], False),
    ],
    ids=["as drawn", "too few", "no such stratum", "clusters", "a cluster in two"],
)
def test_whether_rows_can_be_of_a_sample(clusters, drawn, can):
    strata = Strata(np.array([0, 0, 1, 1]), np.array(drawn))
    assert strata.can_hold(clusters) is can


@pytest.fixture(scope="module")
def _survey():
    require_r("survey")


@pytest.mark.slow
@pytest.mark.usefixtures("_survey")
@pytest.mark.parametrize("n_units", [None, 90])
@pytest.mark.parametrize("seed", range(3))
def test_errors_are_those_of_survey(seed, n_units):
    y_true, y_score, mask, weight, units, stratum = drawn(seed, n_units)
    right, false = (y_score >= 1) == y_true, (y_score >= 1) & ~y_true
    moves = moves_of_auc(y_true, y_score, weight) / weight
    columns = (units, stratum, weight, mask, right, false, ~y_true, moves)
    names = "unit,stratum,weight,mask,right,false,harmless,moves"
    file = io.StringIO()
    np.savetxt(file, np.column_stack(columns), "%.17g", ",", header=names, comments="")
    asked = ["Rscript", "-e", SURVEY]
    said = subprocess.run(asked, input=file.getvalue(), capture_output=True, check=True, text=True)
    *theirs, freedom = np.loadtxt(io.StringIO(said.stdout))
    clusters = None if n_units is None else units
    rows = Rows(y_true, {"gay": mask}, sample_weight=weight, clusters=clusters, strata=stratum)
    shares = decision_indicators(rows, y_score, threshold=1.0)
    own = shares.subgroups["gay"].shares["accuracy"], shares.overall.shares["false_positive_rate"]
    found = (shares.overall.shares["accuracy"], *own)
    auc = evaluate_bias(
        y_true, y_score, {}, sample_weight=weight, clusters=clusters, strata=stratum
    ).overall.auc
    ratios = np.array([one.std_error for one in (*found, auc)]) / theirs
    assert (ratios >= 1 - 1e-9).all()
    assert (ratios < (1.01 if n_units is None else 1.06)).all()
    assert freedom == np.unique(units).size - 3


@pytest.mark.parametrize("n_units", [None, 90])
def test_one_stratum_is_none(n_units):
    y_true, y_score, mask, weight, units, _ = drawn(2, n_units)
    options = {"sample_weight": weight, "clusters": None if n_units is None else units}
    one, none = (
        evaluate_bias(y_true, y_score, {"gay": mask}, strata=strata, **options)
        for strata in (np.zeros(y_true.size), None)
    )
    for at in (lambda of: of.overall.auc, lambda of: of.final_score):
        assert at(one).low == pytest.approx(at(none).low, abs=2e-4)
        assert at(one).std_error == pytest.approx(at(none).std_error, rel=2e-3)


def test_rows_that_are_looked_at_alone_are_of_the_same_sample():
    y_true, y_score, mask, weight, units, stratum = drawn(3)
    rows = Rows(y_true, {"gay": mask}, sample_weight=weight, strata=stratum)
    share = decision_indicators(rows, y_score, threshold=1.0).subgroups["gay"].shares["accuracy"]
    alone = rows.within(mask)
    found = decision_indicators(alone, y_score[mask], threshold=1.0).overall.shares["accuracy"]
    assert found.std_error == pytest.approx(share.std_error, rel=1e-12)
    part = report_of(alone, y_score[mask], Options.of(alone)).overall.auc
    moves = np.zeros(y_true.size)
    moves[mask] = moves_of_auc(y_true[mask], y_score[mask], weight[mask])
    assert 1 <= part.std_error / by_stratum(moves, units, stratum) < 1.02


def test_a_difference_of_two_models_is_narrower_where_strata_differ():
    y_true, y_score, mask, weight, _, stratum = drawn(4)
    other = y_score + 0.8 * stratum * y_true
    apart = [
        compare_bias(y_true, other, y_score, {"gay": mask}, sample_weight=weight, strata=strata)
        for strata in (stratum, None)
    ]
    widths = [one.overall.auc.high - one.overall.auc.low for one in apart]
    assert widths[0] < widths[1]
    of_one = compare_bias(y_true, y_score, y_score, {"gay": mask}, strata=stratum).overall.auc
    assert (of_one.low, of_one.high) == (0, 0)


@pytest.mark.parametrize(
    ("strata", "clusters", "message"),
    [
        (["a", "a", "b", "a"], None, "`strata` must have at least 2 rows each; stratum 'b' has 1"),
        (["a", "a", "b", "b"], [0, 1, 2, 2], "at least 2 clusters each; stratum 'b' has 1"),
        (["a", "a", "b", "b"], [0, 1, 1, 2], r"rows of one cluster are in two \(row 1\)"),
        (["a", None, "b", "b"], None, r"`strata` must not be missing; got None \(row 1\)"),
        (["a"], None, "`strata` must have 4 rows like `y_true`; got 1"),
    ],
)
def test_strata_that_give_no_variance_are_refused(strata, clusters, message):
    with pytest.raises(ValueError, match=message):
        Rows([0, 1, 0, 1], {}, clusters=clusters, strata=strata)


def test_strata_of_other_rows_are_refused():
    strata = Strata.of([1, 1, 2, 2], 4, None)
    assert Rows([0, 1, 0, 1], {}, strata=strata).strata is strata
    with pytest.raises(ValueError, match="`strata` must have 3 rows like `y_true`; got 4"):
        Rows([0, 1, 0], {}, strata=strata)


def test_rows_that_do_not_count_are_no_units():
    with pytest.raises(ValueError, match="stratum '2' has 1"):
        Rows([0, 1, 0, 1], {}, sample_weight=[1, 1, 1, 0], strata=[1, 1, 2, 2])


@pytest.mark.parametrize("clusters", [None, []])
def test_of_no_rows_there_are_no_strata(clusters):
    rows = Rows([], {}, clusters=clusters, strata=[])
    assert rows.strata.drawn.size == 0
    assert rows.strata.can_hold(clusters)


def test_clusters_without_a_row_that_counts_are_no_units():
    options = {"sample_weight": [1, 1, 0, 1, 1], "clusters": [0, 1, 2, 3, 4]}
    rows = Rows([0, 1, 0, 1, 1], {}, strata=["a", "a", "b", "b", "b"], **options)
    assert rows.strata.drawn.tolist() == [2, 2]


def test_repeated_rows_are_no_units():
    for strata in ([1, 1], Strata.of([1, 1], 2, None)):
        with pytest.raises(ValueError, match="`weight_kind` is 'frequency'"):
            Rows([0, 1], {}, sample_weight=[1, 2], weight_kind="frequency", strata=strata)
