"""Series with different row labels are refused: nothing is silently matched by position."""

import numpy as np
import pytest

import bias_metrics
from bias_metrics import Rows, compare_bias, evaluate_bias, evaluate_slices, roc_auc

pd = pytest.importorskip("pandas")
N = 40
INDEX = pd.Index([f"c{one}" for one in range(N)])
LABEL = np.arange(N) % 2 == 0
SCORE = np.random.default_rng(1).random(N)
GAY = np.arange(N) < N // 2


def series(values, index=INDEX):
    return pd.Series(values, index=index)


def turned(values):
    """The same values under labels in another order."""
    return series(values, INDEX[::-1])


def test_series_of_one_index_give_the_numbers_of_their_arrays():
    found = evaluate_bias(series(LABEL), series(SCORE), {"gay": series(GAY)})
    assert found == evaluate_bias(LABEL, SCORE, {"gay": GAY})


def test_arrays_and_series_may_be_mixed():
    assert roc_auc(series(LABEL), SCORE) == roc_auc(LABEL, SCORE)


def test_an_equal_index_made_apart_is_the_same_index():
    ranged = pd.RangeIndex(N), pd.Index(list(range(N)))
    assert roc_auc(series(LABEL, ranged[0]), series(SCORE, ranged[1])) == roc_auc(LABEL, SCORE)
    lacking = pd.Index([np.nan, *range(N - 1)])
    again = pd.Index([np.nan, *range(N - 1)])
    assert roc_auc(series(LABEL, lacking), series(SCORE, again)) == roc_auc(LABEL, SCORE)


ROWS = Rows(series(LABEL), {"gay": GAY})
GAY_ = series(GAY)


@pytest.mark.parametrize(
    ("call", "name", "like"),
    [
        (lambda: evaluate_bias(series(LABEL), turned(SCORE), {"gay": GAY}), "y_score", "y_true"),
        (
            lambda: evaluate_bias(series(LABEL), SCORE, {"gay": turned(GAY)}),
            "subgroups['gay']",
            "y_true",
        ),
        (
            lambda: evaluate_bias(series(LABEL), SCORE, {"gay": GAY}, clusters=turned(GAY)),
            "clusters",
            "y_true",
        ),
        (
            lambda: compare_bias(series(LABEL), SCORE, turned(SCORE), {"gay": GAY}),
            "y_score_b",
            "y_true",
        ),
        (lambda: evaluate_slices(ROWS, SCORE, {"a": turned(GAY)}), "slices['a']", "rows"),
        (
            lambda: Rows(LABEL, {}, sample_weight=GAY_, clusters=turned(GAY)),
            "clusters",
            "sample_weight",
        ),
    ],
    ids=["scores", "subgroup", "clusters", "second model", "slices", "rows"],
)
def test_another_index_is_refused_with_what_to_do(call, name, like):
    with pytest.raises(ValueError, match=f"must have the index of `{like}`") as error:
        call()
    assert str(error.value).startswith(f"`{name}` must have the index of `{like}`; got 'c39'")
    assert f"(row 0). Align it with `.reindex({like}.index)`, or pass `.to_numpy()`" in str(
        error.value
    )


def test_other_lengths_are_refused_with_their_numbers():
    with pytest.raises(ValueError, match=f"`y_score` must have {N} rows like `y_true`; got 10"):
        roc_auc(series(LABEL), pd.Series(SCORE[:10]))


def test_every_public_function_of_labels_and_scores_looks_at_the_index():
    unchecked = []
    for name in bias_metrics.__all__:
        function = getattr(bias_metrics, name)
        code = getattr(function, "__code__", None)
        if code is None or isinstance(function, type):
            continue
        inner = getattr(function, "__wrapped__", function)
        names = inner.__code__.co_varnames[: inner.__code__.co_argcount]
        if "y_true" in names and not hasattr(function, "__wrapped__"):
            unchecked.append(name)
    assert unchecked == []
