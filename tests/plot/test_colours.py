"""One function decides every colour."""

import pytest

from bias_metrics.plot._colours import get_colour, get_scale

ENDS = {
    "auc": (0.5, 1),
    "bpsn_auc": (0.5, 1),
    "negative_aeg": (-0.5, 0.5),
    "equality_difference": (0, 0.2),
    "percent_toxic": (0, 50),
}


def compute_luminance(colour):
    return sum(part * weight for part, weight in zip(colour, (0.299, 0.587, 0.114), strict=False))


@pytest.mark.parametrize(("metric", "ends"), ENDS.items())
def test_beyond_its_scale_a_colour_stays_and_within_it_changes(metric, ends):
    low, high = ends
    assert get_colour(metric, low - 1) == get_colour(metric, low)
    assert get_colour(metric, high + 1) == get_colour(metric, high)
    middle = (low + high) / 2
    assert len({get_colour(metric, value) for value in (low, middle, high)}) == 3


@pytest.mark.parametrize("metric", ["auc", "equality_difference", "percent_toxic"])
def test_a_scale_without_a_middle_gets_steadily_lighter_or_darker(metric):
    low, high = ENDS[metric]
    shades = [compute_luminance(get_colour(metric, low + (high - low) * i / 20)) for i in range(21)]
    assert shades in (sorted(shades), sorted(shades, reverse=True))


@pytest.mark.parametrize(
    ("metric", "difference"), [("negative_aeg", False), ("auc", True), ("aeg", True)]
)
def test_a_scale_with_a_middle_is_lightest_there_and_equally_dark_at_both_ends(metric, difference):
    end = get_scale(metric, difference=difference)[0].vmax
    low, middle, high = (
        compute_luminance(get_colour(metric, value, difference=difference))
        for value in (-end, 0, end)
    )
    assert middle > 0.9
    assert low < 0.3
    assert high < 0.3


@pytest.mark.parametrize(
    ("metric", "difference", "message"),
    [
        ("accuracy", False, "got 'accuracy'"),
        ("percent_toxic", True, "got the difference of 'percent_toxic'"),
    ],
)
def test_a_metric_without_a_scale_is_refused(metric, difference, message):
    with pytest.raises(ValueError, match=f"must be one that has a scale; {message}"):
        get_scale(metric, difference=difference)
