"""Public interface of a table: keys, groups, intervals, differences, errors."""

import dataclasses
import itertools
import pickle

import numpy as np
import pytest

from bias_metrics import (
    BiasTable,
    Difference,
    Key,
    MetricValue,
    RowCounts,
    Rows,
    compare_bias,
    evaluate_bias,
    evaluate_slices,
    rate_gaps,
)
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.table import SECOND
from bias_metrics.thresholds import compare_rate_gaps

N = 400
RNG = np.random.default_rng(0)
Y_TRUE = RNG.random(N) < 0.4
FIRST, OTHER = (0.4 * Y_TRUE + 0.6 * RNG.random(N) for _ in range(2))
MASKS = {"gay": RNG.random(N) < 0.3, "jewish": RNG.random(N) < 0.3}
WEIGHT, CLUSTERS = RNG.random(N) + 0.5, np.arange(N) // 4
ROWS = Rows(Y_TRUE, MASKS)
TABLE = evaluate_bias(ROWS, FIRST, threshold=0.5)
COMPARED = compare_bias(ROWS, FIRST, OTHER, thresholds=(0.5, 0.6))
AT_TWO = TABLE.add_numbers(
    {
        key._replace(threshold="strict"): number
        for key, number in rate_gaps(ROWS, FIRST, threshold=0.7).items()
    }
)


# ---- Reading numbers


@pytest.mark.parametrize("table", [TABLE, COMPARED], ids=["one model", "differences"])
def test_a_number_has_the_same_place_by_key_by_group_and_by_attribute(table):
    for name, metric in itertools.product(MASKS, SUBGROUP_METRICS):
        number = table[metric, name]
        assert number is table[Key(metric, name)]
        assert number is table[name][metric] is getattr(table.subgroups[name], metric)
    for metric in ("auc", "bpsn_auc", "final_score"):
        assert table[Key(metric)] is table[metric, None] is getattr(table.overall, metric)
    assert table["fpr_gap", "gay"] is table["fpr_gap", "gay", "given"] is table["gay"].fpr_gap


def test_it_is_a_mapping_of_keys_in_the_order_of_measurement():
    assert len(TABLE) == len(list(TABLE)) == 5 + 2 * 7
    assert list(TABLE)[:2] == [Key("auc"), Key("subgroup_auc")]
    assert list(TABLE.values()) == [TABLE[key] for key in TABLE]
    assert Key("bpsn_auc", "gay") in TABLE
    assert Key("fpr_gap", "gay") not in TABLE  # the whole key has the threshold's name
    assert Key("bpsn_auc", "gya") not in TABLE


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("gya", "there is no 'gya' (known: gay, jewish). Did you mean 'gay'?"),
        ("auc", "'auc' must have a group, as in table['auc', 'gay'], or see `overall`."),
        ("acu", "there is no 'acu' (known: gay, jewish)."),
        (("gay", "bpsn_auc"), "the metric comes first: table['bpsn_auc', 'gay']."),
        (("bpsn_auc", "gya"), "there is no 'gya' (known: gay, jewish). Did you mean 'gay'?"),
        (("bspn_auc", "gay"), "Did you mean 'bpsn_auc'?"),
        (("fpr_gap",), "there is no 'fpr_gap' (known: auc, subgroup_auc, bpsn_auc, bnsp_auc, fi"),
        (("fpr_gap", "gay"), "'fpr_gap' must have the name of its threshold (known: given, stri"),
        (("fpr_gap", "gay", "strikt"), "(known: given, strict). Did you mean 'strict'?"),
        (("bpsn_auc", "gay", "given"), "there is no 'given' (known: none)."),
        (Key("auc", against="champion"), "there is no 'champion' (known: none)."),
    ],
)
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(key, message):
    with pytest.raises(KeyError) as error:
        AT_TWO[key]
    assert message in error.value.args[0]


def test_it_shows_itself_as_a_table():
    assert repr(TABLE) == str(TABLE)


def test_a_missing_attribute_lists_the_known_metrics():
    with pytest.raises(AttributeError, match=r"there is no 'bspn_auc' \(known: subgroup_auc, bps"):
        TABLE["gay"].bspn_auc  # noqa: B018


