"""Two nights of counts have the changes of two nights of rows."""

import math

import numpy as np
import pytest

from bias_metrics import Rows, ScoreCounts, data_drift, evaluate_bias, metric_drift

N = 4000


def night(seed, *, shift=0.0, share=0.4, n=N):
    """Rows of one night: a model that overrates harmless mentions of `gay` by `shift`."""
    rng = np.random.default_rng(seed)
    toxic, masks = rng.random(n) < share, {"gay": rng.random(n) < 0.3, "old": rng.random(n) < 0.2}
    score = toxic + rng.normal(0, 0.7, n) + shift * (masks["gay"] & ~toxic)
    return {"y_true": toxic, "y_score": score, "subgroups": masks}


def counts(rows, shard, bits=12):
    checked = Rows(rows["y_true"], rows["subgroups"])
    return ScoreCounts.of(checked, rows["y_score"], shard=shard, bits=bits)


def two_sided(z):
    return math.erfc(abs(z) / math.sqrt(2))


def by_name(drift):
    return {(one.metric, one.group): one for one in drift.changes}


FIRST, SECOND, WORSE, MILD = night(1), night(2), night(3, shift=0.5), night(3, shift=0.2)


def with_ids(rows, first):
    return {"id": first + np.arange(len(rows["y_true"])), **rows}


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_changes_are_those_of_the_rows(background):
    rows = metric_drift(
        with_ids(FIRST, 0),
        with_ids(SECOND, N),
        rng=np.random.default_rng(0),
        background=background,
    )
    found = metric_drift(counts(FIRST, "1", 52), counts(SECOND, "2", 52), background=background)
    assert (found.n_before, found.n_now, found.n_shared, found.n_deals) == (N, N, 0, 0)
    known = by_name(found)
    assert known.keys() == by_name(rows).keys()
    for name, change in by_name(rows).items():
        for part in ("before", "now", "change"):
            assert getattr(known[name], part) == pytest.approx(getattr(change, part), abs=1e-12)
        reach = change.high - change.low
        assert known[name].low == pytest.approx(change.low, abs=0.05 * reach)
        assert known[name].high == pytest.approx(change.high, abs=0.05 * reach)


def test_shares_are_those_of_the_rows():
    nights = [
        {name: of for name, of in with_ids(rows, first).items() if name != "y_score"}
        for rows, first in ((FIRST, 0), (SECOND, N))
    ]
    rows = by_name(data_drift(*nights, rng=np.random.default_rng(0)))
    found = by_name(data_drift(counts(FIRST, "1"), counts(SECOND, "2")))
    assert found.keys() == rows.keys()
    for name, change in rows.items():
        assert found[name].change == pytest.approx(change.change, abs=1e-12)
        reach = change.high - change.low
        assert found[name].low == pytest.approx(change.low, abs=0.05 * reach)


def test_a_p_value_is_that_of_the_change_in_errors_times_the_numbers():
    found = metric_drift(counts(FIRST, "1", 52), counts(SECOND, "2", 52))
    aucs = [
        evaluate_bias(rows["y_true"], rows["y_score"], rows["subgroups"]).overall.auc
        for rows in (FIRST, SECOND)
    ]
    error = np.hypot(*(one.std_error for one in aucs))
    expected = 11 * two_sided((aucs[1].value - aucs[0].value) / error)
    assert by_name(found)["auc", "overall"].p_value == pytest.approx(min(expected, 1), rel=0.1)
    assert found.drifted == ()
    worse = metric_drift(counts(FIRST, "1", 52), counts(MILD, "2", 52))
    bias = [
        evaluate_bias(rows["y_true"], rows["y_score"], rows["subgroups"]).subgroups["gay"]
        for rows in (FIRST, MILD)
    ]
    change = (bias[1].subgroup_auc.value - bias[0].subgroup_auc.value) / np.hypot(
        *(one.subgroup_auc.std_error for one in bias)
    )
    p_value = by_name(worse)["subgroup_auc", "gay"].p_value
    assert np.log10(p_value) == pytest.approx(np.log10(11 * two_sided(change)), rel=0.05)


def test_a_model_that_overrates_one_subgroup_raises_the_alarm_for_it():
    found = metric_drift(counts(FIRST, "1"), counts(WORSE, "2"))
    names = {(one.metric, one.group) for one in found.drifted}
    assert {("bpsn_auc", "gay"), ("negative_aeg", "gay")} <= names
    assert ("positive_aeg", "gay") not in names
    p_values = [one.p_value for one in found.drifted]
    assert p_values == sorted(p_values) != [one.p_value for one in found.changes if one.drifted]
    assert ("subgroup_auc", "old") not in names
    assert data_drift(counts(FIRST, "1"), counts(WORSE, "2")).drifted == ()


