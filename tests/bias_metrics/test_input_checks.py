"""Bad input is refused with a message that names the argument, the rule, the value and the row."""

import re

import numpy as np
import pytest

import bias_metrics
from bias_metrics import Rows, evaluate_bias, roc_auc
from bias_metrics._core.checks import check_mask, check_scores, check_weights
from bias_metrics.report.steps import ReportOptions, measure_subgroup, rank_scores

SUBGROUP_METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")
HINT = " Threshold fractions first: `fraction >= 0.5`."


def match_exactly(message):
    return f"^{re.escape(message)}$"


def bind_subgroup(name):
    def call(y_true, y_score, sample_weight=None):
        function = getattr(bias_metrics, name)
        return function(y_true, y_score, [0, 1, 0, 1], sample_weight=sample_weight)

    return call


def call_report(y_true, y_score, sample_weight=None):
    return evaluate_bias(y_true, y_score, {"g": [0, 1, 0, 1]}, sample_weight=sample_weight)


def call_metric(y_true, y_score, sample_weight=None):
    everyone = rank_scores(
        [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], sample_weight=sample_weight and [1] * 4
    )
    return measure_subgroup(everyone, y_true, y_score, sample_weight=sample_weight)


# Every public function that takes arrays, called with labels, scores and weights.
TAKES_ARRAYS = {
    "roc_auc": bias_metrics.roc_auc,
    **{name: bind_subgroup(name) for name in SUBGROUP_METRICS},
    "evaluate_bias": call_report,
    "rank_scores": rank_scores,
    "measure_subgroup": call_metric,
}
GOOD = {"y_true": [0, 1, 0, 1], "y_score": [0.1, 0.2, 0.3, 0.4]}
WRONG_ARRAYS = [
    ({"y_true": [[0, 1], [0, 1]]}, ValueError, "`y_true` must have shape (n,); got shape (2, 2)."),
    (
        {"y_true": [0, 1, 0.7, 1]},
        ValueError,
        "`y_true` must be boolean (or 0 and 1); got 0.7 (row 2)." + HINT,
    ),
    (
        {"y_true": [0, 1, np.nan, 1]},
        ValueError,
        "`y_true` must not be missing; got nan (row 2).",
    ),
    (
        {"y_true": ["no", "yes", "no", "yes"]},
        TypeError,
        (
            "`y_true` must be boolean (or 0 and 1); got 'no' (row 0). Compare it with the value "
            "that means yes, as in `labels == 'toxic'`."
        ),
    ),
    (
        {"y_true": [-1, 1, -1, 1]},
        ValueError,
        (
            "`y_true` must be boolean (or 0 and 1); got -1 (row 0). Compare -1 and 1 with 1: "
            "`labels == 1`."
        ),
    ),
    (
        {"y_true": [True, None, False, True]},
        ValueError,
        "`y_true` must not be missing; got None (row 1).",
    ),
    ({"y_score": 0.5}, ValueError, "`y_score` must have shape (n,); got shape ()."),
    ({"y_score": [0.1, 0.2]}, ValueError, "`y_score` must have 4 rows like `y_true`; got 2."),
    (
        {"y_score": [0.1, 0.2, np.nan, np.inf]},
        ValueError,
        "`y_score` must be finite; got nan (row 2).",
    ),
    (
        {"y_score": [0.1, -np.inf, 0.3, 0.4]},
        ValueError,
        "`y_score` must be finite; got -inf (row 1).",
    ),
    (
        {"y_score": ["a", "b", "c", "d"]},
        TypeError,
        "`y_score` must be numbers; got dtype <U1.",
    ),
    ({"y_score": [1j, 0, 0, 0]}, TypeError, "`y_score` must be numbers; got dtype complex128."),
    (
        {"sample_weight": [1, 2, 3]},
        ValueError,
        "`sample_weight` must have 4 rows like `y_true`; got 3.",
    ),
    (
        {"sample_weight": [1, -2, 3, 4]},
        ValueError,
        "`sample_weight` must be at least 0; got -2.0 (row 1).",
    ),
    (
        {"sample_weight": [1, 2, 3, np.nan]},
        ValueError,
        "`sample_weight` must be finite; got nan (row 3).",
    ),
    (
        {"sample_weight": [1, 2, 1e101, 4]},
        ValueError,
        "`sample_weight` must be 0 or between 1e-100 and 1e+100; got 1e+101 (row 2).",
    ),
    (
        {"sample_weight": [1, 1e-101, 3, 4]},
        ValueError,
        "`sample_weight` must be 0 or between 1e-100 and 1e+100; got 1e-101 (row 1).",
    ),
]


