"""Verdicts on toxic-bert's false positives and negatives, checked by hand from counts.

The counts are of the 42,870 rows of the Civil Comments test set with identity labels, made by
comparing columns; what is done with them is written out.
"""

import math
from datetime import date
from statistics import NormalDist

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv
from support.judging import evidence_of, given, report_of, with_gaps

from bias_metrics import equal_error_range, evaluate_bias
from biasgate.tasks.data.civil_comments import JIGSAW_NINE
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.verdict import build_verdict

Z = NormalDist().inv_cdf(0.95)
HALF, EQUAL = 0.5, 0.03335932642221451
CEILINGS = {("fpr_gap", "given"): 0.05, ("fnr_gap", "given"): 0.1}
CEILINGS |= {("fpr_gap", "equal_errors"): 0.1, ("fnr_gap", "equal_errors"): 0.1}
# Of all rows, and of each identity: harmless, of these flagged, toxic, of these missed.
AT_HALF = {
    "all": (38111, 530, 4759, 3226),
    "male": (3716, 65, 670, 463),
    "female": (4463, 89, 692, 481),
    "homosexual_gay_or_lesbian": (775, 28, 290, 208),
    "christian": (3809, 31, 417, 341),
    "jewish": (697, 12, 138, 102),
    "muslim": (1557, 19, 483, 398),
    "black": (1016, 18, 503, 390),
    "white": (1710, 28, 742, 582),
    "psychiatric_or_mental_illness": (405, 13, 106, 67),
}
AT_EQUAL = {
    "all": (38111, 6929, 4759, 865),
    "male": (3716, 986, 670, 111),
    "female": (4463, 1241, 692, 109),
    "homosexual_gay_or_lesbian": (775, 335, 290, 42),
    "christian": (3809, 572, 417, 101),
    "jewish": (697, 216, 138, 21),
    "muslim": (1557, 381, 483, 129),
    "black": (1016, 430, 503, 81),
    "white": (1710, 634, 742, 140),
    "psychiatric_or_mental_illness": (405, 135, 106, 14),
}
COUNTS = {"given": AT_HALF, "equal_errors": AT_EQUAL}


@pytest.fixture(scope="module")
def table(real_data):
    labels = pd.read_parquet(real_data / "civil_comments_test_identities.parquet")
    scores = csv.read_csv(real_data / "toxic_bert_submission.csv").to_pandas()
    return labels.merge(scores, on="id", validate="one_to_one")


@pytest.fixture(scope="module")
def results(table, tmp_path_factory):
    """The verdict's results by metric, threshold and identity."""
    rows = {
        "label": (table["toxicity"] >= 0.5).to_numpy(),
        "score/candidate": table["prediction"].to_numpy(),
    }
    masks = {name: (table[name] >= 0.5).to_numpy() for name in JIGSAW_NINE}
    columns = {"id": pa.array(table["id"])} | rows
    columns |= {f"identity/{name}": mask for name, mask in masks.items()}
    evidence = evidence_of(tmp_path_factory.mktemp("evidence"), columns, power_mean_groups=None)
    rules = [
        {"metric": metric, "threshold": threshold, "scope": "each", "ceiling": ceiling}
        for (metric, threshold), ceiling in CEILINGS.items()
    ]
    policy = Policy.model_validate({"version": 1, "name": "errors", "rules": rules})
    measured = rows["label"], rows["score/candidate"], masks
    bias = with_gaps(evaluate_bias(*measured, intervals=False), *measured, HALF)
    report = report_of(bias, thresholds=given(HALF))
    verdict = build_verdict(report, policy, evidence, {}, n_candidates=1, today=date(2026, 11, 21))
    assert verdict.outcome == "fail"
    return {(result.metric, result.threshold, result.group): result for result in verdict.results}


@pytest.mark.parametrize("threshold", COUNTS)
def test_the_counts_are_those_of_the_file(table, threshold):
    toxic = table["toxicity"] >= 0.5
    flagged = table["prediction"] >= (HALF if threshold == "given" else EQUAL)
    for name, counts in COUNTS[threshold].items():
        among = toxic == toxic if name == "all" else table[name] >= 0.5  # noqa: PLR0124
        assert counts == (
            (among & ~toxic).sum(),
            (among & ~toxic & flagged).sum(),
            (among & toxic).sum(),
            (among & toxic & ~flagged).sum(),
        )


def test_errors_are_equal_at_the_threshold_called_so(results):
    harmless, flagged, toxic, missed = AT_EQUAL["all"]
    assert flagged / harmless == pytest.approx(missed / toxic, abs=1e-4)  # 18.18 % of each
    assert {one.at for key, one in results.items() if key[1] == "equal_errors"} == {EQUAL}
    assert {one.at for key, one in results.items() if key[1] == "given"} == {HALF}


def gap(metric, threshold, group):
    """Errors and rows of a group, and of all others."""
    part = slice(0, 2) if metric == "fpr_gap" else slice(2, 4)
    n, errors = COUNTS[threshold][group][part]
    all_rows, all_errors = COUNTS[threshold]["all"][part]
    return errors, n, all_errors - errors, all_rows - n


