"""Rules on FPR and FNR gaps through policy, evidence, verdict and `verify`."""

import dataclasses
from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
import yaml
from support.cells import with_number
from support.judging import evidence_of, given, report_of, verdict_of, with_gaps

from bias_metrics import MetricValue, Rows, equal_error_rate, evaluate_bias, rate_gaps
from bias_metrics.thresholds import compare_rate_gaps
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_explained import explain_policy
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.promoting.rivals import find_rivals
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.records import Compared
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

TODAY = date(2026, 11, 21)
GIVEN = {"metric": "fpr_gap", "scope": "each", "threshold": "given", "ceiling": 0.2}
EQUAL = GIVEN | {"threshold": "equal_errors", "metric": "fnr_gap"}
CHAMPION = Compared(name="old", kind="scores", threshold=0.9)


def policy(*rules, **options):
    content = {"version": 1, "name": "p", "allow_first": True, "rules": list(rules)}
    return Policy.model_validate(content | options)


@pytest.fixture
def rows():
    rng = np.random.default_rng(8)
    label, gay = rng.random(3000) < 0.4, rng.random(3000) < 0.4
    good = label + rng.random(3000)
    return {
        "id": pa.array([str(number) for number in range(3000)]),
        "label": label,
        "identity/gay": gay,
        "slice/short": rng.random(3000) < 0.5,
        "score/candidate": good + 0.2 * (gay & ~label),
        "score/champion": good + 0.05 * rng.random(3000),
    }


def judge(folder, columns, rules, *, rivals=None, threshold=0.8, gap=None):
    """Judge the candidate by its rows; `gap` is the gap in the report."""
    evidence = evidence_of(folder, columns)
    measured = columns["label"], columns["score/candidate"], {"gay": columns["identity/gay"]}
    bias = evaluate_bias(*measured, power_mean_groups=["gay"])
    bias = with_gaps(bias, *measured, threshold)
    if gap is not None:
        bias = with_number(bias, gap, "fpr_gap", "gay", "given")
    thresholds = {} if threshold is None else given(threshold)
    report = report_of(bias, thresholds=thresholds)
    return build_verdict(
        report,
        policy(*rules),
        evidence,
        {"champion": CHAMPION} if rivals is None else rivals,
        n_candidates=1,
        today=TODAY,
    )


def test_each_model_is_judged_at_its_own_threshold(tmp_path, rows):
    verdict = judge(tmp_path, rows, [GIVEN | {"margin": 0.05}])
    ceiling, margin = verdict.results
    masks = {"gay": rows["identity/gay"]}
    options = {"threshold_a": 0.8, "threshold_b": 0.9, "confidence": 0.9}
    scores = rows["score/candidate"], rows["score/champion"]
    gaps = compare_rate_gaps(Rows(rows["label"], masks), *scores, **options)
    own = rate_gaps(Rows(rows["label"], masks), scores[0], threshold=0.8, confidence=0.9)
    own, change = (one["fpr_gap", "gay"] for one in (own, gaps))
    assert (ceiling.value, ceiling.high) == (own.value, own.high)
    assert (margin.rival, margin.high) == (change.second, change.size_high)
    assert (margin.at, margin.rival_at) == (0.8, 0.9)
    assert verdict.champion.threshold == 0.9


def test_at_equal_errors_the_threshold_is_that_of_all_rows_also_in_a_slice(tmp_path, rows):
    verdict = judge(tmp_path, rows, [EQUAL | {"margin": 0.1, "slice": "short"}])
    ceiling, margin = verdict.results
    for key, role in (("at", "candidate"), ("rival_at", "champion")):
        equal = equal_error_rate(rows["label"], rows[f"score/{role}"]).threshold
        assert getattr(margin, key) == equal
    short = rows["slice/short"]
    again = rate_gaps(
        Rows(rows["label"][short], {"gay": rows["identity/gay"][short]}),
        rows["score/candidate"][short],
        threshold=ceiling.at,
    )
    assert ceiling.value == again.subgroups["gay"]["fnr_gap"].value


