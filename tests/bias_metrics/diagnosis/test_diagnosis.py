"""A diagnosis names the pattern that the data was drawn from, and none if there is none."""

import json
import math
import re

import numpy as np
import pytest
from support.curves import corners_of

from bias_metrics import Rows, diagnose_bias, evaluate_bias
from bias_metrics.diagnosis.curves import Corners
from bias_metrics.diagnosis.patterns import Range, kind_of_gap, unsigned_gap


def diagnose(rows, **options):
    labels, scores, members = rows
    return diagnose_bias(Rows(labels, {"muslim": members}), scores, **options)["muslim"]


# By hand: scores evenly spread over a span. Elsewhere harmless ones span 0 to 10 and toxic
# ones 20 to 30, so that the background's AUC is 1.


def spans(harmless, toxic, n_harmless=400, n_toxic=400, n_background=400):
    cells = [
        *((False, False, (0, 10), n_background), (True, False, (20, 30), n_background)),
        *((False, True, harmless, n_harmless), (True, True, toxic, n_toxic)),
    ]
    sizes = [n for *_, n in cells]
    labels, members = (np.repeat([cell[i] for cell in cells], sizes) for i in (0, 1))
    # Midpoints of equal steps.
    scores = [low + (high - low) * (np.arange(n) + 0.5) / n for *_, (low, high), n in cells]
    return labels, np.concatenate(scores), members


SPANS = {
    "A": spans((5, 15), (25, 35)),
    "B": spans((15, 25), (35, 45)),
    "C": spans((15, 25), (35, 45), 200, 600),
    "D": spans((-15, -5), (5, 15)),
    "E": spans((8, 18), (13, 23)),
    "F": spans((-5, 15), (15, 35)),
    "G": spans((-20, 30), (0, 50)),
    "none": spans((0, 10), (20, 30)),
}


@pytest.mark.parametrize("pattern", SPANS)
def test_each_pattern_drawn_by_hand_is_named(pattern):
    assert diagnose(SPANS[pattern]).pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("B", "bpsn_auc_drop", 1 / 8),  # the upper half of one span over the lower half of another
        ("D", "bnsp_auc_drop", 1 / 8),
        ("E", "subgroup_auc_drop", 1 / 8),
        ("E", "negative_aeg", 1 / 2 - 0.2**2 / 2),
        ("E", "positive_aeg", 0.3**2 / 2 - 1 / 2),
        ("F", "negative_unsigned_gap", 1 / 8),  # two triangles between x and 1/4 + x/2
        ("F", "negative_aeg", 0),
        ("G", "subgroup_auc_drop", 0.6**2 / 2),  # spans of 50 that share 30
        ("G", "positive_unsigned_gap", 1 / 5),  # two triangles between x and 2/5 + x/5
        ("C", "share_difference", 600 / 800 - 1 / 2),
        ("C", "background_auc", 1),
    ],
)
def test_the_evidence_is_the_area_worked_out_by_hand(pattern, name, expected):
    found = diagnose(SPANS[pattern]).evidence[name]
    assert found.value == pytest.approx(expected, abs=1 / 200)
    assert found.low < found.value or found.value == 0
    assert found.high > found.value or found.value == 1


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("A", "harmless mentions will be flagged more often"),
        ("B", 'Harmless comments that mention "muslim" score so high that they mix with abuse'),
        ("C", '75% of the comments that mention "muslim" are toxic, against 50% of the others'),
        ("D", "abuse of this group will be missed more often"),
        ("E", "harmless mentions will be flagged and abuse of this group will be missed"),
        ("F", "a strict or a lenient threshold treats them differently"),
        ("G", "some harmless mentions will be flagged and some abuse of this group will be missed"),
        ("none", "No bias seen for comments that mention"),
    ],
)
def test_the_sentence_says_what_users_will_notice(pattern, said):
    assert said in diagnose(SPANS[pattern]).sentence


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (
            spans((4, 6), (24, 26)),
            {},
            (
                "toxic ones have less widely spread scores than other toxic comments; "
                "harmless ones have less widely spread scores than other harmless comments."
            ),
        ),
        (  # pulled to the middle, but apart
            spans((3, 13), (17, 27)),
            {},
            (
                "toxic ones score lower than other toxic comments "
                "and will be missed more often at some thresholds; "
                "harmless ones score higher than other harmless comments "
                "and will be flagged more often at some thresholds."
            ),
        ),
        (  # a drop of .18 +- .04: neither overlap nor its absence is clear
            SPANS["G"],
            {"auc_margin": 0.18},
            (
                "toxic ones have more widely spread scores than other toxic comments; "
                "harmless ones have more widely spread scores than other harmless comments."
            ),
        ),
        (
            SPANS["B"],
            {"aeg_margin": 0.499, "spread_margin": 0.499},
            "harmless ones are harder to tell from toxic comments elsewhere.",
        ),
        (
            SPANS["D"],
            {"aeg_margin": 0.499, "spread_margin": 0.499},
            "toxic ones are harder to tell from harmless comments elsewhere.",
        ),
        (
            spans((5, 15), (15, 35)),  # one class shifted, the other spread
            {},
            (
                "toxic ones have more widely spread scores than other toxic comments; "
                "harmless ones score higher than other harmless comments "
                "and will be flagged more often at some thresholds."
            ),
        ),
    ],
)
def test_a_difference_that_is_no_pattern_is_told_as_it_is(rows, options, said):
    found = diagnose(rows, **options)
    assert found.pattern == "other"
    assert found.sentence == f'Comments that mention "muslim" are treated differently: {said}'


