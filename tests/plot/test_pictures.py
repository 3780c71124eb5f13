"""Pictures are really drawn: what they say, what is grey, and that any name fits."""

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, StepPatch
from matplotlib.text import Text
from support.pictures import GREY, colours, texts, weight, written

from bias_metrics import compare_bias, evaluate_bias, plot
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.plot._colours import BLUE, ORANGE

ODD_NAME = "a$b_c$d"
MANY = [f"identity {number}" for number in range(60)]
SAME = {"value": 0.0, "low": -0.01, "high": 0.01, "p_holm": 1.0}


def build_report(subgroups):
    return {"subgroups": subgroups}


def build_comparison(*names, **changed):
    cells = {metric: changed.get(metric, SAME) for metric in SUBGROUP_METRICS}
    return {"confidence": 0.95, "subgroups": dict.fromkeys(names, cells)}


def build_cell(value, low=None, high=None):
    return {"value": value, "low": low, "high": high}


def build_run(overall, **values):
    return {
        "overall": {"value": overall},
        "subgroups": {name: {"value": value} for name, value in values.items()},
    }


DRAWN = {
    "comparison": lambda names: plot.comparison(
        build_comparison(*names), first=ODD_NAME, second=ODD_NAME
    ),
    "forest": lambda names: plot.intervals(
        build_report({name: {"bpsn_auc": build_cell(0.9, 0.8, 0.95)} for name in names}), "bpsn_auc"
    ),
    "terms": lambda names: plot.per_term_scatter(
        {ODD_NAME: [build_run(0.1, **dict.fromkeys(names, 0.2))]}, metric=ODD_NAME
    ),
    "distributions": lambda names: plot.distribution_panels(
        dict.fromkeys(names, (np.array([True]), np.array([0.5]), np.array([True]))), title=ODD_NAME
    ),
    "heatmap": lambda names: plot.heatmap(
        build_report(
            {
                n: {"n": 5} | dict.fromkeys(SUBGROUP_METRICS, build_cell(0.4, 0.3, 0.5))
                for n in names
            }
        )
    ),
}
every_picture = pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)


@every_picture
def test_a_name_is_written_as_it_is_and_never_read_as_a_formula(draw, tmp_path):
    names = [ODD_NAME, r"$\frac{", "_hidden", "50%"]
    figure = draw(names)
    assert written(figure, tmp_path)
    for name in names:
        labels = [
            text for text in figure.findobj(Text) if text.get_text().startswith((name, f"{name}\n"))
        ]
        assert labels
        assert not any(text.get_parse_math() for text in labels)


@every_picture
def test_no_name_turns_the_line_that_it_stands_in(draw):
    drawn_texts = texts(draw(["evil\u202elive"]))
    assert any("evil\\u202elive" in text for text in drawn_texts)
    assert not any("\u202e" in text for text in drawn_texts)


@pytest.mark.parametrize("kind", sorted(DRAWN.keys() - {"terms"}))  # whose panels say it all
def test_what_is_said_of_all_panels_lies_within_the_picture(kind, tmp_path):
    figure = DRAWN[kind](["gay", "muslim"])
    assert figure.texts
    assert written(figure, tmp_path)
    ends = [extent.get_window_extent() for extent in figure.texts]
    assert all(
        figure.bbox.padded(2).fully_contains(*corner)
        for extent in ends
        for corner in extent.corners()
    )


@every_picture
@pytest.mark.slow
def test_sixty_identities_are_all_drawn(draw, tmp_path):
    figure = draw(MANY)
    assert written(figure, tmp_path)
    drawn_texts = {re.split(r"\n| +\(", text)[0] for text in texts(figure)}
    assert drawn_texts >= set(MANY)


@every_picture
def test_a_picture_grows_with_its_identities(draw):
    few, many = (np.prod(draw(names).get_size_inches()) for names in (MANY[:2], MANY[:32]))
    assert many > 1.2 * few


@every_picture
def test_no_identity_at_all_still_makes_a_picture(draw, tmp_path):
    assert written(draw([]), tmp_path)


