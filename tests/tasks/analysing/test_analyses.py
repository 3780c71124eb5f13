"""Each analysis gives the library's results for the same rows, and explains them in words."""

import json

import numpy as np
import pytest

from bias_metrics import (
    MetricValue,
    Rows,
    evaluate_bias,
    evaluate_slices,
    intersections,
)
from bias_metrics.families import bonferroni_level
from bias_metrics.metrics import AUCS
from bias_metrics.report import measure_within_strata, sort_worst_first
from biasgate.tasks.analysing import intersections as intersecting
from biasgate.tasks.analysing import slices
from biasgate.tasks.analysing.analyse import analyse_rows, check_analyses, write_rows
from biasgate.tasks.analysing.analysis import Analysis
from biasgate.tasks.analysing.catalogue import ANALYSES
from biasgate.tasks.analysing.slices import _describe_largest_gap
from biasgate.tasks.common.errors import AnalysisError, InputError
from biasgate.tasks.common.plain import convert_to_plain

GROUPS = ("black", "female", "muslim")
N_TOO_MANY = 9_999


def rated(frame):
    """The rows that are measured, with labels, scores and memberships."""
    kept = frame[frame["black"].notna()]
    masks = {name: (kept[name] >= 0.5).to_numpy() for name in GROUPS}
    return (kept["label"] >= 0.5).to_numpy(), kept["prediction"].to_numpy(), masks, kept


def analyse(kind, rows, **options):
    found = ANALYSES.validate_python({"kind": kind} | options).analyse(rows)
    json.dumps(found.result, allow_nan=False)
    return found


def record(table, name):
    """Return the row counts and metrics of a group in the form of an analysis."""
    counts = table.counts[name]
    of_rows = {"n": counts.n, "n_positive": counts.n_positive, "n_negative": counts.n_negative}
    return of_rows | convert_to_plain(table.subgroups[name])


def test_intersections_have_the_numbers_of_the_library_the_worst_first(frame, measured):
    y_true, y_score, masks, _ = rated(frame)
    found = analyse("intersections", measured(frame), max_order=3, min_support=5)
    kept = intersections(masks, max_order=3, min_support=5, y_true=y_true).masks
    alone = evaluate_bias(y_true, y_score, kept, intervals="cells")
    expected = alone.subgroups
    worst = sort_worst_first(expected)
    assert list(found.result["subgroups"]) == worst
    assert found.result["subgroups"] == {name: record(alone, name) for name in expected}
    assert found.result["subgroups"]["black & female"]["n_positive"] == int(
        (masks["black"] & masks["female"] & y_true).sum()
    )
    assert [row["intersection"] for row in found.table] == worst
    assert found.table[0]["bpsn_auc_low"] == expected[worst[0]].bpsn_auc.low
    assert found.sentences[0].startswith(
        f"Worst of {len(expected)} intersections of identities with at least 5 toxic and 5 "
        f"harmless comments: {worst[0]} ("
    )


def test_intersections_keep_clusters_and_the_background_without_identities(frame, measured):
    y_true, y_score, masks, kept = rated(frame)
    rows = measured(frame, background="no_identity", cluster="thread")
    found = analyse("intersections", rows, min_support=1)
    joined = intersections(masks, y_true=y_true).masks
    expected = evaluate_bias(
        y_true,
        y_score,
        masks | dict(joined),
        intervals="cells",
        clusters=kept["thread"],
        background="no_identity",
    )
    assert found.result["subgroups"] == {name: record(expected, name) for name in joined}


def test_intersections_without_enough_comments_are_counted(frame, measured):
    found = analyse("intersections", measured(frame), min_support=N_TOO_MANY)
    assert found.result["n_measured"] == 0
    assert found.result["n_without_support"] == 3
    assert found.table == []
    assert found.sentences == (
        "No intersection of identities has at least 9,999 toxic and 9,999 harmless comments.",
    )


def test_a_long_list_of_intersections_is_cut_with_a_word(frame, measured, monkeypatch):
    rows = measured(frame)
    listed = analyse("intersections", rows, most=1)
    assert (len(listed.result["subgroups"]), len(listed.table)) == (1, 3)
    assert listed.sentences[0].endswith("The report lists the worst 1; the table has all.")
    monkeypatch.setattr(intersecting, "MEASURED", 2)
    largest = analyse("intersections", rows)
    assert (largest.result["n_measured"], largest.result["n_with_support"]) == (2, 3)
    assert "Of 3 with enough comments, only the 2 largest were measured." in largest.sentences[0]


