"""A registry with judged versions, made without flows: for tests of promotion and `verify`."""

import json
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bias_metrics import evaluate_bias
from tasks.data.evaluation_set import EvaluationSet, freeze_rows
from tasks.evidence import FILE, EvidenceFile, evidence_table
from tasks.files import write_json
from tasks.gating import build_verdict
from tasks.mlflow_gateway import Gateway
from tasks.policy import Policy
from tasks.verdicts import sign, tags_of, verdict_digest

MODEL = "toxicity"
TODAY = date(2026, 11, 21)
POLICY = Policy.model_validate(
    {
        "version": 1,
        "name": "p",
        "allow_first": True,
        "rules": [
            {"metric": "auc", "scope": "overall", "floor": 0.6, "margin": 0.05},
            {"metric": "bpsn_auc", "scope": "each", "floor": 0.6},
            {"metric": "subgroup_auc", "scope": "each", "floor": 0.6, "min_negatives": 400},
        ],
        "waivers": [
            {
                "rule": "subgroup_auc/each",
                "group": "gay",
                "reason": "few",
                "decided_by": "Ada",
                "expires": "2100-01-01",
            }
        ],
    }
)


def frozen_set(store):
    """Freeze six hundred rows."""
    rng = np.random.default_rng(5)
    label, gay = rng.random(600) < 0.5, rng.random(600) < 0.5
    rows = pa.table(
        {
            "id": pa.array([f"{one:04d}" for one in range(600)]),
            "label": label.astype(float),
            "identity/gay": gay.astype(float),
        }
    )
    folder = store / "sets" / "comments-0"
    return freeze_rows([rows], folder, name="comments", split="all", source={})


def judged_version(gateway, store, folder, *, champion=None, seed=0, noise=1.6):
    """Register a version, judge it against a champion's scores, log and tag the verdict.

    Returns the version, its verdict, and its scores.
    """
    rows = EvaluationSet.load(store / "sets" / "comments-0")
    label = rows.column("label").to_numpy() >= 0.5
    gay = rows.column("identity/gay").to_numpy() >= 0.5
    scores = label + noise * np.random.default_rng(seed).random(600)
    folder.mkdir(parents=True)
    (folder / "weights").write_text(str(seed), "utf-8")
    experiment = gateway.experiment("judged")
    run_id = gateway.run(experiment, str(folder), folder.name)
    gateway.log_folder(run_id, folder, "model")
    version = gateway.register(MODEL, run_id, "model", {})
    columns = {"id": rows.column("id"), "label": label, "identity/gay": gay}
    columns["score/candidate"] = scores
    digests = {"candidate": f"scores of {version.version}"}
    rivals = {}
    if champion is not None:
        of_champion, _, champion_scores = champion
        columns["score/champion"] = champion_scores
        digests["champion"] = f"scores of {of_champion.version}"
        rivals = {"champion": {"name": "champion", "kind": "mlflow", "model": of_champion.uri}}
    record = {
        "set_digest": rows.digest,
        "choices": {},
        "power_mean_groups": ["gay"],
        "scores": digests,
    }
    bias = evaluate_bias(label, scores, {"gay": gay}, power_mean_groups=["gay"])
    report = {
        "evaluation_set": {"name": "comments", "digest": rows.digest, "choices": {}},
        "candidate": {"name": "c", "kind": "mlflow", "model": version.uri}
        | {"digest": digests["candidate"]},
        "bias": bias.to_dict(),
    }
    pq.write_table(evidence_table(columns, record), folder / FILE)
    evidence = EvidenceFile(folder / FILE)
    verdict = build_verdict(report, POLICY, evidence, rivals, n_candidates=1, today=TODAY)
    signature = sign(verdict_digest(verdict))
    if signature:
        verdict["signature"] = signature
    write_json(folder / "report.json", report)
    write_json(folder / "policy.json", POLICY.model_dump(mode="json"))
    write_json(folder / "verdict.json", verdict)
    gateway.log_folder(run_id, folder)
    gateway.finish(run_id)
    verdict |= {"run_id": run_id}
    gateway.tag_version(version, tags_of([verdict]))
    return gateway.resolve(version.uri), verdict, scores


def artifact(gateway, version, name):
    """The path of a file of a version's run, in a store on this disk."""
    return gateway.download_artifacts(version.run_id) / name


def edit_json(path, change):
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


def local(store):
    return Gateway.of_store(store)