def test_distributions_have_one_scale_and_a_group_without_rows_is_grey(tmp_path):
    y_true, y_score = np.array([0, 0, 1, 1], bool), np.array([0.1, 0.2, 0.7, 0.9])
    inside, nowhere = np.array([1, 0, 1, 0], bool), np.zeros(4, bool)
    figure = plot.distribution_panels(
        {"gay": (y_true, y_score, inside), "a$b": (y_true, y_score / 2, nowhere)}, title=ODD_NAME
    )
    assert written(figure, tmp_path)
    gay, none = figure.axes[:2]
    assert gay.get_title() == "gay (n=2)"
    assert none.get_title() == "a$b (n=0)"
    assert (gay.get_xlim(), gay.get_ylim()) == (none.get_xlim(), none.get_ylim())
    assert [to_hex(axes.get_facecolor()) == GREY for axes in (gay, none)] == [False, True]
    [word] = none.texts
    assert (word.get_text(), word.get_position()) == ("no evidence", (0.5, 0.5))
    assert not gay.texts


def test_no_panel_is_cut_off_that_is_higher_than_the_first():
    """In 40 bins of .025 a density is at most 40; it is so where all scores are in one bin."""
    y_true, y_score = np.zeros(4, bool), np.array([0.0, 0.0, 0.5, 1.0])
    even, peak = np.array([1, 0, 1, 1], bool), np.array([1, 1, 0, 0], bool)
    panels = {"even": (y_true, y_score, even), "peak": (y_true, y_score, peak)}
    figure = plot.distribution_panels(panels, background=np.ones(4, bool))
    assert all(axes.get_ylim()[1] >= 40 for axes in figure.axes[:2])
    assert all(axes.get_ylim()[0] == 0 for axes in figure.axes[:2])
    [filled] = (patch for patch in figure.axes[1].patches if isinstance(patch, StepPatch))
    assert filled.get_data()[0].max() == pytest.approx(40)


def test_filled_and_outlined_histograms_are_densities_of_their_class_on_a_square_root_scale():
    y_true = np.array([0, 0, 0, 1, 1, 1, 1, 0], bool)
    y_score = np.array([0.0, 0.1, 0.3, 0.4, 0.6, 0.9, 1.0, 1.0])
    inside = np.arange(8) % 2 == 0
    axes = plot.distribution_panels({"gay": (y_true, y_score, inside)}).axes[0]
    edges = np.linspace(0, 1, 41)
    filled = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    outlined = [patch for patch in axes.patches if isinstance(patch, Polygon)]
    assert [to_hex(patch.get_facecolor()) for patch in filled] == [BLUE, ORANGE]
    assert [to_hex(patch.get_edgecolor()) for patch in outlined] == [BLUE, ORANGE]
    for of_class, own, others in zip((~y_true, y_true), filled, outlined, strict=True):
        heights, _ = np.histogram(y_score[of_class & inside], edges, density=True)
        assert own.get_data()[0] == pytest.approx(heights)
        heights, _ = np.histogram(y_score[of_class & ~inside], edges, density=True)
        assert others.get_xy()[1:-1:2, 1] == pytest.approx(heights)
    assert axes.yaxis.get_transform().transform(np.array([4.0, 9.0])) == pytest.approx([2, 3])
    assert not axes.yaxis.get_visible()


def test_the_legend_of_distributions_names_the_classes_by_their_colours():
    figure = plot.distribution_panels({})
    [legend] = figure.legends
    first, second, third = legend.get_patches()
    assert [text.get_text() for text in legend.get_texts()] == [
        "non-toxic, mentions",
        "toxic, mentions",
        "same class, background",
    ]
    assert [to_hex(patch.get_facecolor()) for patch in (first, second)] == [BLUE, ORANGE]
    assert not third.get_fill()


def test_panels_have_common_axes_whose_numbers_stand_under_the_lowest_of_each_column():
    figure = DRAWN["distributions"]([f"identity {number}" for number in range(4)])
    assert [axes.axison for axes in figure.axes] == [position < 4 for position in range(6)]
    numbered = [axes.xaxis.get_tick_params()["labelbottom"] for axes in figure.axes[:4]]
    assert numbered == [False, True, True, True]
    first = figure.axes[0]
    for axes in figure.axes[1:4]:
        assert first.get_shared_x_axes().joined(first, axes)
        assert first.get_shared_y_axes().joined(first, axes)