def test_at_several_thresholds_a_group_has_each_number_under_its_name():
    assert AT_TWO["fpr_gap", "gay", "strict"] is AT_TWO["gay"]["fpr_gap at strict"]
    assert AT_TWO["gay"]["fpr_gap at given"] is TABLE["gay"].fpr_gap
    assert "fpr_gap at strict" in str(AT_TWO)
    of_threshold = AT_TWO.select_threshold("strict")
    assert list(of_threshold) == list(MASKS)
    assert all(list(cells) == ["fpr_gap", "fnr_gap"] for cells in of_threshold.values())
    assert of_threshold["gay"]["fpr_gap"] is AT_TWO["fpr_gap", "gay", "strict"]


@pytest.mark.parametrize("table", [TABLE, COMPARED], ids=["one model", "differences"])
def test_counts_are_those_of_the_rows_of_each_group_and_of_all(table):
    for name, mask in {None: np.ones(N, bool), **MASKS}.items():
        counts = table.counts[name]
        assert counts == RowCounts((mask & Y_TRUE).sum(), (mask & ~Y_TRUE).sum())
        assert counts.n == mask.sum()


def test_weighted_rows_keep_their_effective_sample_sizes():
    table = evaluate_bias(Y_TRUE, FIRST, MASKS, sample_weight=WEIGHT)
    rows = WEIGHT[MASKS["gay"] & Y_TRUE]
    effective = table.counts["gay"].effective
    assert effective["positive"] == pytest.approx(rows.sum() ** 2 / (rows**2).sum())
    assert set(effective) - set(table.counts[None].effective) == {
        "background_positive",
        "background_negative",
    }
    known = {one["group"]: one for one in table.to_dict()["counts"]}
    assert known["gay"]["effective"] == effective
    assert compare_bias(Y_TRUE, FIRST, OTHER, MASKS, sample_weight=WEIGHT).counts == table.counts


def test_a_table_cannot_be_changed_and_survives_pickling():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TABLE.confidence = 0.9
    again = pickle.loads(pickle.dumps(TABLE))  # noqa: S301
    assert again == TABLE
    assert again["bpsn_auc", "gay"].interval(0.9) == TABLE["bpsn_auc", "gay"].interval(0.9)


def test_values_by_group_are_a_frame_and_all_numbers_another():
    pytest.importorskip("pandas")
    frame = TABLE.by_group
    assert list(frame.index) == list(MASKS)
    assert list(frame.columns) == [*SUBGROUP_METRICS, "fpr_gap", "fnr_gap"]
    assert frame.loc["gay", "bpsn_auc"] == TABLE["bpsn_auc", "gay"].value
    undefined = evaluate_bias(Y_TRUE, FIRST, MASKS | {"none": np.zeros(N, bool)}).by_group
    assert undefined.loc["none"].isna().all()
    rows = TABLE.to_frame().set_index(["metric", "group", "threshold"])
    assert rows.loc[("fpr_gap", "gay", "given"), "low"] == TABLE["fpr_gap", "gay"].low
    assert len(rows) == len(TABLE)


def test_a_table_of_differences_says_so_and_marks_what_is_shown():
    lines = str(compare_bias(ROWS, Y_TRUE + FIRST, OTHER)).splitlines()
    assert lines[0].startswith(f"first minus second: {N} rows, {Y_TRUE.sum()} positive; AUC +0.")
    assert " *" in lines[2]
    assert lines[-1] == "* shown at 95% confidence after Holm's adjustment"
    assert "*" not in str(TABLE)
    assert "AUC" not in str(rate_gaps(ROWS, FIRST, threshold=0.5)).splitlines()[0]


# ---- Measuring


def test_with_a_threshold_it_has_the_gaps_in_error_rates_too():
    gaps = rate_gaps(ROWS, FIRST, threshold=0.5)
    plain = evaluate_bias(ROWS, FIRST)
    assert dict(TABLE) == dict(plain) | dict(gaps)
    assert TABLE.thresholds == gaps.thresholds == {("given", None): 0.5}
    assert (TABLE.counts, TABLE.covered) == (plain.counts, ("gay", "jewish"))
    values = TABLE.to_dict()
    assert values["thresholds"] == [{"name": "given", "against": None, "value": 0.5}]
    assert values["numbers"][-1]["threshold"] == "given"
    assert "thresholds" not in plain.to_dict()