def test_a_table_has_the_columns_of_all_records(tmp_path):
    write_rows([{"a": 1}, {"a": None, "b": "x, y"}], tmp_path / "deep" / "t.csv")
    assert (tmp_path / "deep" / "t.csv").read_text() == 'a,b\n1,\n,"x, y"\n'


class Failing(Analysis):
    """An analysis of another package, whose error quotes a comment."""

    kind: str = "failing"

    def check(self, *_):
        raise KeyError("a secret comment")

    analyse = check


@pytest.mark.parametrize("step", [check_analyses.fn, analyse_rows.fn], ids=["check", "analyse"])
def test_an_analysis_that_fails_is_named_and_its_message_is_withheld(frame, measured, step):
    rows = measured(frame)
    folder = str(rows.frozen.folder)
    arguments = {
        check_analyses.fn: ([Failing()], rows.source, folder),
        analyse_rows.fn: (Failing(), rows.evidence, folder, rows.source),
    }
    with pytest.raises(AnalysisError, match=r"^analysis 'failing'.*'rows'.*KeyError at ") as told:
        step(*arguments[step])
    assert "secret" not in str(told.value)
    assert told.value.__context__ is None


def test_topic_has_the_numbers_within_threads_and_bands_of_length_beside_those_of_all(
    frame, measured
):
    frame["text"] = ["x" * (1 + number % 50) for number in range(len(frame))]
    frame["thread"] = np.arange(len(frame)) % 40
    y_true, y_score, masks, kept = rated(frame)
    found = analyse("topic", measured(frame, cluster="thread", text="text"), bands=5)
    threads = kept["thread"].to_numpy()
    rows = Rows(y_true, masks, clusters=threads)
    lengths = kept["text"].str.len().to_numpy()
    bands = np.searchsorted(np.quantile(lengths, [0.2, 0.4, 0.6, 0.8]), lengths, side="right")
    for kind, strata in (("cluster", threads), ("length", bands)):
        expected = measure_within_strata(rows, y_score, strata)
        for name, cells in expected.items():
            for metric, one in cells.items():
                told = one.to_dict(interval=True)
                assert found.result[kind][name][metric] == pytest.approx(told, abs=1e-12)
        [record] = [
            one for one in found.table if (one["identity"], one["metric"]) == ("black", "bpsn_auc")
        ]
        assert record[f"{kind}_value"] == expected["black"]["bpsn_auc"].value
    whole = evaluate_bias(y_true, y_score, masks, clusters=threads, intervals="cells").subgroups
    assert record["all_low"] == pytest.approx(whole["black"].bpsn_auc.low, abs=1e-12)
    moved = {
        (name, metric): abs(cells[metric].value - getattr(whole[name], metric).value)
        for name, cells in expected.items()
        for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc")
    }
    name, metric = max(moved, key=moved.get)
    assert found.sentences[1] == (
        f"Among comments of about the same length, {metric} of {name} changes most: it is "
        f"{expected[name][metric]}, and {getattr(whole[name], metric)} among all comments. "
        "This may be chance: the intervals overlap."
    )
    assert "x" * 5 not in json.dumps(found.result)


def test_a_change_within_topics_that_intervals_show_is_not_said_to_be_chance():
    """The change for black is smaller, but only its intervals do not overlap."""
    within = {
        "black": {"bpsn_auc": MetricValue(0.7, low=0.68, high=0.72)},
        "gay": {"bpsn_auc": MetricValue(0.5, low=0.3, high=0.85)},
    }
    every = MetricValue(0.8, low=0.78, high=0.82)
    none = MetricValue(0.8)
    cells = {
        name: dict.fromkeys(("subgroup_auc", "bnsp_auc"), none) | own
        for name, own in within.items()
    }
    everyone = dict.fromkeys(within, dict.fromkeys(AUCS, every))
    assert slices._describe_largest_change("cluster", cells, everyone) == (
        "Among comments of the same cluster, bpsn_auc of black changes most: it is "
        "0.700 [0.680, 0.720], and 0.800 [0.780, 0.820] among all comments."
    )
    told = slices._describe_largest_change("cluster", {"gay": cells["gay"]}, everyone)
    assert told.endswith("among all comments. This may be chance: the intervals overlap.")


