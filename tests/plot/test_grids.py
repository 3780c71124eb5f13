"""Grids of cells."""

from matplotlib.figure import Figure

from bias_metrics.plot._report import label_grid


def test_columns_are_the_five_metrics_or_those_that_are_named():
    axes = Figure().add_subplot()
    label_grid(axes, ["gay"])
    assert [one.get_text() for one in axes.get_xticklabels()][1] == "BPSN\nAUC"
    label_grid(axes, ["gay"], ["one", "two"])
    assert [one.get_text() for one in axes.get_xticklabels()] == ["one", "two"]
