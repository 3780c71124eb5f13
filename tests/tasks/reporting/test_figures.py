"""Names that the font cannot draw do not fill the terminal with warnings."""

import warnings

import pytest
from matplotlib.figure import Figure
from support.made import number, report_with, verdict_of

from bias_metrics.metrics import AUCS
from biasgate.tasks.reporting.figures import draw_judged, quiet_about_glyphs


def test_a_name_with_an_emoji_is_drawn_without_a_warning(tmp_path):
    aucs = dict.fromkeys(AUCS, number(0.9, 0.8, 0.95))
    report = report_with({"\N{RAINBOW} \N{CJK UNIFIED IDEOGRAPH-4E2D}": aucs})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_judged(report, verdict_of(), None, tmp_path)
    assert (tmp_path / "intervals.png").exists()


def test_other_warnings_of_drawing_are_heard():
    figure = Figure()
    with pytest.warns(UserWarning, match="identical"), quiet_about_glyphs():
        figure.subplots().set_xlim(1, 1)