ONE_SIDED = {
    "harmless higher": (spans((10, 20), (20, 30)), "flagged more often"),
    "harmless lower": (spans((-5, 5), (20, 30)), "flagged less often"),
    "toxic higher": (spans((0, 10), (25, 35)), "missed less often"),
    "toxic lower": (spans((0, 10), (15, 25)), "missed more often"),
}


@pytest.mark.parametrize("pattern", ONE_SIDED)
def test_a_shift_of_one_class_alone_has_words_of_its_own(pattern):
    rows, said = ONE_SIDED[pattern]
    found = diagnose(rows)
    kind, way = pattern.split()
    other = {"toxic": "harmless", "harmless": "toxic"}[kind]
    assert found.pattern == pattern
    assert found.name == f"{kind} mentions score {way}"
    assert found.sentence == (
        f'Of the comments that mention "muslim", the {kind} ones clearly score {way} than other '
        f"{kind} comments and will be {said} at some thresholds; no shift of the {other} ones is "
        "clear."
    )


def test_a_shift_of_one_class_may_go_with_overlap():
    found = diagnose(spans((10, 30), (20, 30)))
    assert found.pattern == "harmless higher"
    assert found.sentence.endswith(
        "no shift of the toxic ones is clear. In addition, harmless and toxic ones are harder to "
        "tell apart; "
        "harmless ones are harder to tell from toxic comments elsewhere."
    )