def test_topic_needs_clusters_or_text(frame, measured, frozen):
    source, rows = frozen(frame, identities=["black"])
    with pytest.raises(InputError, match="must have `cluster` or `text`; it has neither"):
        check_analyses.fn([ANALYSES.validate_python("topic")], source, str(rows.folder))
    alone = analyse("topic", measured(frame, cluster="thread"))
    assert list(alone.result) == ["cluster"]


def in_languages(frame):
    """The rows in two large languages, and in two languages with few mentions of an identity."""
    at = np.arange(len(frame))
    frame["language"] = np.select([at % 20 == 0, at % 20 == 1, at % 2 == 0], ["c", "d", "a"], "b")
    return frame


def test_slices_have_the_numbers_of_their_rows_alone_side_by_side(frame, measured):
    rows = measured(in_languages(frame), slices_in=["language"])
    y_true, y_score, masks, kept = rated(frame)
    smallest = min(
        max(
            min((mask & inside & y_true).sum(), (mask & inside & ~y_true).sum())
            for mask in masks.values()
        )
        for inside in (kept["language"] == "a", kept["language"] == "b")
    )
    found = analyse("slices", rows, min_support=int(smallest))
    inside = {f"language.{one}": (kept["language"] == one).to_numpy() for one in "ab"}
    inside["language.(others)"] = kept["language"].isin(["c", "d"]).to_numpy()
    assert found.result["rolled_up"] == ["language.c", "language.d"]
    assert list(found.result["slices"]) == list(inside)
    for name, mask in inside.items():
        own = {group: members[mask] for group, members in masks.items()}
        expected = evaluate_bias(y_true[mask], y_score[mask], own, intervals="cells")
        told = found.result["slices"][name]
        assert told["n"] == mask.sum()
        assert told["subgroups"] == {group: record(expected, group) for group in told["subgroups"]}
        row = next(one for one in found.table if (one["identity"], one["slice"]) == ("black", name))
        assert row["bpsn_auc_low"] == expected.subgroups["black"].bpsn_auc.low
    together = "Pooled, as they have few comments: language.c, language.d."
    assert found.sentences[0].endswith(together)


def test_slices_of_which_one_alone_is_small_keep_its_name(frame, measured):
    frame["language"] = np.where(np.arange(len(frame)) < 5, "c", "a")
    found = analyse("slices", measured(frame, slices_in=["language"]))
    assert found.result["rolled_up"] == []
    assert list(found.result["slices"]) == ["language.a", "language.c"]
    assert found.sentences == ("No identity has an AUC with an interval in two of the 2 slices.",)


def test_a_planted_difference_between_slices_is_told_first(frame, measured):
    frame["language"] = np.where(np.arange(len(frame)) % 2, "a", "b")
    worse = (frame["language"] == "b") & (frame["muslim"] >= 0.5) & (frame["label"] < 0.5)
    frame.loc[worse, "prediction"] = 0.999
    [told] = analyse("slices", measured(frame, slices_in=["language"]), column="language").sentences
    assert told.startswith("Between 2 slices, ")
    assert " of muslim differs most (significant by simultaneous 95% intervals)" in told
    assert ". Each slice with its own interval: language.a " in told


@pytest.mark.evaluates
def test_slices_that_are_alike_are_seldom_shown_to_differ():
    rng = np.random.default_rng(1)
    shown = 0
    for _ in range(60):
        toxic, language = rng.random(1500) < 0.4, rng.integers(5, size=1500)
        masks = {name: rng.random(1500) < 0.3 for name in "abcd"}
        score = toxic + rng.normal(0, 0.8, 1500)
        rows = Rows(toxic, masks)
        slices = {str(one): language == one for one in range(5)}
        found, together = (
            dict(evaluate_slices(rows, score, slices=slices, intervals="cells", confidence=level))
            for level in (0.95, bonferroni_level(5 * 4 * 3, 0.025))
        )
        shown += "differs most (significant" in _describe_largest_gap(found, together, [])
    assert shown <= 8  # of 60, if at most one of 20 is


def test_slices_need_some(frame, frozen):
    source, rows = frozen(frame, identities=["black"])
    for asked, wanted in (
        ({"kind": "slices"}, "`slices` or `slices_in`; it has none"),
        ({"kind": "slices", "column": "language"}, "`slices_in` with 'language'; it has none"),
    ):
        with pytest.raises(InputError, match=wanted):
            check_analyses.fn([ANALYSES.validate_python(asked)], source, str(rows.folder))
