"""Rules on FPR and FNR gaps through policy, evidence, verdict and `verify`."""

from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import yaml
from support.cells import with_number
from support.judging import given, judge_rows, report_of, report_rows, verdict_of

from bias_metrics import MetricValue, Rows, equal_error_rate, evaluate_bias, rate_gaps
from bias_metrics.thresholds import compare_rate_gaps
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.gating.policy import Policy
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


RIVALS = {"champion": CHAMPION}
BLIND_RIVALS = {"champion": replace(CHAMPION, threshold=None)}


def judge(folder, columns, rules, *, rivals=RIVALS, threshold=0.8, **options):
    """Judge the candidate at a threshold by rules."""
    options |= {"rivals": rivals, "threshold": threshold}
    return judge_rows(folder, columns, policy(*rules), **options)


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
    verdict = judge(tmp_path, rows, [EQUAL], rivals=BLIND_RIVALS)
    assert verdict.worsened
    assert "fpr_gap" not in {loss.metric for loss in verdict.worsened}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": None}, "that the candidate is used with; it has none"),
        (
            {"rivals": BLIND_RIVALS},
            "that the champion is used with; it has none",
        ),
    ],
)
def test_a_model_without_a_threshold_of_its_own_is_refused(tmp_path, rows, options, message):
    with pytest.raises(InputError, match=message):
        judge(tmp_path, rows, [GIVEN | {"margin": 0.05}], **options)


def test_rows_that_do_not_give_the_reported_gaps_decide_nothing(tmp_path, rows):
    report = report_rows(rows, 0.8)
    bias = with_number(report.bias, MetricValue(0.0), "fpr_gap", "gay", "given")
    with pytest.raises(RuntimeError, match="fpr_gap/gay/given is 0"):
        judge(tmp_path, rows, [GIVEN], report=replace(report, bias=bias))


def test_a_verdict_holds_enough_to_be_decided_again(tmp_path, rows):
    """`verify` has no other information about the champion than the verdict."""
    rules = [GIVEN | {"margin": 0.05}, EQUAL | {"margin": 0.1}]
    verdict = judge(tmp_path, rows, rules)
    again = judge(tmp_path, rows, rules, rivals={"champion": verdict.champion})
    assert again == verdict
    edited = replace(verdict.champion, threshold=0.7)
    assert judge(tmp_path, rows, rules, rivals={"champion": edited}) != verdict


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
    ("changes", "role"),
    [
        ({"candidates": {"name": "new"}}, "candidate new"),
        ({"champion": {"name": "old"}}, "champion old"),
    ],
)
def test_a_missing_threshold_is_refused_before_anything_is_scored(tmp_path, changes, role):
    with pytest.raises(InputError, match=f"the {role} is used with; it has none"):
        read_evaluation(written(tmp_path, **changes))


def test_a_threshold_that_no_rule_asks_for_may_be_missing(tmp_path):
    path = written(tmp_path, rules=(EQUAL,), candidates={"name": "n"}, champion={"name": "old"})
    assert read_evaluation(path).name == "e"


def make_registry(tags, thresholds):
    """Return a registry with one version, its verdict, and the report of its run."""
    version = SimpleNamespace(uri="models:/m/3", tags=tags, name="m", version="3")
    known = {"model": "models:/m/3", "opened_as": {"kind": "mlflow"}}
    bias = evaluate_bias([0, 1], [0.1, 0.9], {})
    report = report_of(bias, candidate=known, thresholds=thresholds)
    documents = {"r7": (report, verdict_of(report))}
    return SimpleNamespace(
        get_alias=lambda *_: version,
        list_versions=lambda _: [],
        resolve=lambda _: version,
        read_json=lambda run_id, name: convert_to_plain(documents[run_id][name != "report.json"]),
    )


def find_champion(registry, **named):
    settings = {"name": "champion", "kind": "mlflow", "model": "models:/m@champion", **named}
    rivals = {"champion": CANDIDATES.validate_python(settings)} if named else {}
    rules = policy(GIVEN | {"margin": 0.05})
    return find_rivals(rivals, "m", rules, [], registry)["champion"]


def test_a_registered_champion_has_the_threshold_that_it_was_evaluated_with():
    registry = make_registry({"biasgate.s.run_id": "r7"}, given(0.35))
    assert find_champion(registry).threshold == 0.35
    assert find_champion(registry, threshold=0.4).threshold == 0.4
    assert find_champion(registry, threshold=0.0).threshold == 0.0


@pytest.mark.parametrize("tags", [{}, {"biasgate.s.run_id": "r7"}])
def test_a_registered_champion_without_a_threshold_is_refused(tags):
    with pytest.raises(InputError, match=r"the champion models:/m/3 is used with; it has none"):
        find_champion(make_registry(tags, {}))