def test_without_identities_in_the_background_only_their_rows_are_compared():
    labels, scores, members = SPANS["B"]
    elsewhere = ~members & (np.arange(labels.size) % 2 == 0)
    kept = members | ~elsewhere
    groups = {"muslim": members, "jewish": elsewhere}
    found = diagnose_bias(Rows(labels, groups, background="no_identity"), scores)["muslim"]
    level = 1 - 0.05 / 2  # two subgroups share the errors
    alone = diagnose([array[kept] for array in SPANS["B"]], confidence=level)
    assert found.pattern == alone.pattern == "B"
    for name, value in found.evidence.items():
        assert value.value == pytest.approx(alone.evidence[name].value, abs=1e-12)
        assert value.low == pytest.approx(alone.evidence[name].low, abs=1e-9)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_the_evidence_is_that_of_the_rows_of_subgroup_and_background_alone(background):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    y_true, members = rng.random(3000) < 0.4, rng.random((3000, 3)).T < 0.1
    y_score = rng.normal(y_true + 0.5 * members[0]).round(1)
    groups = dict(zip(("gay", "muslim", "women"), members, strict=True))
    diagnoses = diagnose_bias(Rows(y_true, groups, background=background), y_score)
    for name, inside in groups.items():
        outside = ~(inside if background == "outside_subgroup" else members.any(axis=0))
        evidence = diagnoses[name].evidence
        auc = metrics.roc_auc_score(y_true[outside], y_score[outside])
        assert evidence["background_auc"].value == pytest.approx(auc, abs=1e-12)
        share = y_true[inside].mean() - y_true[outside].mean()
        assert evidence["share_difference"].value == pytest.approx(share, abs=1e-12)
        kept = inside | outside
        for of in ("positive", "negative"):
            rows = kept & (y_true == (of == "positive"))
            curve = corners_of(y_score[rows & ~inside], y_score[rows & inside])
            found = evidence[f"{of}_unsigned_gap"].value
            assert found == pytest.approx(curve.unsigned_gap, abs=1e-12)


def test_skewed_counts_alone_are_no_pattern():
    assert diagnose(spans((0, 10), (20, 30), 200, 600)).pattern == "none"


def test_a_share_of_positives_clearly_below_the_backgrounds_is_skewed_too():
    found = diagnose(spans((15, 25), (35, 45), 600, 200))
    assert found.pattern == "C"
    assert "25% of the comments" in found.sentence


def test_a_difference_is_clear_only_if_its_whole_interval_is_beyond_the_margin():
    assert Range(0.3, 0.25, 0.35).beyond(0.25) == 0
    assert Range(-0.3, -0.35, -0.25).beyond(0.25) == 0
    assert Range(0.3, 0.2501, 0.35).beyond(0.25) == 1
    assert Range(-0.3, -0.35, -0.2501).beyond(0.25) == -1


@pytest.mark.parametrize(("aeg", "kind"), [(0.125, "higher"), (0.124, "wider")])
def test_a_spread_is_named_only_if_its_area_is_more_than_twice_the_shift(aeg, kind):
    tilted = Corners(np.array([0, 0.2, 0.8, 1]), np.array([0, 0.4, 0.6, 1]), None)
    shift, spread = Range(aeg, 0.1, 0.15), Range(0.25, 0.2, 0.3)
    assert kind_of_gap(shift, spread, tilted, shift=0.05, spread=0.1) == kind


def test_five_rows_a_class_are_no_evidence_however_large_the_shift():
    found = diagnose(spans((15, 25), (35, 45), 5, 5))
    assert found.pattern == "no evidence"
    assert found.sentence == (
        'Too little evidence to name a pattern of bias for comments that mention "muslim": there '
        "are 5 toxic ones among them and 5 harmless ones among them; 20 are needed. Single "
        "metrics may still be shown to be bad."
    )
    assert found.evidence["bpsn_auc"].value == pytest.approx(7 / 8, abs=0.01)


@pytest.mark.parametrize(("n", "what"), [(19, "no evidence"), (20, "B")])
def test_the_fewest_rows_can_be_chosen(n, what):
    assert diagnose(spans((15, 25), (35, 45), n, n)).pattern == what
    assert diagnose(spans((15, 25), (35, 45), n, n), min_rows=n).pattern == "B"


def test_a_single_row_is_told_of_in_the_singular():
    found = diagnose(spans((15, 25), (35, 45), 1, 1))
    assert "there is 1 toxic one among them and 1 harmless one among them; 20 are" in found.sentence


def test_a_subgroup_of_everybody_has_no_background():
    labels, scores, members = SPANS["B"]
    found = diagnose((labels, scores, np.ones_like(members)))
    assert "0 toxic ones elsewhere and 0 harmless ones elsewhere" in found.sentence
    assert found.evidence["bpsn_auc"].value is None


