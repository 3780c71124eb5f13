"""Series with different row labels are refused, instead of being matched by position."""

import inspect
import itertools
from dataclasses import is_dataclass

import numpy as np
import pytest

import bias_metrics
from bias_metrics import (
    Rows,
    compare_bias,
    evaluate_bias,
    evaluate_slices,
    mitigation,
    parts,
    roc_auc,
)

pd = pytest.importorskip("pandas")
N = 40
INDEX = pd.Index([f"c{one}" for one in range(N)])
LABEL = np.arange(N) % 2 == 0
SCORE = np.random.default_rng(1).random(N)
GAY = np.arange(N) < N // 2


def make_series(values, index=INDEX):
    return pd.Series(values, index=index)


def reverse_labels(values):
    """Return the same values with labels in another order."""
    return make_series(values, INDEX[::-1])


def test_series_of_one_index_give_the_numbers_of_their_arrays():
    table = evaluate_bias(make_series(LABEL), make_series(SCORE), {"gay": make_series(GAY)})
    assert table == evaluate_bias(LABEL, SCORE, {"gay": GAY})


def test_arrays_and_series_may_be_mixed():
    assert roc_auc(make_series(LABEL), SCORE) == roc_auc(LABEL, SCORE)


def test_an_equal_index_made_apart_is_the_same_index():
    ranged = pd.RangeIndex(N), pd.Index(list(range(N)))
    assert roc_auc(make_series(LABEL, ranged[0]), make_series(SCORE, ranged[1])) == roc_auc(
        LABEL, SCORE
    )
    lacking = pd.Index([np.nan, *range(N - 1)])
    again = pd.Index([np.nan, *range(N - 1)])
    assert roc_auc(make_series(LABEL, lacking), make_series(SCORE, again)) == roc_auc(LABEL, SCORE)


ROWS = Rows(make_series(LABEL), {"gay": GAY})
GAY_ = make_series(GAY)


