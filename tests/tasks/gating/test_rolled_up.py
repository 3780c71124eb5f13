"""Small identities in a verdict from an evidence file, and in its repetition."""

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from support.judging import TODAY, judge_rows, policy_of

from bias_metrics import Rows, compare_bias, evaluate_bias
from bias_metrics.families import bonferroni_level
from bias_metrics.thresholds import compare_rate_gaps
from biasgate.tasks.common.plain import convert_to_plain

N = 3_000
BPSN = {"metric": "bpsn_auc", "scope": "each", "margin": 0.1, "min_negatives": 50}
FLOORS = {"metric": "subgroup_auc", "scope": "each", "floor": 0.7, "min_positives": 40}
FINAL = {
    "metric": "final_score",
    "scope": "aggregate",
    "floor": 0.7,
    "min_positives": 40,
    "min_negatives": 40,
}
ROLL_UP = {"religion": ["hindu", "muslim", "other_religion"]}
NOT_MEASURED = [{"identity": "other_religion", "reason": "no rows", "expires": "2099-12-31"}]


def made(shift=0.0, **more):
    """Rows with two religions, of which one is small and one has no rows at all."""
    rng = np.random.default_rng(2)
    label = rng.random(N) < 0.4
    groups = {"hindu": rng.random(N) < 0.012, "muslim": rng.random(N) < 0.2}
    groups["other_religion"] = np.zeros(N, dtype=bool)
    base = 2 * label + rng.standard_normal(N)
    candidate = base + 0.3 * rng.standard_normal(N) + shift * (groups["hindu"] & ~label)
    return {
        "id": pa.array([str(number) for number in range(N)]),
        "label": label,
        **{f"identity/{name}": mask for name, mask in groups.items()},
        "score/candidate": candidate,
        "score/champion": base + 0.3 * rng.standard_normal(N),
        **more,
    }


def judge(folder, columns, policy, **options):
    return judge_rows(folder, columns, policy, threshold=1.0, **options)


def by_group(verdict, metric="bpsn_auc"):
    return {result.group: result for result in verdict.results if result.metric == metric}


def test_a_verdict_lists_what_was_judged_where_with_the_category_s_own_numbers(tmp_path):
    rows = made()
    policy = policy_of(BPSN, FLOORS, FINAL, roll_up=ROLL_UP, not_measured=NOT_MEASURED)
    verdict = judge(tmp_path, rows, policy)
    assert verdict.outcome == "pass"
    assert convert_to_plain(verdict.holds_for) == {"identities": ["muslim"], "of": 3}
    assert [(exception.group, exception.why) for exception in verdict.exceptions] == [
        ("hindu", "category"),
        ("other_religion", "not_measured"),
    ]
    results_by_group = by_group(verdict)
    assert results_by_group["religion"].instead_of == ("hindu", "other_religion")
    assert (
        results_by_group["hindu"].judged_in
        == results_by_group["other_religion"].judged_in
        == "religion"
    )
    religion = rows["identity/hindu"] | rows["identity/muslim"]
    alone = compare_bias(
        rows["label"],
        rows["score/candidate"],
        rows["score/champion"],
        {"religion": religion},
        confidence=0.9,
    )["bpsn_auc", "religion"]
    bounds = results_by_group["religion"].low, results_by_group["religion"].high
    assert bounds == pytest.approx((alone.low, alone.high), abs=1e-12)
    assert by_group(verdict, "final_score")[None].instead_of == ("religion", "muslim")
    assert results_by_group["muslim"].judged_in is None


@pytest.mark.parametrize(
    ("ends", "last"),
    [
        ({"other_religion": 3}, 3),
        ({"other_religion": 3, "hindu": 1}, 3),  # hindu is judged in its category as well
        ({"other_religion": 1, "hindu": 3}, 1),
        ({"muslim": 3, "hindu": 3}, None),  # no pass
        ({"other_religion": 3, "muslim": 1, "absent": 2}, 3),  # enough rows; not in the set
    ],
)
def test_a_pass_holds_until_the_first_day_on_which_the_same_rows_would_not_pass(
    tmp_path, ends, last
):
    rows, days = made(), [TODAY + timedelta(days=after) for after in range(6)]
    entries = [
        {"identity": name, "reason": "no rows", "expires": days[end]} for name, end in ends.items()
    ]
    policy = policy_of(BPSN, FLOORS, FINAL, roll_up=ROLL_UP, not_measured=entries)
    verdicts = [judge(tmp_path, rows, policy, today=day) for day in days]
    passes = [verdict.outcome == "pass" for verdict in verdicts]
    assert passes == [last is not None and at <= last for at in range(6)]
    expected = None if last is None else days[last].isoformat()
    assert [verdict.holds_until for verdict in verdicts] == [
        expected if passed else None for passed in passes
    ]