def check_all(y_true, y_score, sample_weight=None):
    """Run the checks that every function runs first."""
    n = check_mask("y_true", y_true).size
    check_scores("y_score", y_score, n)
    check_weights(sample_weight, n)


@pytest.mark.parametrize(("wrong", "error", "message"), WRONG_ARRAYS)
def test_a_wrong_array_is_refused(wrong, error, message):
    with pytest.raises(error, match=match_exactly(message)):
        check_all(**(GOOD | wrong))


@pytest.mark.parametrize("call", TAKES_ARRAYS.values(), ids=TAKES_ARRAYS)
@pytest.mark.parametrize(("wrong", "error", "message"), [WRONG_ARRAYS[at] for at in (1, 7, 12)])
def test_every_function_checks_each_of_its_arrays(call, wrong, error, message):
    with pytest.raises(error, match=match_exactly(message)):
        call(**(GOOD | wrong))


@pytest.mark.parametrize("name", SUBGROUP_METRICS)
@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([0, 1], ValueError, "`in_subgroup` must have 4 rows like `y_true`; got 2."),
        (
            [0, 0.5, 1, 1],
            ValueError,
            "`in_subgroup` must be boolean (or 0 and 1); got 0.5 (row 1)." + HINT,
        ),
        (
            np.array(list("abcd"), dtype="S1"),
            TypeError,
            "`in_subgroup` must be boolean (or 0 and 1); got dtype |S1.",
        ),
    ],
)
def test_every_subgroup_metric_refuses_a_wrong_mask(name, mask, error, message):
    with pytest.raises(error, match=match_exactly(message)):
        getattr(bias_metrics, name)(*GOOD.values(), mask)


@pytest.mark.parametrize(
    ("subgroups", "error", "message"),
    [
        (
            [[0, 1, 0, 1]],
            TypeError,
            (
                "`subgroups` must map a name to a boolean array, as in {'muslim': mask}, "
                "or be a data frame of boolean columns or a column of group names; got list."
            ),
        ),
        ({7: [0, 1, 0, 1]}, TypeError, "`subgroups` must have strings as names; got 7."),
        (
            {"muslim": [0, 1]},
            ValueError,
            "`subgroups['muslim']` must have 4 rows like `y_true`; got 2.",
        ),
        (
            {"muslim": [0, 1, 2, 1]},
            ValueError,
            "`subgroups['muslim']` must be boolean (or 0 and 1); got 2 (row 2)." + HINT,
        ),
    ],
)
def test_a_report_refuses_wrong_subgroups(subgroups, error, message):
    with pytest.raises(error, match=match_exactly(message)):
        evaluate_bias(*GOOD.values(), subgroups)


@pytest.mark.parametrize("missing", [None, "", float("nan")])
def test_a_column_of_group_names_is_a_mask_for_each(missing):
    rng = np.random.default_rng(0)
    y_true, y_score = rng.random(200) < 0.5, rng.random(200)
    names = rng.choice(np.array(["muslim", "jewish", missing], dtype=object), 200)
    masks = {name: names == name for name in ("jewish", "muslim")}
    expected = evaluate_bias(y_true, y_score, masks)
    assert evaluate_bias(y_true, y_score, names) == expected
    assert evaluate_bias(y_true, y_score, names.tolist()) == expected
    assert list(expected.subgroups) == ["jewish", "muslim"]


def test_a_column_of_names_and_numbers_is_refused():
    message = "`subgroups` must hold names as text; got 3 (row 2)."
    with pytest.raises(TypeError, match=match_exactly(message)):
        evaluate_bias(*GOOD.values(), ["muslim", "jewish", 3, None])


def test_names_of_other_rows_are_refused():
    pandas = pytest.importorskip("pandas")
    y_true = pandas.Series(GOOD["y_true"], index=[3, 2, 1, 0])
    names = pandas.Series(["muslim", "jewish", None, "muslim"])
    with pytest.raises(ValueError, match=r"`subgroups` must have the index of `y_true`"):
        evaluate_bias(y_true, GOOD["y_score"], names)


