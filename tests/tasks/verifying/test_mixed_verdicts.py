"""Verdicts of two evaluations do not count together; metrics and descriptions do not count."""

import pytest
from support.promoted import (
    MODEL,
    POLICY,
    judge_version,
    judged_version,
    promote_one,
    registered_version,
    scores_of,
)

from biasgate.tasks.promoting.verify import verify_model
from biasgate.tasks.reporting.version_tags import build_tags
from biasgate.tasks.verifying.version import verify_version

SETS = ("comments", "other")


@pytest.mark.parametrize("mixed", [False, pytest.param(True, marks=pytest.mark.mlflow)])
def test_verdicts_of_two_policies_are_found_where_both_are_required(
    gateway, store, tmp_path, mixed
):
    version = registered_version(gateway, tmp_path, "two")
    lenient = POLICY.model_copy(update={"rules": POLICY.rules[:1], "not_measured": []})
    verdicts = [
        judge_version(
            gateway,
            store,
            tmp_path / name,
            version,
            scores_of(store, seed=0, noise=1.6),
            on=name,
            required_sets=SETS,
            policy=lenient if mixed and name == "other" else POLICY,
            run_id=gateway.ensure_run(gateway.ensure_experiment("judged"), name, name),
        )
        for name in SETS
    ]
    assert {verdict.outcome for verdict in verdicts} == {"pass"}
    gateway.tag_version(version, build_tags(verdicts))
    findings = verify_version(gateway.resolve(version.uri), gateway)
    wrong = [finding.sentence for finding in findings if not finding.holds]
    text = "the verdicts on c share their evaluation, policy and champion."
    assert wrong == ([text] if mixed else [])
    of = [name for one in findings for name in SETS if f"verdict on {name} " in one.sentence]
    assert set(of) == set(SETS)
    assert of == sorted(of)  # first all about the set that is named first


@pytest.mark.mlflow
def test_an_edited_description_or_metric_is_no_evidence_and_is_not_found(gateway, store, tmp_path):
    """A documented limit: only the files behind a verdict are checked."""
    version, verdict, _ = judged_version(gateway, store, tmp_path / "first")
    assert promote_one([verdict], version, gateway).promoted
    gateway.describe_version(version, "# Model card: without any bias")
    gateway.client.log_metric(verdict.run_id, "final_score", 1.0)
    assert all(finding.holds for finding in verify_model(MODEL, None, gateway, store))
