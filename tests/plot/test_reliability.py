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


def lines(axes):
    return [np.array(one.get_xydata()).tolist() for one in axes.lines]


def points(calibrated):
    return [[one.mean_score, one.share_positive] for one in calibrated.reliability]


def test_one_curve_lies_over_that_of_all_rows_and_the_diagonal():
    figure = plot.reliability(REPORT.subgroups["$gay$"], overall=REPORT.overall, name="$gay$")
    [axes] = figure.axes
    diagonal, behind, own = lines(axes)
    assert diagonal == [[0, 0], [1, 1]]
    assert behind == points(REPORT.overall)
    assert own == points(REPORT.subgroups["$gay$"])
    bias = REPORT.subgroups["$gay$"].bias.value
    assert axes.get_title() == f"$gay$\nmean score {bias:+.3f} off"
    band = axes.collections[0].get_paths()[0].vertices
    for one in REPORT.subgroups["$gay$"].reliability:
        assert [one.mean_score, one.low] in band.tolist()
        assert [one.mean_score, one.high] in band.tolist()
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 1), (0, 1))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("mean score", "share of positives")


def test_one_curve_may_stand_alone_on_own_axes():
    own = plot.reliability(REPORT.overall).axes[0]
    again = plot.reliability(REPORT.overall.to_dict(), ax=own)
    assert again is own.figure
    assert len(lines(own)) == 4


def test_panels_show_every_identity_and_say_who_has_no_evidence():
    found = REPORT.to_dict()
    figure = plot.reliability_panels(
        found["subgroups"], overall=found["overall"], title="file on rows"
    )
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title().split("\n")[0] for axes in shown] == ["$gay$", "nobody"]
    assert [one.get_text() for one in shown[1].texts] == ["no evidence"]
    assert figure.get_suptitle() == "file on rows"
    assert figure.get_supxlabel() == "mean score"
    assert figure.get_supylabel() == "share of positives"
    assert lines(shown[0])[1:] == [points(REPORT.overall), points(REPORT.subgroups["$gay$"])]
    assert len(lines(shown[1])) == 1


def test_many_panels_take_several_rows():
    figure = plot.reliability_panels(dict.fromkeys("abcdef", REPORT.overall))
    assert len([axes for axes in figure.axes if axes.axison]) == 6
    numbered = [axes.xaxis.get_tick_params()["labelbottom"] for axes in figure.axes[:6]]
    assert numbered == [False, False, True, True, True, True]
    assert len(plot.reliability_panels({}).axes) == 4