def test_a_p_value_that_equals_the_chance_of_a_wrong_alarm_raises_it():
    nights = counts(FIRST, "1"), counts(MILD, "2")
    p_value = by_name(metric_drift(*nights))["subgroup_auc", "gay"].p_value
    for alpha, drifted in ((p_value, True), (p_value * 0.999, False)):
        found = metric_drift(*nights, alpha=alpha)
        assert by_name(found)["subgroup_auc", "gay"].drifted == drifted


def test_more_toxic_comments_are_drift_of_the_data():
    found = data_drift(counts(FIRST, "1"), counts(night(4, share=0.5), "2"))
    assert {one.metric for one in found.drifted} == {"toxic_share"}


def test_what_binning_leaves_open_is_no_drift():
    nights = [counts(rows, shard, bits=0) for rows, shard in ((FIRST, "1"), (MILD, "2"))]
    fine = [counts(rows, shard) for rows, shard in ((FIRST, "1"), (MILD, "2"))]
    wide, narrow = by_name(metric_drift(*nights)), by_name(metric_drift(*fine))
    for name, change in narrow.items():
        assert wide[name].low <= change.low < change.high <= wide[name].high
    assert metric_drift(*fine).drifted
    assert metric_drift(*nights).drifted == ()


def test_pooled_nights_are_compared_like_one():
    pooled = counts(FIRST, "1") + counts(SECOND, "2")
    found = metric_drift(pooled, counts(WORSE, "3"))
    assert (found.n_before, found.n_now) == (2 * N, N)
    assert ("bpsn_auc", "gay") in {(one.metric, one.group) for one in found.drifted}


def test_a_number_with_few_rows_or_none_is_not_judged_and_says_so():
    few, none = np.arange(N) < 6, np.zeros(N, dtype=bool)
    nights = [
        counts(rows | {"subgroups": {"rare": few, "nobody": none}}, shard)
        for rows, shard in ((FIRST, "1"), (SECOND, "2"))
    ]
    changes = by_name(metric_drift(*nights))
    rare, nobody = changes["bpsn_auc", "rare"], changes["bpsn_auc", "nobody"]
    assert (rare.p_value, rare.reason) == (None, "too few rows differ between the nights")
    assert (nobody.change, nobody.p_value, nobody.reason) == (None, None, "no rows in a class")
    shares = by_name(data_drift(*nights))
    assert shares["toxic_share", "nobody"].reason == "no rows in a class"
    assert shares["share", "nobody"].p_value is None
    alone = by_name(metric_drift(counts(night(5, n=1), "1"), counts(FIRST, "2")))
    assert alone["auc", "overall"].p_value is None
    one_toxic = counts(SECOND | {"y_true": np.arange(N) == 0}, "2")
    change = by_name(metric_drift(counts(FIRST, "1"), one_toxic))["auc", "overall"]
    assert change.now is not None
    assert (change.low, change.p_value) == (None, None)


@pytest.mark.parametrize(("n_toxic", "is_judged"), [(10, True), (9, False)])
def test_a_number_is_judged_from_ten_rows_that_would_be_exchanged_on_the_average(
    n_toxic, is_judged
):
    """Of two nights of equal size a half: of 20 toxic rows 10, and of 19 fewer."""
    night_of = [night(seed) | {"y_true": np.arange(N) < n} for seed, n in ((1, 10), (2, n_toxic))]
    found = metric_drift(*(counts(one, shard) for one, shard in zip(night_of, "12", strict=True)))
    assert (by_name(found)["auc", "overall"].p_value is not None) == is_judged
    rows = [with_ids(one, first) for one, first in zip(night_of, (0, N), strict=True)]
    found = metric_drift(*rows, rng=np.random.default_rng(0))
    assert (by_name(found)["auc", "overall"].p_value is not None) == is_judged


@pytest.mark.parametrize(
    ("now", "rule"),
    [
        (counts(SECOND, "1"), "shard '1' must be counted once"),
        (counts(SECOND, "2", bits=3), "`bits` must be the same"),
        (counts(SECOND | {"subgroups": {}}, "2"), "`names` must be the same"),
    ],
)
def test_counts_that_do_not_add_up_are_not_compared(now, rule):
    with pytest.raises(ValueError, match=rule):
        metric_drift(counts(FIRST, "1"), now)


def test_rows_are_not_compared_with_counts():
    with pytest.raises(TypeError, match="both be rows or both be counts; only one is counts"):
        metric_drift(counts(FIRST, "1"), with_ids(SECOND, 0))
    with pytest.raises(TypeError, match="`rng` must be a numpy Generator"):
        metric_drift(with_ids(FIRST, 0), with_ids(SECOND, N))
