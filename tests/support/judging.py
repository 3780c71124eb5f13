"""Evidence and policies from a few rows, for verdicts."""

from datetime import date

import pyarrow.parquet as pq

from biasgate.tasks.gating.evidence import FILE, EvidenceFile
from biasgate.tasks.gating.evidence_writing import evidence_table
from biasgate.tasks.gating.policy import Policy

TODAY = date(2026, 11, 21)
CHAMPION = {"name": "old", "kind": "mlflow", "model": "models:/toxicity/3", "trusted": True}


def evidence_of(folder, columns, **record):
    """Write rows as evidence."""
    roles = [one.removeprefix("score/") for one in columns if one.startswith("score/")]
    known = {
        "set_digest": "s",
        "choices": {"background": "outside_subgroup"},
        "power_mean_groups": ["gay"],
        "scores": {role: f"digest of {role}" for role in roles},
    }
    pq.write_table(evidence_table(columns, known | record), folder / FILE)
    return EvidenceFile(folder / FILE)


def policy_of(*rules, **options):
    known = {"version": 1, "name": "p", "allow_first": True, "rules": list(rules)}
    return Policy.model_validate(known | options)