def test_only_rows_of_the_background_are_drawn_beside_a_group():
    """A background histogram of rows at .9 alone has one step, in its last bin."""
    y_true, y_score = np.zeros(4, bool), np.array([0.1, 0.2, 0.9, 0.9])
    inside = np.array([1, 0, 0, 0], bool)
    for background, n_steps in ((None, 2), (y_score > 0.5, 1)):
        figure = plot.distribution_panels(
            {"gay": (y_true, y_score, inside)}, title="t", background=background
        )
        [outline] = [patch for patch in figure.axes[0].patches if isinstance(patch, Polygon)]
        heights = outline.get_xy()[:, 1]
        assert np.sum((heights[1:] > 0) & (heights[:-1] == 0)) == n_steps


@pytest.mark.parametrize("score", [0.5, 3.0])
def test_a_model_that_gives_one_score_has_a_picture(score, tmp_path):
    rows = np.array([0, 1, 1], bool), np.full(3, score), np.array([0, 1, 1], bool)
    figure = plot.distribution_panels({"gay": rows}, title="t")
    assert written(figure, tmp_path)
    low, high = figure.axes[0].get_xlim()
    assert low < score < high
    filled = next(patch for patch in figure.axes[0].patches if isinstance(patch, StepPatch))
    edges = filled.get_data().edges
    assert (edges[0], edges[-1]) == (score - 0.5, score + 0.5)


def test_the_axis_of_the_terms_starts_lower_when_a_value_is():
    def find_ends(value):
        figure = plot.per_term_scatter({"m": [build_run(0.9, gay=value)]}, metric="AUC", lowest=0.5)
        return figure.axes[0].get_ylim()

    for value, start in ((0.8, 0.5), (0.3, 0.3)):
        low, high = find_ends(value)
        assert start - 0.05 < low < start
        assert 1 < high < 1.05


def test_a_difference_is_marked_only_when_it_is_shown_after_holm(tmp_path):
    figure = plot.comparison(
        build_comparison(
            "muslim",
            bpsn_auc={"value": 0.101, "low": 0.05, "high": 0.15, "p_holm": 0.01},
            bnsp_auc={"value": 0.102, "low": 0.01, "high": 0.19, "p_holm": 0.2},
            subgroup_auc={"value": 0.103, "low": -0.01, "high": 0.2, "p_holm": 0.01},
        ),
        first="new",
        second="old",
    )
    assert written(figure, tmp_path)
    expected = {"● +0.101\n[+0.050, +0.150]", "+0.102\n[+0.010, +0.190]", "new minus old"}
    assert expected <= set(texts(figure))
    assert weight(figure, "+0.101") == "bold"
    assert weight(figure, "+0.102") == weight(figure, "+0.103") == "normal"
    assert sum(text.startswith("● +") for text in texts(figure)) == 1


@pytest.mark.parametrize(
    ("low", "high", "p_holm", "is_marked"),
    [
        (0.01, 0.2, 0.05, True),
        (0.01, 0.2, 0.0501, False),
        (0.01, 0.2, None, False),
        (0.0, 0.2, 0.01, False),
        (-0.2, 0.0, 0.01, False),
        (-0.2, -0.01, 0.01, True),
    ],
)
def test_a_difference_is_shown_at_the_level_itself_and_not_if_0_is_an_end(
    low, high, p_holm, is_marked
):
    difference = {"value": (low + high) / 2, "low": low, "high": high, "p_holm": p_holm}
    figure = plot.comparison(build_comparison("gay", bpsn_auc=difference))
    assert any(text.startswith("● ") and "[" in text for text in texts(figure)) == is_marked
    assert "● bold: shown at 95% after Holm's adjustment" in texts(figure)


