"""Unknown and missing arguments."""

import re

import pytest

from bias_metrics import compare_bias, evaluate_bias, roc_auc
from bias_metrics.plot import comparison, heatmap

ROWS = [False, True] * 10, [0.1, 0.9] * 10, {"gay": [True, True, False, False] * 5}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: evaluate_bias(*ROWS[:2], groups=ROWS[2]),
            "Did you mean 'subgroups'",
        ),
        (lambda: evaluate_bias(*ROWS, weights=[1]), "got 'weights'. Did you mean 'sample_weight'"),
        (lambda: evaluate_bias(*ROWS, treshold=0.5), "Did you mean 'threshold'"),
        (lambda: evaluate_bias(ROWS[0]), "evaluate_bias: missing a required argument: 'y_score'."),
        (lambda: roc_auc(*ROWS[:2], colour=1), "roc_auc must have known arguments; got 'colour'."),
    ],
)
def test_an_error_names_the_function_and_what_is_meant(call, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("thresholds", [0.5, (0.5,)])
def test_a_comparison_has_one_threshold_of_each_model(thresholds):
    with pytest.raises(ValueError, match="must be two numbers, one of each model"):
        compare_bias(*ROWS[:2], *ROWS[1:], thresholds=thresholds)


def test_intervals_are_one_of_three_choices():
    with pytest.raises(ValueError, match="must be True, False or 'cells'; got 'all'"):
        evaluate_bias(*ROWS, intervals="all")


def test_a_picture_refuses_the_table_of_another():
    with pytest.raises(ValueError, match="has differences; draw it with `comparison`"):
        heatmap(compare_bias(*ROWS[:2], *ROWS[1:]))
    with pytest.raises(ValueError, match="has numbers of one model; draw it with `heatmap`"):
        comparison(evaluate_bias(*ROWS))