@pytest.mark.parametrize(("metric", "threshold"), CEILINGS)
@pytest.mark.parametrize("group", JIGSAW_NINE)
def test_each_gap_is_the_quotient_of_its_counts(results, metric, threshold, group):
    errors, n, others, n_others = gap(metric, threshold, group)
    result = results[metric, threshold, group]
    assert result.value == pytest.approx(errors / n - others / n_others, abs=1e-12)


def test_harmless_mentions_of_gay_people_are_not_shown_to_be_over_flagged_at_one_half(results):
    """28 of 775 are flagged, and 530 - 28 = 502 of the other 38111 - 775 = 37336."""
    result = results["fpr_gap", "given", "homosexual_gay_or_lesbian"]
    own, other = 28 / 775, 502 / 37336
    assert result.value == pytest.approx(own - other)  # .0361 - .0134 = +.0227

    def upper(share, n):  # Wilson
        centre = share + Z * Z / (2 * n)
        return (centre + Z * math.sqrt(share * (1 - share) / n + (Z / n) ** 2 / 4)) / (
            1 + Z * Z / n
        )

    def lower(share, n):
        return 1 - upper(1 - share, n)

    newcombe = own - other + math.hypot(upper(own, 775) - own, other - lower(other, 37336))
    own, other = 29 / 777, 503 / 37338  # one error and one row without are added to each
    spread = own * (1 - own) / 777 + other * (1 - other) / 37338
    caffo = own - other + Z * math.sqrt(spread)
    assert result.high == pytest.approx(max(newcombe, caffo))
    assert result.bound == result.high == pytest.approx(0.0355, abs=5e-5)
    assert result.outcome == "pass"  # .0355 is below the ceiling of .05


def test_toxic_mentions_of_muslims_are_missed_more_often_at_one_half(results):
    """398 of 483 are missed, and 3226 - 398 = 2828 of the other 4759 - 483 = 4276."""
    result = results["fnr_gap", "given", "muslim"]
    assert result.value == pytest.approx(398 / 483 - 2828 / 4276)  # .8240 - .6614 = +.1627
    assert result.outcome == "fail"
    assert 0.1 < result.low < 398 / 483 - 2828 / 4276
    assert (result.reason, result.kind) == ("not_met", "ceiling")


def test_at_equal_errors_the_interval_allows_for_how_far_the_threshold_is_known(results, table):
    """335 of 775 are flagged, and 6929 - 335 = 6594 of the other 37336."""
    result = results["fpr_gap", "equal_errors", "homosexual_gay_or_lesbian"]
    assert result.value == pytest.approx(335 / 775 - 6594 / 37336)  # .4323 - .1766 = +.2556
    toxic, score = table["toxicity"] >= 0.5, table["prediction"]
    low, high = equal_error_range(toxic.to_numpy(), score.to_numpy(), confidence=0.9)
    mentions = table["homosexual_gay_or_lesbian"] >= 0.5

    def at(threshold):
        flagged = score[~toxic] >= threshold
        return flagged[mentions].mean() - flagged[~mentions].mean()

    moved = max(abs(at(low) - at(EQUAL)), abs(at(high) - at(EQUAL)))
    own, other = 336 / 777, 6595 / 37338
    spread = own * (1 - own) / 777 + other * (1 - other) / 37338
    caffo = result.value - (own - other - Z * math.sqrt(spread))
    assert result.low <= result.value - math.hypot(caffo, moved) + 1e-12
    assert result.low == pytest.approx(result.value - math.hypot(caffo, moved), abs=0.001)
    assert result.outcome == "fail"


def test_the_outcomes_follow_from_the_counts(results):
    """By the normal approximation, wherever its bounds are half a point from the limit or more."""
    seen = 0
    for (metric, threshold), ceiling in CEILINGS.items():
        for group in JIGSAW_NINE:
            errors, n, others, n_others = gap(metric, threshold, group)
            a, b = errors / n, others / n_others
            reach = Z * math.sqrt(a * (1 - a) / n + b * (1 - b) / n_others)
            worst, best = abs(a - b) + reach, abs(a - b) - reach
            outcome = results[metric, threshold, group].outcome
            expected = "pass" if worst < ceiling else "fail" if best > ceiling else "insufficient"
            clear = min(abs(worst - ceiling), abs(best - ceiling)) > 0.005
            assert outcome == expected or not clear, (metric, threshold, group)
            seen += clear
    assert seen >= 30
    failed = {key for key, one in results.items() if one.outcome == "fail"}
    over_flagged = ("homosexual_gay_or_lesbian", "jewish", "black", "white")
    over_flagged += ("psychiatric_or_mental_illness",)
    assert failed == {
        *(("fnr_gap", "given", group) for group in ("christian", "muslim")),
        *(("fpr_gap", "equal_errors", group) for group in over_flagged),
    }