def test_the_colour_bars_stand_side_by_side_below_the_grid(tmp_path):
    figure = plot.comparison(build_comparison("gay", "muslim"))
    assert written(figure, tmp_path)
    bars = {
        axes.get_xlabel().partition(" ")[0]: axes
        for axes in figure.findobj(Axes)
        if axes.get_xlabel()
    }
    assert bars.keys() == {"AUC", "AEG"}
    assert bars["AUC"].get_window_extent().x1 < bars["AEG"].get_window_extent().x0
    for bar in bars.values():
        assert bar.get_xlim() == (-0.2, 0.2)
        assert bar.get_window_extent().y1 < figure.axes[0].get_window_extent().y0


@pytest.mark.parametrize("end", [{"low": 0.3}, {"high": 0.5}])
def test_one_end_alone_is_no_interval(end):
    half = build_cell(0.4) | end
    cells = {"n": 5} | dict.fromkeys(SUBGROUP_METRICS, half)
    drawn_texts = texts(plot.heatmap(build_report({"gay": cells})))
    assert {"0.400\nno interval", "gay  (n=5)"} <= set(drawn_texts)
    assert "0.400  no interval" in texts(plot.intervals(build_report({"gay": cells}), "bpsn_auc"))
    assert "+0.400\nno interval" in texts(plot.comparison(build_comparison("gay", bpsn_auc=half)))


def test_a_published_value_has_its_own_decimals():
    cells = {"n": None} | dict.fromkeys(SUBGROUP_METRICS, build_cell(0.4) | {"digits": 2})
    drawn_texts = set(texts(plot.heatmap(build_report({"gay": cells}), intervals=False)))
    assert {"0.40", "+0.40"} <= drawn_texts


def test_words_are_white_on_dark_cells_and_black_on_light_ones():
    def find_ink(value):
        cells = {"n": None} | dict.fromkeys(SUBGROUP_METRICS, build_cell(value, value, value))
        [text] = plot.heatmap(build_report({"gay": cells})).findobj(
            lambda artist: (
                isinstance(artist, Text)
                and artist.get_position() == (0.5, 0.5)
                and artist.get_text()
            )
        )
        return text.get_color()

    assert (find_ink(0.5), find_ink(1.0)) == ("white", "black")


def test_a_difference_without_interval_or_value_is_grey():
    figure = plot.comparison(
        build_comparison("sikh", subgroup_auc=build_cell(None), bpsn_auc=build_cell(0.15)),
        first="a",
        second="b",
    )
    assert [colour == GREY for colour in colours(figure)] == [True, True, False, False, False]
    assert {"no evidence", "+0.150\nno interval"} <= set(texts(figure))


def test_the_colour_of_a_difference_depends_on_nothing_else_and_stops_at_the_ends():
    def draw_difference(value):
        difference = {"value": value, "low": value, "high": value, "p_holm": 1.0}
        comparison = build_comparison("a", bpsn_auc=difference, negative_aeg=difference)
        return colours(plot.comparison(comparison, first="a", second="b"))

    assert draw_difference(0.2) == draw_difference(0.9)
    assert draw_difference(-0.2) == draw_difference(-0.9)
    assert len({tuple(draw_difference(value)) for value in (-0.2, -0.1, 0.0, 0.1, 0.2)}) == 5
    assert draw_difference(0.1)[1] != draw_difference(0.1)[4]  # an AEG is no AUC