def test_a_gap_at_the_given_thresholds_may_be_shown_to_be_worse_without_a_rule_on_it(
    tmp_path, rows
):
    verdict = judge(tmp_path, rows, [EQUAL])
    [shown] = [loss for loss in verdict.worsened if loss.metric == "fpr_gap"]
    assert shown.threshold == "given"
    masks = {"gay": rows["identity/gay"]}
    options = {"threshold_a": 0.8, "threshold_b": 0.9}
    # Bonferroni: five metrics without a threshold, two at one.
    options["confidence"] = 1 - 2 * 0.05 / 7
    scores = rows["score/candidate"], rows["score/champion"]
    gaps = compare_rate_gaps(Rows(rows["label"], masks), *scores, **options).subgroups["gay"][
        "fpr_gap"
    ]
    assert shown.worse_by_at_least == shown.low == pytest.approx(gaps.size_low)
    assert verdict.champion.threshold == 0.9


def test_without_a_threshold_of_both_models_no_gap_at_one_is_looked_at(tmp_path, rows):
    verdict = judge(tmp_path, rows, [EQUAL], rivals={"champion": replace(CHAMPION, threshold=None)})
    assert verdict.worsened
    assert "fpr_gap" not in {loss.metric for loss in verdict.worsened}


def test_without_a_champion_the_margin_is_skipped(tmp_path, rows):
    del rows["score/champion"]
    verdict = judge(tmp_path, rows, [GIVEN | {"margin": 0.05, "ceiling": 0.4}], rivals={})
    assert [result.outcome for result in verdict.results] == ["pass", "skipped"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": None}, "that the candidate is used with; it has none"),
        (
            {"rivals": {"champion": replace(CHAMPION, threshold=None)}},
            "that the champion is used with; it has none",
        ),
    ],
)
def test_a_model_without_a_threshold_of_its_own_is_refused(tmp_path, rows, options, message):
    with pytest.raises(InputError, match=message):
        judge(tmp_path, rows, [GIVEN | {"margin": 0.05}], **options)


def test_rows_that_do_not_give_the_reported_gaps_decide_nothing(tmp_path, rows):
    with pytest.raises(RuntimeError, match="fpr_gap/gay/given is 0"):
        judge(tmp_path, rows, [GIVEN], gap=MetricValue(0.0))


def test_a_verdict_holds_enough_to_be_decided_again(tmp_path, rows):
    """`verify` has no other information about the champion than the verdict."""
    rules = [GIVEN | {"margin": 0.05}, EQUAL | {"margin": 0.1}]
    verdict = judge(tmp_path, rows, rules)
    again = judge(tmp_path, rows, rules, rivals={"champion": verdict.champion})
    assert again == verdict
    edited = replace(verdict.champion, threshold=0.7)
    assert judge(tmp_path, rows, rules, rivals={"champion": edited}) != verdict


# ------------------------------------------------------------------ policies


def test_a_policy_with_a_threshold_is_kept_with_it():
    original = policy(GIVEN)
    assert Policy.model_validate(original.model_dump(mode="json")) == original
    assert original.digest != policy(GIVEN | {"threshold": "equal_errors"}).digest


def test_a_rule_at_a_threshold_is_told_in_words():
    lines = explain_policy(policy(GIVEN | {"margin": 0.05}, EQUAL))
    assert lines[2] == (
        "1. At the given threshold, how much more or less often harmless comments that mention "
        "each identity are flagged than other harmless comments (FPR gap) must be at most 0.2 in "
        "either direction with 95% confidence, and be less than 0.05 larger in size than the "
        "champion's with 95% confidence. Needs at least 2 harmless comments that mention the "
        "identity, and 2 harmless comments that do not mention it. [fpr_gap/each/given]"
    )
    assert lines[3].startswith("2. At the threshold of equal errors, how much more or less often")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"metric": "fpr_gap", "scope": "each", "ceiling": 0.1}, "`threshold` of fpr_gap must be"),
        (GIVEN | {"threshold": "best"}, "Input should be 'given' or 'equal_errors'"),
        ({"metric": "auc", "scope": "overall", "floor": 0.8, "threshold": "given"}, "must not be"),
    ],
)
def test_a_policy_whose_threshold_makes_no_sense_is_refused(rule, message):
    with pytest.raises(ValueError, match=message):
        policy(rule)