def test_the_final_score_covers_the_category_instead_of_its_small_identities(tmp_path):
    rows = made()
    verdict = judge(tmp_path, rows, policy_of(FINAL, roll_up=ROLL_UP))
    religion = rows["identity/hindu"] | rows["identity/muslim"]
    groups = {"religion": religion, "muslim": rows["identity/muslim"]}
    own = evaluate_bias(rows["label"], rows["score/candidate"], groups, confidence=0.9)
    [one] = verdict.results
    assert one.value == pytest.approx(own.overall.final_score.value, abs=1e-12)
    assert one.low == pytest.approx(own.overall.final_score.low, abs=1e-12)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_a_small_identity_that_got_much_worse_fails_though_its_category_passes(
    tmp_path, background
):
    policy = policy_of(BPSN, roll_up=ROLL_UP)
    verdict = judge(tmp_path, made(shift=2.5), policy, background=background)
    results_by_group = by_group(verdict)
    assert (verdict.outcome, results_by_group["hindu"].outcome) == ("fail", "fail")
    assert results_by_group["hindu"].high < 0
    assert results_by_group["hindu"].confidence == 0.95
    if background == "outside_subgroup":
        assert results_by_group["religion"].outcome == "pass"


def test_clusters_too_few_of_a_small_identity_lead_to_its_category(tmp_path):
    rows = made(cluster=np.arange(N) // 10)
    few = BPSN | {"min_negatives": 2, "min_clusters": 40}
    verdict = judge(tmp_path, rows, policy_of(few, roll_up=ROLL_UP))
    results_by_group = by_group(verdict)
    assert results_by_group["hindu"].judged_in == "religion"
    lack = results_by_group["hindu"].lack
    assert (lack.of, lack.needed, lack.side, lack.group) == ("cluster", 40, "", None)
    assert 0 < lack.n < 40
    assert results_by_group["religion"].n_clusters >= 40


def test_error_rates_of_small_identities_are_judged_in_the_category_too(tmp_path):
    rows = made()
    rule = {"metric": "fpr_gap", "scope": "each", "threshold": "given", "margin": 0.2}
    policy = policy_of(rule | {"min_negatives": 50}, roll_up=ROLL_UP)
    results_by_group = by_group(judge(tmp_path, rows, policy), "fpr_gap")
    religion = {"religion": rows["identity/hindu"] | rows["identity/muslim"]}
    both = rows["score/candidate"], rows["score/champion"]
    options = {"threshold_a": 1.0, "threshold_b": 1.0}
    alone, hindu = (
        compare_rate_gaps(Rows(rows["label"], groups), *both, **options, confidence=confidence)
        for groups, confidence in (
            (religion, 0.9),
            ({"hindu": rows["identity/hindu"]}, bonferroni_level(2 * 7, 0.05)),
        )
    )
    assert results_by_group["religion"].value == alone["fpr_gap", "religion"].first
    assert results_by_group["religion"].high == alone["fpr_gap", "religion"].size_high
    assert results_by_group["hindu"].high == hindu["fpr_gap", "hindu"].size_high


def test_a_correction_for_candidates_is_not_lenient_to_small_identities(tmp_path):
    """They fail if they are shown to be worse: a smaller alpha would show less."""
    alone = by_group(judge(tmp_path, made(), policy_of(BPSN, roll_up=ROLL_UP)))
    corrected = policy_of(BPSN, roll_up=ROLL_UP, correction="bonferroni")
    shared = by_group(judge(tmp_path, made(), corrected, n_candidates=10))
    assert shared["hindu"].judged_in == "religion"
    assert shared["hindu"].high == pytest.approx(alone["hindu"].high)
    assert shared["religion"].high > alone["religion"].high


def test_a_set_without_identities_of_the_categories_is_judged_as_before(tmp_path):
    rolled = policy_of(BPSN, roll_up={"race": ["black", "white"]})
    plain = judge(tmp_path, made(), policy_of(BPSN))
    again = judge(tmp_path, made(), rolled)
    assert again.results == plain.results
    enough = policy_of(BPSN | {"scope": ["muslim"]}, roll_up=ROLL_UP)
    assert by_group(judge(tmp_path, made(), enough)).keys() == {"muslim"}