@pytest.mark.parametrize(
    ("call", "name", "like"),
    [
        (
            lambda: evaluate_bias(make_series(LABEL), reverse_labels(SCORE), {"gay": GAY}),
            "y_score",
            "y_true",
        ),
        (
            lambda: evaluate_bias(make_series(LABEL), SCORE, {"gay": reverse_labels(GAY)}),
            "subgroups['gay']",
            "y_true",
        ),
        (
            lambda: evaluate_bias(
                make_series(LABEL), SCORE, {"gay": GAY}, clusters=reverse_labels(GAY)
            ),
            "clusters",
            "y_true",
        ),
        (
            lambda: compare_bias(make_series(LABEL), SCORE, reverse_labels(SCORE), {"gay": GAY}),
            "y_score_b",
            "y_true",
        ),
        (
            lambda: evaluate_slices(ROWS, SCORE, slices={"a": reverse_labels(GAY)}),
            "slices['a']",
            "y_true",
        ),
        (
            lambda: Rows(LABEL, {}, sample_weight=GAY_, clusters=reverse_labels(GAY)),
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


def test_numbers_of_an_index_are_shown_as_they_are_written():
    with pytest.raises(ValueError, match=r"`; got 1 where that has 0 \(row 0\)"):
        roc_auc(pd.Series([0, 1]), pd.Series([0.5, 0.6], index=[1, 0]))


def test_other_lengths_are_refused_with_their_numbers():
    with pytest.raises(ValueError, match=f"`y_score` must have {N} rows like `y_true`; got 10"):
        roc_auc(make_series(LABEL), pd.Series(SCORE[:10]))


# ---- Every public function: an example of each of its inputs that has rows, and of others


PARTS = {"subgroups", "slices", "candidates", "mentions", "masks", "panels", "threshold_set"}
ARRAYS = {
    **dict.fromkeys(("y_true", "in_subgroup", "marked", "which", "background"), LABEL),
    **dict.fromkeys(("y_score", "y_score_a", "y_score_b", "y_score_champion"), SCORE),
    **dict.fromkeys(("y_score_before", "y_score_after", "values", "given"), SCORE),
    **dict.fromkeys(("influence", "weight", "weights", "sample_weight"), SCORE),
    **dict.fromkeys(("places", "clusters"), np.arange(N)),
    **dict.fromkeys(("buckets", "pool_buckets", "pool_mentions"), np.zeros(N, int)),
}
OTHERS = {
    **dict.fromkeys(("threshold", "threshold_a", "threshold_b", "value"), 0.5),
    **dict.fromkeys(("n", "n_rows"), N),
    "shard": "a",
    "name": "y_score",
    "bounds": (0.0, 1.0),
    "rng": np.random.default_rng(0),
}
WITHOUT_ROWS = {"thresholds", "bits"}
# Inputs whose rows are not those of the other inputs.
OTHER_ROWS = {"threshold_set": "a set", "pool_buckets": "a pool", "pool_mentions": "a pool"}
KINDS = ("Array", "Subgroups", "Rows", "Panel", "Floats")


# By the labels of its first part, and of its last.
COMPOUND = {
    "self": lambda first, _: Rows(first(LABEL), {"gay": GAY}),
    "other": lambda first, _: Rows(first(LABEL), {"gay": GAY}),
    "rows": lambda first, _: Rows(first(LABEL), {"gay": GAY}),
    "subgroups": lambda first, last: {"gay": first(GAY), "tall": last(LABEL)},
    "slices": lambda first, last: {"gay": first(GAY), "tall": last(LABEL)},
    "mentions": lambda first, last: {"gay": first(GAY), "tall": last(LABEL)},
    "candidates": lambda first, last: {"a": first(SCORE), "b": last(SCORE)},
    "masks": lambda first, last: [("gay", first(GAY)), ("tall", last(LABEL))],
    "panels": lambda first, last: {"gay": (first(LABEL), last(SCORE), GAY)},
    "threshold_set": lambda first, last: (first(LABEL), last(SCORE)),
}


def make_input(name, first, last=None):
    """Make an input with row labels from `first`; its last part has labels from `last`."""
    if name in COMPOUND:
        return COMPOUND[name](first, last or first)
    return first(ARRAYS[name]) if name in ARRAYS else OTHERS[name]


def iterate_functions():
    """Yield names and public functions, constructors and methods."""
    for place in (bias_metrics, bias_metrics.plot, mitigation, parts):
        for name in place.__all__:
            found = getattr(place, name)
            if inspect.isfunction(found):
                yield name, found
            elif inspect.isclass(found):
                if not is_dataclass(found) and "__init__" in vars(found):
                    yield name, found
                for method in dir(found):
                    known = getattr(found, method)
                    written = inspect.isfunction(known) or inspect.ismethod(known)
                    if written and not method.startswith("_"):
                        yield f"{name}.{method}", known


def make_inputs(name, function):
    """Return a function's inputs that have rows, and all arguments of a call."""
    known = inspect.signature(function).parameters
    rows = [
        each
        for each, number in known.items()
        if any(kind in str(number.annotation) for kind in KINDS) and each not in WITHOUT_ROWS
    ]
    if name.startswith("Rows.") and "self" in known:
        rows.insert(0, "self")
    return rows, [
        each
        for each, number in known.items()
        if number.default is number.empty and number.kind is not number.VAR_KEYWORD
    ]


def find_accepted(name, function):
    """Return the pairs of inputs that a function accepts despite different row labels."""
    rows, needed = make_inputs(name, function)
    found = []
    for one, other in itertools.combinations_with_replacement(rows, 2):
        if OTHER_ROWS.get(one) != OTHER_ROWS.get(other) or (one == other and one not in PARTS):
            continue
        given = {each: make_input(each, np.asarray) for each in needed}
        if one == other:
            given[one] = make_input(one, make_series, reverse_labels)
        else:
            given |= {one: make_input(one, make_series), other: make_input(other, reverse_labels)}
        if "values" in given:
            given["values"] = (given["values"],)
        call = inspect.BoundArguments(inspect.signature(function), given)
        try:
            function(*call.args, **call.kwargs)
        except ValueError as error:
            if "must have the index of" in str(error):
                continue
            raise
        found.append((one, other))
    return found


FUNCTIONS = {
    name: function
    for name, function in iterate_functions()
    if len(make_inputs(name, function)[0]) > 1 or PARTS & set(make_inputs(name, function)[0])
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_refuses_two_inputs_of_other_labels(name):
    assert find_accepted(name, FUNCTIONS[name]) == []


def test_a_function_that_looks_at_no_index_would_be_found():
    def unaligned(y_true: np.typing.ArrayLike, threshold_set: "tuple[np.typing.ArrayLike, ...]"):
        return y_true, threshold_set

    found = [("y_true", "threshold_set"), ("threshold_set", "threshold_set")]
    assert find_accepted("unaligned", unaligned) == found[1:]
    assert {
        "fped",
        "Rows",
        "Rows.check_scores",
        "ScoreCounts.from_rows",
        "score_distributions",
    } < set(FUNCTIONS)
