"""One function decides every colour, and a table is drawn as it was printed."""

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from bias_metrics.metrics import SUBGROUP_METRICS
from tasks.colours import UNDEFINED, colour_of, scale_of
from tasks.figures import metric_heatmap
from tasks.grids import Printed, printed_table

ENDS = {
    "auc": (0.5, 1),
    "bpsn_auc": (0.5, 1),
    "negative_aeg": (-0.5, 0.5),
    "equality_difference": (0, 0.2),
    "percent_toxic": (0, 50),
}


def luminance(colour):
    return sum(part * weight for part, weight in zip(colour, (0.299, 0.587, 0.114), strict=False))


def cells(figure):
    return [
        (one.get_y(), one.get_x(), to_hex(one.get_facecolor()))
        for one in figure.axes[0].patches
        if isinstance(one, Rectangle)
    ]


@pytest.mark.parametrize(("metric", "ends"), ENDS.items())
def test_beyond_its_scale_a_colour_stays_and_within_it_changes(metric, ends):
    low, high = ends
    assert colour_of(metric, low - 1) == colour_of(metric, low)
    assert colour_of(metric, high + 1) == colour_of(metric, high)
    middle = (low + high) / 2
    assert len({colour_of(metric, value) for value in (low, middle, high)}) == 3


@pytest.mark.parametrize("metric", ["auc", "equality_difference", "percent_toxic"])
def test_a_scale_without_a_middle_gets_steadily_lighter_or_darker(metric):
    low, high = ENDS[metric]
    shades = [luminance(colour_of(metric, low + (high - low) * i / 20)) for i in range(21)]
    assert shades in (sorted(shades), sorted(shades, reverse=True))


@pytest.mark.parametrize(
    ("metric", "difference"), [("negative_aeg", False), ("auc", True), ("aeg", True)]
)
def test_a_scale_with_a_middle_is_lightest_there_and_equally_dark_at_both_ends(metric, difference):
    end = scale_of(metric, difference=difference)[0].vmax
    low, middle, high = (
        luminance(colour_of(metric, value, difference=difference)) for value in (-end, 0, end)
    )
    assert middle > 0.9
    assert low < 0.3
    assert high < 0.3


@pytest.mark.parametrize(
    ("metric", "difference", "named"),
    [
        ("accuracy", False, "got 'accuracy'"),
        ("percent_toxic", True, "got the difference of 'percent_toxic'"),
    ],
)
def test_a_metric_without_a_scale_is_refused(metric, difference, named):
    with pytest.raises(ValueError, match=f"must be one that has a scale; {named}"):
        scale_of(metric, difference=difference)


def test_a_value_has_the_same_colour_in_a_heatmap_and_in_a_printed_table():
    cell = {"value": 0.42, "low": 0.4, "high": 0.44}
    subgroup = {"n": 5} | dict.fromkeys(SUBGROUP_METRICS, cell)
    report = {
        "candidate": {"name": "m"},
        "evaluation_set": {"name": "s"},
        "bias": {"subgroups": {"gay": subgroup}},
    }
    row = [Printed(".42", metric) for metric in SUBGROUP_METRICS]
    table = printed_table({"gay": row}, SUBGROUP_METRICS, title="t")
    assert cells(table) == cells(metric_heatmap(report))


def test_a_table_keeps_its_text_and_greys_what_was_not_printed(tmp_path):
    figure = printed_table(
        {"a$b_c$": [Printed("1,291"), Printed("74.1", "equality_difference", 0.148), None]},
        ["n", "sum", "none"],
        title="t$_",
        note="$_",
    )
    figure.savefig(tmp_path / "t.png")
    assert [text.get_text() for text in figure.axes[0].texts] == ["1,291", "74.1", "none"]
    colours = [colour for *_, colour in cells(figure)]
    expected = [(1, 1, 1), colour_of("equality_difference", 0.148), UNDEFINED]
    assert colours == [to_hex(colour) for colour in expected]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a$b_c$"]


def test_a_row_needs_one_cell_per_column():
    with pytest.raises(ValueError, match=r"`rows` must have 2 cells each; got 1 \(gay\)"):
        printed_table({"gay": [None]}, ["a", "b"], title="t")