# ------------------------------------------------------------------ before any work


def written(folder, *, rules=(GIVEN | {"margin": 0.05},), **changes):
    (folder / "scores.csv").write_text("id,score,label,gay\n1,0.5,1,1\n2,0.1,0,0\n", "utf-8")
    content = {"version": 1, "name": "p", "allow_first": True, "rules": list(rules)}
    (folder / "policy.yaml").write_text(yaml.safe_dump(content), "utf-8")
    table = {"path": "scores.csv", "id": "id"}
    source = table | {"name": "c", "kind": "scores", "score": "score"}
    evaluation = {
        "name": "e",
        "evaluation_sets": [
            table | {"name": "s", "source": "table", "label": "label", "identities": ["gay"]}
        ],
        "candidates": [source | {"threshold": 0.5}],
        "champion": source | {"name": "old", "threshold": 0.6},
        "policy": "policy.yaml",
    }
    for role, values in changes.items():
        evaluation[role] = source | values if role != "candidates" else [source | values]
    (folder / "evaluation.yaml").write_text(yaml.safe_dump(evaluation), "utf-8")
    return folder / "evaluation.yaml"


def test_an_evaluation_whose_models_have_thresholds_is_accepted(tmp_path):
    assert read_evaluation(written(tmp_path)).name == "e"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": {"name": "new"}}, "the candidate new is used with; it has none"),
        (
            {"champion": {"name": "old"}},
            "the champion old is used with; it has none",
        ),
    ],
)
def test_a_missing_threshold_is_refused_before_anything_is_scored(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_evaluation(written(tmp_path, **changes))


def test_a_threshold_that_no_rule_asks_for_may_be_missing(tmp_path):
    path = written(tmp_path, rules=(EQUAL,), candidates={"name": "n"}, champion={"name": "old"})
    assert read_evaluation(path).name == "e"


@dataclasses.dataclass
class Version:
    uri: str
    tags: dict
    name: str = "m"
    version: str = "3"


class Registry:
    """A registry with one version, its verdict, and the report of its run."""

    def __init__(self, tags, thresholds):
        self.version = Version("models:/m/3", tags)
        known = {"model": "models:/m/3", "opened_as": {"kind": "mlflow"}}
        bias = evaluate_bias([0, 1], [0.1, 0.9], {})
        self.report = report_of(bias, candidate=known, thresholds=thresholds)

    def get_alias(self, *_):
        return self.version

    def list_versions(self, _):
        return []

    def resolve(self, _):
        return self.version

    def read_json(self, run_id, name):
        assert run_id == "r7"
        report = self.report
        return convert_to_plain(report if name == "report.json" else verdict_of(report))


def champion_of(registry, **named):
    settings = {"name": "champion", "kind": "mlflow", "model": "models:/m@champion", **named}
    rivals = {"champion": CANDIDATES.validate_python(settings)} if named else {}
    rules = policy(GIVEN | {"margin": 0.05})
    return find_rivals(rivals, "m", rules, [], registry)["champion"]


def test_a_registered_champion_has_the_threshold_that_it_was_evaluated_with():
    registry = Registry({"biasgate.s.run_id": "r7"}, given(0.35))
    assert champion_of(registry).threshold == 0.35
    assert champion_of(registry, threshold=0.4).threshold == 0.4
    assert champion_of(registry, threshold=0.0).threshold == 0.0


@pytest.mark.parametrize("tags", [{}, {"biasgate.s.run_id": "r7"}])
def test_a_registered_champion_without_a_threshold_is_refused(tags):
    with pytest.raises(InputError, match=r"the champion models:/m/3 is used with; it has none"):
        champion_of(Registry(tags, {}))