def test_none_is_said_only_if_every_interval_lies_within_the_equivalence_margin():
    few = spans((0, 10), (20, 30), 30, 30)
    found = diagnose(few)
    assert found.pattern == "no evidence"
    assert found.sentence.startswith(
        'Too little evidence to name a pattern of bias for comments that mention "muslim": no '
        "difference is clear, but differences up to 0."
    )
    most = max(
        end
        for name, one in found.evidence.items()
        if name.endswith(("_aeg", "_drop", "_gap"))
        for end in ((-one.low, one.high) if name.endswith("_aeg") else (one.high,))
    )
    assert f"up to {most:.2f} are not ruled out" in found.sentence
    assert diagnose(few, equivalence_margin=most).pattern == "no evidence"
    found = diagnose(few, equivalence_margin=most + 1e-9)
    assert found.pattern == "none"
    assert f"all are shown to be at most {most:.2f}." in found.sentence


def test_a_wider_margin_makes_a_difference_unclear():
    assert (
        diagnose(SPANS["A"], aeg_margin=0.4, spread_margin=0.4, equivalence_margin=0.45).pattern
        == "none"
    )


def test_more_subgroups_at_once_need_clearer_differences():
    labels, scores, members = spans((15, 25), (35, 45), 20, 20)
    alone = diagnose((labels, scores, members)).evidence["negative_aeg"]
    groups = {f"g{i}": members for i in range(24)}
    together = diagnose_bias(Rows(labels, groups), scores)["g7"].evidence["negative_aeg"]
    assert together.low < alone.low < alone.value == together.value


@pytest.mark.parametrize("n_groups", [1, 3])
def test_eight_intervals_of_each_subgroup_share_the_chance_of_an_error(n_groups):
    labels, scores, members = SPANS["B"]
    groups = {f"g{i}": members for i in range(n_groups)}
    found = diagnose_bias(Rows(labels, groups), scores, confidence=0.9)["g0"].evidence
    level = 1 - 0.1 / (8 * n_groups)
    known = evaluate_bias(labels, scores, {"g0": members}, confidence=level).subgroups["g0"]
    for name in ("bpsn_auc", "negative_aeg"):
        one = getattr(known, name)
        assert (found[name].low, found[name].high) == pytest.approx((one.low, one.high))


def test_margins_may_be_0_and_two_rows_may_be_enough():
    none = dict.fromkeys(("aeg_margin", "auc_margin", "spread_margin", "share_margin"), 0)
    assert diagnose(SPANS["B"], **none, equivalence_margin=0).pattern == "B"
    assert diagnose(SPANS["none"], **none, equivalence_margin=0).pattern == "no evidence"
    two = diagnose(spans((15, 25), (35, 45), 2, 2), min_rows=2)
    assert "is needed" not in two.sentence
    assert "are needed" not in two.sentence


def test_diagnoses_come_in_the_order_given_and_none_for_no_subgroups():
    labels, scores, members = SPANS["B"]
    assert list(diagnose_bias(Rows(labels, {"z": members, "a": ~members}), scores)) == ["z", "a"]
    assert diagnose_bias(Rows(labels, {}), scores) == {}


@pytest.mark.parametrize(("share", "l1_norm"), [(0.9, 0.4993), (0.95, 0.5821), (0.99, 0.7518)])
def test_the_bound_of_the_unsigned_gap_is_just_above_the_published_quantiles(share, l1_norm):
    # Johnson and Killeen (1983), L1 norm of the Brownian bridge; here for 800 and 800 rows.
    labels, scores, members = spans((0, 10), (20, 30), 800, 800, 800)
    curve = corners_of(scores[~labels & ~members], scores[~labels & members])
    bound = unsigned_gap(curve, (800, 800), share).high * math.sqrt(400)
    assert l1_norm <= bound <= 1.03 * l1_norm


def test_an_unsigned_gap_is_between_0_and_a_half():
    x, y = np.array([0.0, 0, 1]), np.array([0.0, 1, 1])
    assert unsigned_gap(Corners(x, y, 0.5), (20, 20), 0.95).high == 0.5
    assert unsigned_gap(Corners(x, x, 0.0), (20, 20), 0.95).low == 0.0


