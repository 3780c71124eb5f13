"""The forest plot: its order, its words, its limits."""

import pytest

from bias_metrics.plot import intervals


def build_report(subgroups):
    return {"subgroups": subgroups}


def build_cell(value, low=None, high=None):
    return {"value": value, "low": low, "high": high}


def test_a_forest_has_the_worst_on_top_and_the_undefined_last():
    report = build_report(
        {
            "good": {"bpsn_auc": build_cell(0.95, 0.9, 0.99)},
            "none": {"bpsn_auc": build_cell(None)},
            "bad": {"bpsn_auc": build_cell(0.6, 0.3, 0.7)},
            "few": {"bpsn_auc": build_cell(0.8)},
        }
    )
    axes = intervals(report, "bpsn_auc", floor=0.85).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bad", "few", "good", "none"]
    assert [text.get_text() for text in axes.texts] == [
        "0.600  [0.300, 0.700]",
        "0.800  no interval",
        "0.950  [0.900, 0.990]",
        "no evidence",
    ]
    assert axes.get_xlim()[0] < 0.3  # the interval is not cut off
    assert [0.85, 0.85] in [list(line.get_xdata()) for line in axes.lines]
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]
    assert ([0.3, 0.7], [0, 0]) in drawn
    assert ([0.9, 0.99], [2, 2]) in drawn
    assert len(drawn) == 1 + 2 + 3  # a limit, two intervals, three values
    assert axes.get_yticks().tolist() == [0, 1, 2, 3]
    bottom, top = axes.get_ylim()
    assert 3 < bottom < 4
    assert -1 < top < 0
    assert [text.get_position()[1] for text in axes.texts] == [0, 1, 2, 3]
    assert [text.get_color() == "black" for text in axes.texts] == [True, False, True, False]


@pytest.mark.parametrize(
    ("metric", "ends_of_cell", "limit", "ends"),
    [
        ("bpsn_auc", (0.8, 0.7, 0.9), {}, (0.5, 1)),
        ("bpsn_auc", (0.8, 0.3, 0.9), {}, (0.3, 1)),
        ("bpsn_auc", (0.4, None, None), {}, (0.4, 1)),
        ("bpsn_auc", (0.8, 0.7, 0.9), {"floor": 0.2}, (0.2, 1)),
        ("negative_aeg", (0.1, 0.0, 0.2), {}, (-0.5, 0.5)),
    ],
)
def test_an_axis_is_that_of_its_metric_or_goes_on_to_the_lowest_end(
    metric, ends_of_cell, limit, ends
):
    axes = intervals(
        build_report({"gay": {metric: build_cell(*ends_of_cell)}}), metric, **limit
    ).axes[0]
    low, high = axes.get_xlim()
    assert ends[0] - 0.02 < low < ends[0]
    assert ends[1] < high < ends[1] + 0.02


def test_a_forest_of_gaps_has_a_line_at_0_and_one_of_aucs_has_none():
    for metric, n_lines in (("negative_aeg", 1), ("bpsn_auc", 0)):
        axes = intervals(build_report({}), metric).axes[0]
        assert [list(line.get_xdata()) for line in axes.lines] == [[0, 0]] * n_lines


def test_a_forest_of_gaps_is_sorted_by_distance_from_0_and_bounded_on_both_sides():
    report = build_report(
        {
            "near": {"negative_aeg": build_cell(0.1, 0.0, 0.2)},
            "below": {"negative_aeg": build_cell(-0.4, -0.45, -0.31)},
        }
    )
    axes = intervals(report, "negative_aeg", ceiling=0.3).axes[0]
    assert [text.get_text()[:6] for text in axes.texts] == ["-0.400", "+0.100"]
    lines = [list(line.get_xdata()) for line in axes.lines]
    assert [0.3, 0.3] in lines
    assert [-0.3, -0.3] in lines
    markers = {line.get_xdata()[0]: line.get_marker() for line in axes.lines if line.get_marker()}
    assert (markers[-0.4], markers[0.1]) == ("D", "o")