def test_terms_stand_by_the_first_models_mean_and_every_training_is_a_point(tmp_path):
    figure = plot.per_term_scatter(
        {
            "old": [
                build_run(0.2, gay=0.3, sikh=0.5, deaf=None),
                build_run(0.4, gay=0.9, sikh=0.5),
            ],
            "new": [build_run(0.1, gay=0.1, sikh=0.2, deaf=None)],
        },
        metric="false positive rate",
    )
    assert written(figure, tmp_path)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["gay", "sikh", "deaf"]
    old, new = (np.asarray(points.get_offsets()).T.tolist() for points in axes.collections)
    assert (old[1], new[1]) == ([0.3, 0.9, 0.5, 0.5], [0.1, 0.2])
    assert [round(position) for position in (*old[0], *new[0])] == [
        0,
        0,
        1,
        1,
        0,
        1,
    ]  # at their own terms
    assert max(old[0][:2]) < new[0][0]  # beside each other
    assert np.array(old[0]) == pytest.approx(np.array([0, 0, 1, 1]) - 0.16)
    assert np.array(new[0]) == pytest.approx(np.array([0, 1]) + 0.16)
    assert [line.get_color() for line in axes.lines] == [ORANGE, BLUE]
    assert [to_hex(points.get_facecolor()[0]) for points in axes.collections] == [ORANGE, BLUE]
    assert [line.get_ydata()[0] for line in axes.lines] == pytest.approx([(0.2 + 0.4) / 2, 0.1])
    assert [text.get_text() for text in axes.texts] == ["no evidence"]
    assert axes.texts[0].get_position() == (2, 0.5)
    assert axes.get_xticks().tolist() == [0, 1, 2]
    assert [tick.get_color() == "black" for tick in axes.get_xticklabels()] == [True, True, False]
    low, high = axes.get_xlim()
    assert -1 < low < -0.16
    assert 2.16 < high < 3
    [legend] = figure.legends
    lines = zip(legend.get_texts(), legend.get_lines(), strict=True)
    assert [(text.get_text(), line.get_color()) for text, line in lines] == [
        ("old (line: all rows)", ORANGE),
        ("new (line: all rows)", BLUE),
    ]


@pytest.mark.parametrize("models", [{}, {name: [build_run(0.1)] for name in "abc"}])
def test_terms_of_no_model_or_three_are_refused(models):
    with pytest.raises(ValueError, match=f"must have one or two entries; got {len(models)}"):
        plot.per_term_scatter(models, metric="rate")


def test_the_labels_of_a_square_alone_stand_beside_its_axes():
    calibrated = {"bias": {"value": None}, "reliability": []}
    figure = plot.reliability(calibrated, name="gay")
    [axes] = figure.axes
    figure.draw_without_rendering()
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert axes.xaxis.label.get_window_extent().y1 < axes.bbox.y0
    assert axes.yaxis.label.get_window_extent().x1 < axes.bbox.x0
    [word] = axes.texts
    assert word.get_position() == (0.5, 0.5)
    assert to_hex(axes.get_facecolor()) == GREY
    for axis in (axes.xaxis, axes.yaxis):
        assert axis.get_ticklocs().tolist() == [0, 0.5, 1]
        assert [tick_label.get_text() for tick_label in axis.get_ticklabels()] == ["0", "½", "1"]
    assert axes.get_aspect() == 1


def test_reports_and_comparisons_of_the_library_are_drawn_as_they_are(tmp_path):
    rng = np.random.default_rng(0)
    y_true, mask = rng.random(400) < 0.4, rng.random(400) < 0.3
    first, second = (y_true + rng.normal(0, spread, 400) for spread in (0.5, 2))
    groups = {"muslim": mask, "nobody": np.zeros(400, bool)}
    report = evaluate_bias(y_true, first, groups)
    assert written(plot.intervals(report, "bpsn_auc"), tmp_path)
    plain = {
        name: {"n": report.counts[name].n}
        | {metric: number.to_dict(interval=True) for metric, number in cells.items()}
        for name, cells in report.subgroups.items()
    }
    assert texts(plot.heatmap(report)) == texts(plot.heatmap(build_report(plain)))
    comparison = compare_bias(y_true, first, second, groups)
    figure = plot.comparison(comparison, first="sharp", second="blunt")
    assert written(figure, tmp_path)
    assert colours(figure)[5:] == [GREY] * 5
    bpsn = comparison.subgroups["muslim"].bpsn_auc
    assert bpsn.p_holm < 0.05
    assert weight(figure, f"{bpsn.value:+.3f}") == "bold"