def test_with_thresholds_a_comparison_has_the_differences_of_these_gaps_too():
    gaps = compare_rate_gaps(ROWS, FIRST, OTHER, threshold_a=0.5, threshold_b=0.6)
    apart = dict(compare_bias(ROWS, FIRST, OTHER)) | dict(gaps)
    assert list(COMPARED) == list(apart)
    for key, number in COMPARED.items():
        assert number.set_adjusted_p(None, None) == apart[key].set_adjusted_p(None, None)
        if apart[key].p_holm is not None:  # in one family with all others
            assert number.p_holm >= apart[key].p_holm
    assert COMPARED["newly_flagged", "gay"].value > 0
    assert COMPARED.thresholds == {("given", None): 0.5, ("given", SECOND): 0.6}


def test_gaps_in_error_rates_of_weighted_rows_are_refused():
    with pytest.raises(ValueError, match="`rows` must have no `sample_weight` in rate_gaps"):
        evaluate_bias(Y_TRUE, FIRST, MASKS, sample_weight=WEIGHT, threshold=0.5)


OPTIONS = {
    "rows": {},
    "clusters": {"clusters": CLUSTERS},
    "weights": {"sample_weight": WEIGHT},
    "weights and clusters": {"sample_weight": WEIGHT, "clusters": CLUSTERS},
    "no identity": {"background": "no_identity"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_every_interval_at_another_confidence_is_that_measured_at_it(options, confidence):
    rows = Rows(Y_TRUE, MASKS, **options)
    at = {} if "sample_weight" in options else {"threshold": 0.5}
    both = {} if not at else {"thresholds": (0.5, 0.6)}
    for table, other in (
        (evaluate_bias(rows, FIRST, **at), evaluate_bias(rows, FIRST, confidence=confidence, **at)),
        (
            compare_bias(rows, FIRST, OTHER, **both),
            compare_bias(rows, FIRST, OTHER, confidence=confidence, **both),
        ),
    ):
        for key, number in table.items():
            assert number.change_confidence(confidence) == other[key], key
            assert number.interval(confidence) == other[key].ends
            assert (
                number.change_confidence(confidence).change_confidence(table.confidence) == number
            )


def test_cells_at_another_confidence_are_a_table():
    found, other = TABLE.recompute_cells(0.99), evaluate_bias(ROWS, FIRST, confidence=0.99)
    assert found.confidence == 0.99
    assert list(found) == [Key("auc"), *(Key(m, g) for g in MASKS for m in SUBGROUP_METRICS)]
    assert all(number == other[key] for key, number in found.items())


def test_a_number_without_its_rows_has_no_interval_at_another_confidence():
    with pytest.raises(ValueError, match="no interval at another confidence; measure it with"):
        MetricValue(0.9, low=0.8, high=0.95).interval(0.9)
    with pytest.raises(ValueError, match="no interval at another confidence; measure it with"):
        Difference(0.9, 0.8, 0.1).interval(0.9)


def test_where_there_is_no_interval_the_error_has_the_reason():
    table = evaluate_bias(Y_TRUE, FIRST, MASKS | {"none": np.zeros(N, bool)})
    with pytest.raises(ValueError, match="this number has no interval: no subgroup negatives"):
        table["bpsn_auc", "none"].interval(0.9)
    with pytest.raises(ValueError, match="this number has no interval: 10 clusters where 20"):
        evaluate_bias(Y_TRUE, FIRST, clusters=np.arange(N) % 10).overall.auc.interval(0.9)


def test_intervals_that_were_not_asked_for_are_none_in_the_table():
    table = evaluate_bias(ROWS, FIRST, intervals="cells")
    assert table["bpsn_auc", "gay"].ends is not None
    assert table.overall.bpsn_auc.ends is table.overall.final_score.ends is None
    none = evaluate_bias(ROWS, FIRST, intervals=False)
    assert {number.ends for number in none.values()} == {None}
    assert {key: number.value for key, number in none.items()} == {
        key: number.value for key, number in table.items()
    }


# ---- The worst group, and how far groups are apart


@pytest.mark.parametrize("metric", [*SUBGROUP_METRICS, "fpr_gap"])
def test_the_worst_and_the_spread_are_of_the_values_of_the_table(metric):
    values = {name: TABLE[metric, name].value for name in MASKS}
    badness = {
        name: abs(number) if "gap" in metric or "aeg" in metric else -number
        for name, number in values.items()
    }
    worst, spread = TABLE.worst(metric), TABLE.difference(metric)
    assert worst.subgroup == max(badness, key=badness.get)
    assert worst.value.value == values[worst.subgroup]
    assert (worst.n_positive, worst.n_negative) == (
        TABLE.counts[worst.subgroup].n_positive,
        TABLE.counts[worst.subgroup].n_negative,
    )
    assert spread.value.value == max(values.values()) - min(values.values())
    assert spread.value.low <= spread.value.value <= spread.value.high


@pytest.mark.parametrize("find", ["worst", "difference"])
def test_the_worst_and_the_spread_need_numbers_of_one_model_at_one_threshold(find):
    with pytest.raises(ValueError, match=r"`metric` must be one of subgroup_auc, .*; got 'auc'\."):
        getattr(TABLE, find)("auc")
    with pytest.raises(ValueError, match=r"must be one of subgroup_auc, .*; got 'fpr_gap'"):
        getattr(evaluate_bias(ROWS, FIRST), find)("fpr_gap")
    with pytest.raises(ValueError, match="must have numbers of one model; it has differences"):
        getattr(COMPARED, find)("bpsn_auc")
    with pytest.raises(ValueError, match=r"fpr_gap must be at one threshold; got given, strict\."):
        getattr(AT_TWO, find)("fpr_gap")
    assert getattr(evaluate_bias(Y_TRUE, FIRST), find)("bpsn_auc").value.value is None


# ---- Differences of two tables


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_table_minus_another_is_the_comparison_of_both_models(options):
    rows, asked = Rows(Y_TRUE, MASKS, **options), {"confidence": 0.9, "power": -3.0}
    tables = [evaluate_bias(rows, scores, **asked) for scores in (FIRST, OTHER)]
    assert tables[0].subtract(tables[1]) == compare_bias(rows, FIRST, OTHER, **asked)


def test_at_thresholds_the_difference_has_those_of_both():
    assert TABLE.subtract(evaluate_bias(ROWS, OTHER, threshold=0.6)) == COMPARED


def test_rows_that_are_given_again_are_the_same_rows():
    other = evaluate_bias(
        Y_TRUE.tolist(), OTHER, {name: own.tolist() for name, own in MASKS.items()}
    )
    assert evaluate_bias(ROWS, FIRST).subtract(other) == compare_bias(ROWS, FIRST, OTHER)


@pytest.mark.parametrize(
    ("other", "differ"),
    [
        (Rows(~Y_TRUE, MASKS), "labels"),
        (Rows(Y_TRUE, {"gay": MASKS["gay"]}), "names of subgroups"),
        (Rows(Y_TRUE, MASKS | {"gay": ~MASKS["gay"]}), "the rows of 'gay'"),
        (Rows(Y_TRUE, MASKS, sample_weight=WEIGHT), "weights"),
        (Rows(Y_TRUE, MASKS, clusters=CLUSTERS), "clusters"),
        (Rows(Y_TRUE, MASKS, background="no_identity"), "backgrounds"),
        (Rows(Y_TRUE, MASKS, weight_kind="frequency"), "meanings of weights"),
    ],
)
def test_tables_of_other_rows_are_not_subtracted(other, differ):
    with pytest.raises(ValueError, match=f"same rows in the same order; .*{differ}.* differ"):
        evaluate_bias(ROWS, FIRST).subtract(evaluate_bias(other, OTHER))


def test_tables_of_other_weights_or_of_fewer_rows_are_not_subtracted():
    weighted = [
        evaluate_bias(Y_TRUE, FIRST, MASKS, sample_weight=weight) for weight in (WEIGHT, WEIGHT**2)
    ]
    with pytest.raises(ValueError, match="must be of the same rows"):
        weighted[0].subtract(weighted[1])
    half = np.arange(N) < N / 2
    with pytest.raises(ValueError, match="must be of the same rows"):
        TABLE.subtract(evaluate_bias(ROWS.select_rows(half), OTHER[half], threshold=0.6))


def test_tables_of_rows_with_other_labels_are_not_subtracted():
    pandas = pytest.importorskip("pandas")
    tables = [
        evaluate_bias(pandas.Series(Y_TRUE, index=index), FIRST, MASKS)
        for index in (np.arange(N), np.arange(N)[::-1])
    ]
    with pytest.raises(ValueError, match="`other` must have the index of `rows`"):
        tables[0].subtract(tables[1])


@pytest.mark.parametrize(
    "options",
    [
        {"power": -3.0},
        {"power_mean_groups": ["gay"]},
        {"confidence": 0.9},
        {"threshold": 0.5},
        {"intervals": "cells"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_tables_of_other_options_are_not_subtracted(options):
    plain = evaluate_bias(ROWS, FIRST)
    for a, b in itertools.permutations((plain, evaluate_bias(ROWS, OTHER, **options))):
        with pytest.raises(ValueError, match="must have the same options"):
            a.subtract(b)


def test_only_measured_tables_with_intervals_are_subtracted():
    for a, b in itertools.permutations((TABLE, COMPARED)):
        with pytest.raises(ValueError, match="must be from `evaluate_bias`; use `compare_bias`"):
            a.subtract(b)
    short = [evaluate_bias(ROWS, scores, intervals=False) for scores in (FIRST, OTHER)]
    with pytest.raises(ValueError, match="both tables must have intervals"):
        short[0].subtract(short[1])


def test_a_slice_has_a_table_that_is_not_subtracted():
    half = np.arange(N) < N / 2
    tables = [evaluate_slices(ROWS, one, slices={"first": half})["first"] for one in (FIRST, OTHER)]
    assert dict(tables[0]) == dict(evaluate_bias(ROWS.select_rows(half), FIRST[half]))
    with pytest.raises(ValueError, match="must be from `evaluate_bias`"):
        tables[0].subtract(tables[1])


# ---- Tables of several models, as the gate reads them


def test_differences_are_kept_beside_the_numbers_of_one_model():
    table = TABLE.add_numbers(COMPARED, against="champion")
    assert (TABLE.rivals, table.rivals) == ([], ["champion"])
    assert len(table) == len(TABLE) + len(COMPARED)
    for key, number in COMPARED.items():
        assert table[key._replace(against="champion")] is number
    assert table["newly_flagged", "gay", None, "champion"] is COMPARED["newly_flagged", "gay"]
    assert table.thresholds == {("given", None): 0.5, ("given", "champion"): 0.6}
    assert (table.overall, table.subgroups) == (TABLE.overall, TABLE.subgroups)
    assert dict(table.select_rival("champion")) == dict(COMPARED)
    assert table.select_rival("reference") is None
    with pytest.raises(KeyError, match=r"no 'champoin' \(known: champion\)\. Did you mean 'champ"):
        table[Key("auc", against="champoin")]
    with pytest.raises(KeyError, match=r"there is no 'useful' \(known: auc, subgroup_auc, "):
        table[Key("useful", against="champion")]
    numbers = table.to_dict()["numbers"]
    assert [number["metric"] for number in numbers if number.get("against") == "champion"] == [
        key.metric for key in COMPARED
    ]
    first = {row["group"]: row["first"] for row in table.rows() if row["against"] is not None}
    assert first.keys() == {None, "gay", "jewish"}


def test_further_numbers_keep_the_rest_and_replace_those_of_the_same_key():
    changed = TABLE.add_numbers({Key("auc"): MetricValue(0.5)})
    assert changed.overall.auc == 0.5
    assert {key for key in TABLE if changed[key] is not TABLE[key]} == {Key("auc")}
    assert list(changed) == list(TABLE)


def test_among_some_groups_it_has_their_numbers_and_those_of_all_rows():
    table = TABLE.select_groups(["jewish"])
    assert list(table.counts) == [None, "jewish"]
    assert dict(table) == {key: number for key, number in TABLE.items() if key.group != "gay"}
    turned = TABLE.select_groups(["jewish", "gay"])
    assert (list(turned.subgroups), dict(turned)) == (["jewish", "gay"], dict(TABLE))


def test_categories_are_groups_that_join_others():
    table = dataclasses.replace(TABLE, categories=("jewish",))
    assert (TABLE.groups, table.groups) == (["gay", "jewish"], ["gay"])
    assert table.to_dict()["categories"] == ["jewish"]
    assert "categories" not in TABLE.to_dict()


def test_every_number_can_be_changed_by_a_function():
    assert dict(TABLE.map_numbers(lambda number: number)) == dict(TABLE)
    values = TABLE.map_numbers(lambda number: MetricValue(number.value))
    assert {number.low for number in values.values()} == {None}
    assert values.counts == TABLE.counts


def test_a_table_without_numbers_prints_its_rows():
    empty = BiasTable({}, {None: RowCounts(2, 3)})
    assert str(empty).splitlines()[0] == "5 rows, 2 positive"
    assert empty.rows() == []