def test_without_a_limit_an_interval_is_a_dot_and_a_value_alone_a_square():
    cells = {"gay": {"bpsn_auc": build_cell(0.9, 0.85, 0.95)}, "few": {"bpsn_auc": build_cell(0.8)}}
    axes = intervals(build_report(cells), "bpsn_auc").axes[0]
    markers = {line.get_xdata()[0]: line.get_marker() for line in axes.lines if line.get_marker()}
    assert (markers[0.9], markers[0.8]) == ("o", "s")


@pytest.mark.parametrize(
    ("metric", "limits", "message"),
    [
        ("auc", {}, "`metric` must be one of subgroup_auc, .*; got 'auc'"),
        ("negative_aeg", {"floor": 0.9}, "`floor` must not be given for negative_aeg; got 0.9"),
        ("bpsn_auc", {"ceiling": 0.1}, "`ceiling` must not be given for bpsn_auc; got 0.1"),
    ],
)
def test_a_forest_refuses_other_metrics_and_limits_of_the_other_kind(metric, limits, message):
    with pytest.raises(ValueError, match=message):
        intervals(build_report({}), metric, **limits)


@pytest.mark.parametrize(
    ("metric", "limit", "ends", "marker"),
    [
        ("bpsn_auc", {"floor": 0.8}, (0.85, 0.81, 0.9), "o"),
        ("bpsn_auc", {"floor": 0.8}, (0.79, 0.76, 0.82), "s"),
        ("bpsn_auc", {"floor": 0.8}, (0.7, 0.65, 0.75), "D"),
        ("bpsn_auc", {"floor": 0.8}, (0.85, 0.8, 0.9), "o"),
        ("bpsn_auc", {"floor": 0.8}, (0.75, 0.7, 0.8), "s"),
        ("negative_aeg", {"ceiling": 0.3}, (-0.1, -0.2, 0.1), "o"),
        ("negative_aeg", {"ceiling": 0.3}, (-0.29, -0.35, -0.2), "s"),
        ("negative_aeg", {"ceiling": 0.3}, (0.4, 0.35, 0.45), "D"),
        ("negative_aeg", {"ceiling": 0.3}, (0.2, 0.1, 0.3), "o"),
        ("negative_aeg", {"ceiling": 0.3}, (-0.35, -0.4, -0.3), "s"),
        ("negative_aeg", {"ceiling": 0.3}, (0.0, -0.4, 0.4), "s"),  # 0 is within, both ends beyond
    ],
)
def test_a_limit_is_met_or_missed_only_if_the_whole_interval_is(metric, limit, ends, marker):
    axes = intervals(build_report({"gay": {metric: build_cell(*ends)}}), metric, **limit).axes[0]
    [mark] = [line for line in axes.lines if line.get_marker() in {"o", "D", "s"}]
    assert mark.get_marker() == marker
    assert mark.get_markerfacecolor() == mark.get_color()


def test_several_forests_have_the_same_rows_if_they_are_asked_to():
    report = build_report(
        {name: {"bpsn_auc": build_cell(value)} for name, value in (("a", 0.9), ("b", 0.7))}
    )
    axes = intervals(report, "bpsn_auc", order=["a", "b"]).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("gay", "gay"),
        (
            "a_name_of_many_words_that_is_too_long_for_it",
            "a_name_of_many_words_that_is_\ntoo_long_for_it",
        ),
        ("x" * 40, f"{'x' * 32}\n{'x' * 8}"),
        ("x" * 56, f"{'x' * 32}\n{'x' * 24}"),
        ("a" * 100 + "b" * 100, f"{'a' * 28}…{'b' * 3}\n{'b' * 24}"),
        ("evil\u202elive", "evil\\u202elive"),
    ],
)
def test_a_long_name_is_wrapped_and_a_mark_that_turns_the_line_is_escaped(name, drawn):
    axes = intervals(
        build_report({name: {"bpsn_auc": build_cell(0.9, 0.8, 0.95)}}), "bpsn_auc"
    ).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == [drawn]