# What must not change a diagnosis.


@pytest.mark.parametrize("pattern", SPANS)
def test_only_the_order_of_the_scores_counts(pattern):
    labels, scores, members = SPANS[pattern]
    found = diagnose((labels, scores, members))
    assert diagnose((labels, np.exp(scores / 10), members)) == found
    assert diagnose((labels, np.unique(scores, return_inverse=True)[1], members)) == found


@pytest.mark.parametrize("pattern", SPANS)
def test_the_order_of_the_rows_does_not_count(pattern):
    order = np.random.default_rng(0).permutation(SPANS[pattern][0].size)
    assert diagnose([array[order] for array in SPANS[pattern]]) == diagnose(SPANS[pattern])


def test_diagnosing_leaves_its_arguments_as_they_were():
    arrays = [array.copy() for array in SPANS["B"]]
    diagnose(arrays)
    for array, before in zip(arrays, SPANS["B"], strict=True):
        np.testing.assert_array_equal(array, before)


def test_a_diagnosis_is_ready_for_json():
    found = diagnose(SPANS["E"])
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["pattern"] == "E"
    assert plain["name"] == "low separability within the subgroup"
    assert plain["sentence"] == found.sentence
    assert plain["evidence"]["subgroup_auc_drop"]["value"] == pytest.approx(1 / 8, abs=1 / 200)
    assert list(plain["evidence"]) == [
        *("background_auc", "subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg"),
        *("negative_aeg", "subgroup_auc_drop", "bpsn_auc_drop", "bnsp_auc_drop"),
        *("positive_unsigned_gap", "negative_unsigned_gap", "share_difference"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1}, "`confidence` must be between 0 and 1, as in 0.95; got 1."),
        ({"aeg_margin": -0.1}, "`aeg_margin` must be at least 0 and below 0.5; got -0.1."),
        ({"auc_margin": 0.5}, "`auc_margin` must be at least 0 and below 0.5; got 0.5."),
        ({"spread_margin": 5}, "`spread_margin` must be at least 0 and below 0.5; got 5."),
        ({"share_margin": 1}, "`share_margin` must be at least 0 and below 0.5; got 1."),
        (
            {"equivalence_margin": 1},
            "`equivalence_margin` must be at least 0 and below 0.5; got 1.",
        ),
        ({"aeg_margin": math.nan}, "`aeg_margin` must be at least 0 and below 0.5; got nan."),
        ({"min_rows": 1}, "`min_rows` must be at least 2; got 1."),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        diagnose(SPANS["B"], **options)


def test_bad_arrays_are_refused():
    with pytest.raises(ValueError, match=re.escape("`y_score` must be finite; got nan (row 1).")):
        diagnose_bias(Rows([0, 1], {"g": [0, 1]}), [0.1, math.nan])
    with pytest.raises(ValueError, match="must have 2 rows like `y_true`; got 3"):
        diagnose_bias(Rows([0, 1], {"g": [0, 1, 1]}), [0.1, 0.2])


@pytest.mark.parametrize("seed", range(40))
def test_a_curve_is_wider_if_it_is_above_the_diagonal_where_few_are_flagged(seed):
    """By a sum over a fine grid of how far it is above, counted against where it is late."""
    rng = np.random.default_rng(seed)
    x, y = (np.concatenate([[0.0], np.sort(rng.random(4)), [1.0]]) for _ in range(2))
    at = (np.arange(100_000) + 0.5) / 100_000
    tilt = ((np.interp(at, x, y) - at) * (0.5 - at)).mean()
    gap = Range(0.2, 0.15, 0.25)
    kind = kind_of_gap(Range(0, -0.1, 0.1), gap, Corners(x, y, None), shift=0.05, spread=0.1)
    assert kind == ("wider" if tilt > 0 else "narrower")