class TensorOfBfloat16:
    """A tensor of 16-bit numbers, which numpy cannot read."""

    dtype = "torch.bfloat16"

    def float(self):
        return np.array([0.5, 0.25, 0.125, 1.0], dtype=np.float32)


def test_scores_of_bfloat16_are_read_in_32_bits():
    expected = evaluate_bias(GOOD["y_true"], [0.5, 0.25, 0.125, 1.0], {})
    assert evaluate_bias(GOOD["y_true"], TensorOfBfloat16(), {}) == expected


NO_GROUP = "`power_mean_groups` must name subgroups; got 'a', 'b' (known: g)."
WRONG_OPTIONS = [
    (
        {"power": 0},
        "`power` must be a finite number other than 0 (the Jigsaw score uses -5); got 0.0.",
    ),
    ({"power_mean_groups": ["a", "g", "b"]}, NO_GROUP),
    (
        {"power_mean_groups": "g"},
        "`power_mean_groups` must be a list of different names; got 'g'.",
    ),
    (
        {"power_mean_groups": ["g", "g"]},
        "`power_mean_groups` must be a list of different names; got ['g', 'g'].",
    ),
]


@pytest.mark.parametrize(("option", "message"), WRONG_OPTIONS)
def test_a_report_and_its_options_refuse_wrong_values_in_the_same_words(option, message):
    with pytest.raises(ValueError, match=match_exactly(message)):
        evaluate_bias(*GOOD.values(), {"g": [0, 1, 0, 1]}, **option)
    with pytest.raises(ValueError, match=match_exactly(message)):
        ReportOptions.from_arguments(Rows(GOOD["y_true"], {"g": [0, 1, 0, 1]}), **option)


def test_naming_a_group_when_there_are_none_says_so():
    message = "`power_mean_groups` must name subgroups; got 'g' (known: none)."
    with pytest.raises(ValueError, match=match_exactly(message)):
        evaluate_bias(*GOOD.values(), {}, power_mean_groups=["g"])


@pytest.mark.parametrize(("ranked", "measured"), [([1, 1, 1, 1], None), (None, [1, 1])])
def test_a_subgroup_is_weighted_if_and_only_if_the_ranked_rows_are(ranked, measured):
    everyone = rank_scores(**GOOD, sample_weight=ranked)
    message = "`sample_weight` must be given if and only if `rank_scores` had weights."
    with pytest.raises(ValueError, match=match_exactly(message)):
        measure_subgroup(everyone, [0, 1], [0.1, 0.2], sample_weight=measured)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 1, 1], "`y_true` must hold at most the 2 ranked positives; got 3."),
        ([0, 0, 0], "`y_true` must hold at most the 2 ranked negatives; got 3."),
    ],
)
def test_a_subgroup_cannot_have_more_rows_than_were_ranked(labels, message):
    with pytest.raises(ValueError, match=match_exactly(message)):
        measure_subgroup(rank_scores(**GOOD), labels, [0.1, 0.2, 0.3])


def test_a_subgroup_of_another_dtype_than_was_ranked_is_refused():
    everyone = rank_scores([0, 1], np.array([0.1, 0.2], dtype=np.float32))
    message = "`y_score` must be float32 as ranked; got float64."
    with pytest.raises(TypeError, match=match_exactly(message)):
        measure_subgroup(everyone, [1], [0.2])


def test_a_subgroup_without_rows_has_no_dtype_to_be_wrong():
    everyone = rank_scores([0, 1], np.array([0.1, 0.2], dtype=np.float32))
    assert measure_subgroup(everyone, [], []).counts.n == 0


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_whole_scores_that_would_become_equal_are_refused(kind):
    y_true = [0, 1, 0, 1]
    for fine in (2**53, 2**53 - 1):
        roc_auc(y_true, np.array([1, 2, 3, fine], kind))
    message = r"`y_score` must be whole .* 2\^53.*9007199254740993 \(row 2"
    with pytest.raises(ValueError, match=message):
        roc_auc(y_true, np.array([1, 2, 2**53 + 1, 2**53 + 2], kind))


def test_large_scores_that_are_floating_point_numbers_are_what_they_are():
    assert roc_auc([0, 1, 0, 1], [1e300, 2e300, 1.0, 2e17]).value == 0.75
