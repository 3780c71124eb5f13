"""Pictures of reliability: the points are those of the report."""

import numpy as np
import pytest

from bias_metrics import Rows, calibration_report, plot

pytest.importorskip("matplotlib")
RNG = np.random.default_rng(0)
CHANCE = RNG.random(500)
REPORT = calibration_report(
    Rows(RNG.random(500) < CHANCE, {"$gay$": np.arange(500) < 200, "nobody": np.zeros(500)}), CHANCE
)


def list_lines(axes):
    return [np.array(line.get_xydata()).tolist() for line in axes.lines]


def list_points(calibrated):
    return [
        [score_bin.mean_score, score_bin.share_positive] for score_bin in calibrated.reliability
    ]


def test_one_curve_lies_over_that_of_all_rows_and_the_diagonal():
    figure = plot.reliability(REPORT.subgroups["$gay$"], overall=REPORT.overall, name="$gay$")
    [axes] = figure.axes
    diagonal, behind, own = list_lines(axes)
    assert diagonal == [[0, 0], [1, 1]]
    assert behind == list_points(REPORT.overall)
    assert own == list_points(REPORT.subgroups["$gay$"])
    bias = REPORT.subgroups["$gay$"].bias.value
    assert axes.get_title() == f"$gay$\nmean score {bias:+.3f} off"
    band = axes.collections[0].get_paths()[0].vertices
    for score_bin in REPORT.subgroups["$gay$"].reliability:
        assert [score_bin.mean_score, score_bin.low] in band.tolist()
        assert [score_bin.mean_score, score_bin.high] in band.tolist()
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 1), (0, 1))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("mean score", "share of positives")


def test_one_curve_may_stand_alone_on_own_axes():
    own = plot.reliability(REPORT.overall).axes[0]
    again = plot.reliability(REPORT.overall.to_dict(), ax=own)
    assert again is own.figure
    assert len(list_lines(own)) == 4


def test_panels_show_every_identity_and_say_who_has_no_evidence():
    content = REPORT.to_dict()
    figure = plot.reliability_panels(
        content["subgroups"], overall=content["overall"], title="file on rows"
    )
    visible = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title().split("\n")[0] for axes in visible] == ["$gay$", "nobody"]
    assert [text.get_text() for text in visible[1].texts] == ["no evidence"]
    assert figure.get_suptitle() == "file on rows"
    assert figure.get_supxlabel() == "mean score"
    assert figure.get_supylabel() == "share of positives"
    assert list_lines(visible[0])[1:] == [
        list_points(REPORT.overall),
        list_points(REPORT.subgroups["$gay$"]),
    ]
    assert len(list_lines(visible[1])) == 1


def test_many_panels_take_several_rows():
    figure = plot.reliability_panels(dict.fromkeys("abcdef", REPORT.overall))
    assert len([axes for axes in figure.axes if axes.axison]) == 6
    numbered = [axes.xaxis.get_tick_params()["labelbottom"] for axes in figure.axes[:6]]
    assert numbered == [False, False, True, True, True, True]
    assert len(plot.reliability_panels({}).axes) == 4