def test_the_two_perspective_models_are_compared_in_one_picture(real_data, tmp_path):
    rows = pd.read_parquet(real_data / "perspective_templates.parquet")
    groups = {
        term: rows["phrase"].str.contains(rf"\b{term}\b").to_numpy()
        for term in ("gay", "homosexual", "straight", "sikh")
    }
    comparison = compare_bias(
        rows["toxicity"] == "toxic", rows["TOXICITY@6"], rows["TOXICITY@1"], groups
    )
    figure = plot.comparison(comparison, first="TOXICITY@6", second="TOXICITY@1")
    assert written(figure, tmp_path)
    assert len(colours(figure)) == 20
    for term in ("gay", "homosexual"):
        value = comparison["bpsn_auc", term].value
        assert value > 0.2
        assert weight(figure, f"● {value:+.3f}") == "bold"


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_distributions_of_rows_have_the_background_of_the_report(background):
    y_true, y_score = np.zeros(4, bool), np.array([0.1, 0.2, 0.9, 0.95])
    groups = {"gay": [1, 0, 0, 0], "muslim": [0, 1, 0, 0]}
    figure = plot.score_distributions(y_true, y_score, groups, background=background)
    [outline] = [patch for patch in figure.axes[0].patches if isinstance(patch, Polygon)]
    heights = outline.get_xy()[:, 1]
    n_steps = np.sum((heights[1:] > 0) & (heights[:-1] == 0))
    assert n_steps == {"outside_subgroup": 3, "no_identity": 2}[background]


def test_distributions_without_rows_still_make_a_picture(tmp_path):
    nothing = plot.score_distributions([], [], {"gay": []})
    assert written(nothing, tmp_path)
    assert "no evidence" in texts(nothing)


ON_AXES = {
    "heatmap": lambda axes: plot.heatmap(EVALUATED, title="mine", ax=axes),
    "intervals": lambda axes: plot.intervals(EVALUATED, "bpsn_auc", title="mine", ax=axes),
    "comparison": lambda axes: plot.comparison(COMPARED, first="mine", ax=axes),
}
ROWS = ([0, 1] * 20, np.linspace(0, 1, 40), {"gay": [0, 0, 1, 1] * 10})
EVALUATED = evaluate_bias(*ROWS)
COMPARED = compare_bias(*ROWS[:2], ROWS[1][::-1], ROWS[2])


@pytest.mark.parametrize("draw", ON_AXES.values(), ids=ON_AXES)
def test_a_picture_can_be_drawn_on_axes_of_the_callers_own(draw, tmp_path):
    figure = Figure(figsize=(12, 5))
    left, right = figure.subplots(1, 2)
    assert draw(right) is figure
    assert right.get_title().startswith("mine")
    assert not left.texts
    assert not figure.get_suptitle()
    assert figure.get_size_inches().tolist() == [12, 5]
    assert written(figure, tmp_path)


def test_axes_that_were_given_keep_their_own_title():
    axes = Figure().subplots()
    axes.set_title("my own")
    plot.heatmap(EVALUATED, ax=axes)
    assert axes.get_title() == "my own"


def test_a_picture_shows_itself_in_a_notebook_without_pyplot():
    figure = plot.heatmap(EVALUATED)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert isinstance(figure, Figure)
    assert plt.get_fignums() == []


def test_a_value_without_an_interval_is_grey_unless_intervals_are_not_wanted():
    cells = dict.fromkeys(SUBGROUP_METRICS, build_cell(0.4))
    report = build_report({"gay": {"n": None} | cells})
    figure = plot.heatmap(report)
    assert colours(figure) == [GREY] * 5
    assert "0.400\nno interval" in texts(figure)
    bare = plot.heatmap(report, intervals=False)
    assert GREY not in colours(bare)
    assert {"0.400", "+0.400", "gay"} <= set(texts(bare))


def test_terms_without_a_value_over_all_rows_have_no_line():
    figure = plot.per_term_scatter({"m": [build_run(None, gay=0.5)]}, metric="rate")
    assert len(figure.axes[0].lines) == 0
    [points] = figure.axes[0].collections
    low, high = figure.axes[0].get_xlim()
    assert -low == pytest.approx(high)  # one term stands in the middle
    assert np.asarray(points.get_offsets()).tolist() == [[0, 0.5]]
