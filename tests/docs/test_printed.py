"""Published tables are drawn as they were printed."""

import csv

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from printed import Printed, printed_table, published_report
from support.pictures import GREY, colours, texts, written

from bias_metrics.gate.rules import SUBGROUP_METRICS
from bias_metrics.plot import heatmap
from bias_metrics.plot._colours import UNDEFINED, get_colour


def cells(figure):
    return [
        (one.get_y(), one.get_x(), to_hex(one.get_facecolor()))
        for one in figure.axes[0].patches
        if isinstance(one, Rectangle)
    ]


def test_values_without_intervals_are_coloured_only_on_demand():
    rows = [{"subgroup": "gay"} | {f"T_{metric}": ".90" for metric in SUBGROUP_METRICS}]
    report = published_report(rows, "T")
    assert colours(heatmap(report)) == [GREY] * 5
    assert GREY not in colours(heatmap(report, intervals=False))


@pytest.mark.parametrize(
    ("printed", "drawn"), [(".9", "0.9"), ("0.941721", "0.942"), ("5e-2", "0.050"), ("1", "1")]
)
def test_a_published_value_keeps_its_decimals_up_to_three(printed, drawn):
    row = {"subgroup": "gay"} | {f"T_{metric}": printed for metric in SUBGROUP_METRICS}
    report = published_report([row], "T")
    assert drawn in texts(heatmap(report, intervals=False))


@pytest.mark.parametrize("value", ["nan", "inf", "none"])
def test_a_published_value_must_be_a_number_or_missing(value):
    row = {"subgroup": "gay"} | {f"T_{metric}": value for metric in SUBGROUP_METRICS}
    message = f"`T_subgroup_auc` must be a finite number or empty; got '{value}' for gay"
    with pytest.raises(ValueError, match=message):
        published_report([row], "T")


def test_a_published_subgroup_stands_once():
    row = {"subgroup": "gay"} | {f"T_{metric}": "" for metric in SUBGROUP_METRICS}
    with pytest.raises(ValueError, match="name each subgroup once; got 'gay' twice"):
        published_report([row, row], "T")


def published(reference, name):
    with (reference / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_table_3_of_borkan_is_drawn_with_the_decimals_it_was_printed_with(reference, tmp_path):
    rows = published(reference, "borkan_table3_transcribed.csv")
    report = published_report(rows, "T1")
    figure = heatmap(report, intervals=False)
    assert written(figure, tmp_path)
    assert len(colours(figure)) == 5 * len(rows)
    assert GREY not in colours(figure)
    gay = [row["subgroup"] for row in rows].index("gay")
    assert {"0.98", "0.57", "1.0", "+0.48", "+0.31"} == {
        text.get_text() for text in figure.axes[0].texts if int(text.get_position()[1]) == gay
    }


def test_table_6_of_borkan_is_grey_exactly_where_it_is_empty(reference, tmp_path):
    rows = published(reference, "borkan_table6_short.csv")
    model = "Rock:TOXICITY"
    report = published_report(rows, model, n="subset_size")
    figure = heatmap(report, intervals=False)
    assert written(figure, tmp_path)
    empty = [not row[f"{model}_{metric}"] for row in rows for metric in SUBGROUP_METRICS]
    assert [colour == GREY for colour in colours(figure)] == empty
    assert sum(empty) > 10
    assert {"other_gender  (n=0)", "male  (n=4,874)"} <= set(texts(figure))


def test_a_value_has_the_same_colour_in_a_heatmap_and_in_a_printed_table():
    cell = {"value": 0.42, "low": 0.4, "high": 0.44}
    subgroup = {"n": 5} | dict.fromkeys(SUBGROUP_METRICS, cell)
    report = {"subgroups": {"gay": subgroup}}
    row = [Printed(".42", metric) for metric in SUBGROUP_METRICS]
    table = printed_table({"gay": row}, SUBGROUP_METRICS, title="t")
    assert cells(table) == cells(heatmap(report))


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
    expected = [(1, 1, 1), get_colour("equality_difference", 0.148), UNDEFINED]
    assert colours == [to_hex(colour) for colour in expected]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a$b_c$"]


def test_a_row_needs_one_cell_per_column():
    with pytest.raises(ValueError, match=r"`rows` must have 2 cells each; got 1 \(gay\)"):
        printed_table({"gay": [None]}, ["a", "b"], title="t")
