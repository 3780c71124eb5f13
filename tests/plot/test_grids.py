"""Grids of cells."""

from matplotlib.figure import Figure

from bias_metrics.plot._report import label_grid


def test_columns_are_the_five_metrics_or_those_that_are_named():
    axes = Figure().add_subplot()
    label_grid(axes, ["gay"])
    assert [tick_label.get_text() for tick_label in axes.get_xticklabels()][1] == "BPSN\nAUC"
    label_grid(axes, ["gay"], ["one", "two"])
    assert [tick_label.get_text() for tick_label in axes.get_xticklabels()] == ["one", "two"]


def test_labels_stand_at_the_middle_of_their_row_and_column_and_the_first_row_is_on_top():
    axes = Figure().add_subplot()
    label_grid(axes, ["gay", "deaf"], ["one", "two", "three"])
    assert axes.get_xticks().tolist() == [0.5, 1.5, 2.5]
    assert axes.get_yticks().tolist() == [0.5, 1.5]
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 3), (2, 0))
    assert axes.xaxis.get_ticks_position() == "top"
    assert not any(spine.get_visible() for spine in axes.spines.values())
    label_grid(axes, [])
    assert axes.get_ylim() == (1, 0)
