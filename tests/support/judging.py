"""Evidence and policies from a few rows, for verdicts."""

from dataclasses import replace
from datetime import date

import pyarrow.parquet as pq

from bias_metrics import Rows, equal_error_rate, evaluate_bias
from bias_metrics.thresholds import MeasuredRates
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.evidence.file import FILE, EvidenceFile, EvidenceRecord
from biasgate.tasks.evidence.join import build_table
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.measuring.explaining import explain_with_calibration
from biasgate.tasks.measuring.identities import summarise_rows
from biasgate.tasks.records import AtThreshold, Compared, Report, Verdict
from biasgate.tasks.verifying.verdict import RECOMPUTED_PARTS

TODAY = date(2026, 11, 21)
CHAMPION = Compared(name="old", kind="mlflow", model="models:/toxicity/3")
NO_FILES = {"what": "nothing", "digest": None, "files": [], "not_bound": "Made by a test."}
NOTHING_SAID = {
    "results": [],
    "holds_for": {"identities": [], "of": 0},
    "exceptions": [],
    "reservations": [],
    "bounds": {"alpha": 0.0},
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


def report_of(bias, *, on="s", digest="d1", choices=CHOICES, source=None, candidate=None, **parts):
    """Return a whole report of measured numbers; `parts` are what is explained or warned of."""
    known = {"name": "c", "kind": "scores", "digest": "d2", "bound": NO_FILES}
    origin = {"split": "all", "source": source or {"source": "table"}}
    return Report.from_dict(
        {
            "schema_version": 1,
            "evaluation_set": {"name": on, "digest": digest, "choices": {**choices, **origin}},
            "candidate": known | (candidate or {}),
            "bias": bias,
            "harms": {},
            "thresholds": {},
            "look_first": {"subgroup": None, "metric": None, "sentence": "Nothing."},
            "warnings": [],
        }
        | parts
    )


def measured_parts(evidence):
    """Return the parts of a report that follow from its evidence."""
    found = explain_with_calibration(evidence, summarise_rows(evidence, {}), None)
    return {part: convert_to_plain(getattr(found, part)) for part in RECOMPUTED_PARTS}


def with_gaps(bias, y_true, y_score, members, threshold=None, **options):
    """Return a table with the gaps in error rates at equal errors, and at a given threshold."""
    rows = Rows(y_true, members, **options)
    at = {"equal_errors": equal_error_rate(y_true, y_score).threshold, "given": threshold}
    for name, one in at.items():
        if one is not None:
            measured = MeasuredRates(rows, {"y_score": y_score}, [one])
            bias = bias.add_numbers(measured.measure_gaps(0.95, threshold_name=name))
    return bias


def given(threshold):
    """Return what a report says at a threshold that is given, where nothing else is asked of it."""
    undefined = {"value": None, "reason": "not measured"}
    rates = ("false_positive_rate", "false_negative_rate", "precision", "recall", "accuracy")
    counts = [f"n_{of}_{sign}" for of in ("true", "false") for sign in ("positive", "negative")]
    errors = {"threshold": threshold, **dict.fromkeys(counts, 0), **dict.fromkeys(rates, undefined)}
    sums = {"fped": undefined, "fned": undefined}
    parts = {"overall": errors, "subgroups": {}, "groups": []}
    return {"given": AtThreshold.from_dict({"threshold": threshold, **parts, **sums})}


def verdict_of(report, **parts):
    """Return a whole verdict on a report, which passed without any check."""
    undefined = dict.fromkeys(("value", "rival", "change", "low", "high", "reason"))
    policy = {"name": "p", "digest": "d3", "report_only": False}
    evaluation_set = {"name": report.evaluation_set.name, "digest": report.evaluation_set.digest}
    counts = {"separately": 0, "expected_wrong": 0.0, "jointly": 0}
    return Verdict.from_dict(
        {
            "schema_version": 1,
            "policy": policy,
            "evaluation_set": evaluation_set | {"required": True},
            "candidate": report.candidate,
            "champion": None,
            "reference": None,
            "n_candidates": 1,
            "report_digest": json_digest(report),
            "evidence_digest": "d4",
            "code": {"version": "0", "bias_metrics": "d5"},
            "decided_on": TODAY.isoformat(),
            "outcome": "pass",
            **NOTHING_SAID,
            "bounds": counts | NOTHING_SAID["bounds"],
            "objective": {"metric": "final_score", "confidence": 0.95, **undefined},
            "required_sets": [report.evaluation_set.name],
            "ledger": None,
            "registered_policy": None,
        }
        | parts
    )


def evidence_of(folder, columns, **record):
    """Write rows as evidence."""
    roles = [one.removeprefix("score/") for one in columns if one.startswith("score/")]
    known = {
        "set_digest": "s",
        "choices": CHOICES | record.pop("choices", {}),
        "power_mean_groups": ["gay"],
        "scores": {role: f"digest of {role}" for role in roles},
        "bound": dict.fromkeys(roles, NO_FILES),
    }
    write_evidence(columns, known | record, folder / FILE)
    return EvidenceFile(folder / FILE)


def write_evidence(columns, record, path):
    """Write rows as evidence of the origin that a record in plain values names."""
    pq.write_table(build_table(columns, EvidenceRecord.from_dict(record)), path)


def policy_of(*rules, **options):
    known = {"version": 1, "name": "p", "allow_first": True, "rules": list(rules)}
    return Policy.model_validate(known | options)


def report_rows(columns, threshold=None, background="outside_subgroup"):
    """Return the report on the candidate's scores of rows."""
    identities = [one for one in columns if one.startswith("identity/")]
    members = {one.removeprefix("identity/"): columns[one] for one in identities}
    measured = columns["label"], columns["score/candidate"], members
    bias = evaluate_bias(*measured, background=background)
    bias = with_gaps(bias, *measured, threshold, background=background)
    return report_of(bias, thresholds={} if threshold is None else given(threshold))


def judge_rows(
    folder,
    columns,
    policy,
    *,
    threshold=None,
    rivals=None,
    report=None,
    background="outside_subgroup",
    n_candidates=1,
    today=TODAY,
):
    """Return the verdict on rows; default: against a champion with the same threshold."""
    choices = {"background": background}
    evidence = evidence_of(folder, columns, power_mean_groups=None, choices=choices)
    return build_verdict(
        report or report_rows(columns, threshold, background),
        policy,
        evidence,
        {"champion": replace(CHAMPION, threshold=threshold)} if rivals is None else rivals,
        n_candidates=n_candidates,
        today=today,
    )
