"""Names that the font cannot draw do not fill the terminal with warnings."""

import warnings

import pytest
from matplotlib.figure import Figure
from support.judged import judge, rows

from biasgate.tasks.reporting.figures import draw_verdict, ignore_missing_glyphs


def test_a_name_with_an_emoji_is_drawn_without_a_warning(tmp_path):
    found = judge(tmp_path, rows(["\N{RAINBOW} \N{CJK UNIFIED IDEOGRAPH-4E2D}"], champion=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_verdict(*found, tmp_path)
    names = {path.name for path in tmp_path.glob("*.png")}
    assert names == {"harm.png", "intervals.png", "difference.png"}


def test_other_warnings_of_drawing_are_heard():
    figure = Figure()
    with pytest.warns(UserWarning, match="identical"), ignore_missing_glyphs():
        figure.subplots().set_xlim(1, 1)
