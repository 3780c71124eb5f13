"""Evidence and policies from a few rows, for verdicts."""

from datetime import date

import pyarrow.parquet as pq

from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.evidence.join import evidence_table
from biasgate.tasks.gating.policy import Policy

TODAY = date(2026, 11, 21)
CHAMPION = {"name": "old", "kind": "mlflow", "model": "models:/toxicity/3", "trusted": True}
NO_FILES = {"what": "nothing", "digest": None, "files": [], "not_bound": "Made by a test."}
NOTHING_SAID = {
    "results": [],
    "holds_for": {"identities": [], "of": 0},
    "exceptions": [],
    "bounds": {"sentence": "No bound was looked at."},
    "worsened": [],
}
"""What a verdict without a check says."""
CHOICES = {
    "label_threshold": 0.5,
    "identity_threshold": 0.5,
    "identity_rows": "rated",
    "background": "outside_subgroup",
    "n_rows": 600,
    "n_rows_rated": 600,
    "n_rows_measured": 600,
    "confidence": 0.95,
    "n_clusters": None,
}


def report_of(bias, *, on="s", digest="d1", choices=CHOICES, source=None, candidate=None):
    """Return a whole report of measured numbers, in which nothing is explained."""
    known = {"name": "c", "kind": "scores", "digest": "d2", "bound": NO_FILES}
    origin = {"split": "all", "source": source or {"source": "table"}}
    return {
        "schema_version": 1,
        "evaluation_set": {"name": on, "digest": digest, "choices": {**choices, **origin}},
        "candidate": known | (candidate or {}),
        "bias": bias,
        "diagnosis": {"confidence": 0.95, "rows_taken_as_independent": True, "subgroups": {}},
        "thresholds": {},
        "look_first": {"subgroup": None, "metric": None, "sentence": "Nothing."},
        "warnings": [],
    }


def evidence_of(folder, columns, **record):
    """Write rows as evidence."""
    roles = [one.removeprefix("score/") for one in columns if one.startswith("score/")]
    known = {
        "set_digest": "s",
        "choices": CHOICES,
        "power_mean_groups": ["gay"],
        "scores": {role: f"digest of {role}" for role in roles},
        "bound": dict.fromkeys(roles, NO_FILES),
    }
    pq.write_table(evidence_table(columns, known | record), folder / FILE)
    return EvidenceFile(folder / FILE)


def policy_of(*rules, **options):
    known = {"version": 1, "name": "p", "allow_first": True, "rules": list(rules)}
    return Policy.model_validate(known | options)
