"""Names that the font cannot draw do not fill the terminal with warnings."""

import warnings

import pytest
from matplotlib.figure import Figure

from bias_metrics.metrics import AUCS
from biasgate.tasks.reporting.figures import draw_judged, quiet_about_glyphs


def test_a_name_with_an_emoji_is_drawn_without_a_warning(tmp_path):
    cell = {"value": 0.9, "low": 0.8, "high": 0.95}
    aucs = dict.fromkeys(AUCS, cell)
    report = {
        "bias": {"subgroups": {"\N{RAINBOW} \N{CJK UNIFIED IDEOGRAPH-4E2D}": aucs}},
        "candidate": {"name": "c"},
        "evaluation_set": {"name": "s"},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_judged(report, {"results": [], "champion": None}, None, tmp_path)
    assert (tmp_path / "intervals.png").exists()


def test_other_warnings_of_drawing_are_heard():
    figure = Figure()
    with pytest.warns(UserWarning, match="identical"), quiet_about_glyphs():
        figure.subplots().set_xlim(1, 1)
