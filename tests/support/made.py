"""Whole records made by hand, of which a test gives only the parts that it is about."""

from support.judging import NO_FILES, report_of

from bias_metrics import BiasTable, Key, MetricValue, RowCounts
from bias_metrics.gate.harm import BoundCounts
from bias_metrics.gate.losses import Loss
from bias_metrics.gate.objective import Objective
from bias_metrics.gate.verdict import RuleResult
from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from bias_metrics.table import key_numbers
from biasgate.tasks.records import (
    Bound,
    CandidateDecision,
    Code,
    HoldsFor,
    JudgedSet,
    LoggedVerdict,
    ModelRecord,
    PolicyRecord,
    Rival,
    Summary,
)

UNDEFINED = MetricValue(None, "no rows")
OBJECTIVE = Objective(metric="final_score", confidence=0.95, value=None, reason="no rows")


def number(value, low=None, high=None):
    """Return a defined number."""
    return MetricValue(value, low=low, high=high)


def bias_of(subgroups, *, auc=UNDEFINED, n_positive=1, n_negative=1, counts=None):
    """Return the numbers of identities by metric; those that are not given are undefined.

    Each identity has as many rows as there are, unless `counts` has others of it.
    """
    whole = dict.fromkeys((*FINAL_SCORE_PARTS, "final_score"), UNDEFINED)
    cells = {
        name: dict.fromkeys(SUBGROUP_METRICS, UNDEFINED) | dict(one)
        for name, one in subgroups.items()
    }
    rows = dict.fromkeys((None, *subgroups), RowCounts(n_positive, n_negative))
    return BiasTable(
        {Key(metric): one for metric, one in {"auc": auc, **whole}.items()} | key_numbers(cells),
        rows | (counts or {}),
        covered=tuple(subgroups),
    )


def report_with(subgroups, **parts):
    """Return a report with these numbers of identities; `parts` are of `report_of`."""
    counts = {"counts": parts.pop("counts", None)}
    return report_of(bias_of(subgroups, **counts), **parts)


SAID = {
    "pass": {"reason": "met", "value": 0.9},
    "fail": {"reason": "not_met", "value": 0.5},
    "insufficient": {"reason": "undecided", "value": 0.8, "low": 0.7, "high": 0.9},
    "error": {"reason": "not_finite"},
    "skipped": {"reason": "no_rival"},
}
"""Why a result has its outcome, with the numbers that its message tells."""


def result(outcome="pass", **parts):
    """Return what a rule said of an identity."""
    known = {
        **SAID[outcome],
        "rule": "bpsn_auc/each",
        "kind": "floor",
        "metric": "bpsn_auc",
        "scope": "subgroup",
        "group": "gay",
        "slice": None,
        "mode": "proven",
        "confidence": 0.95,
        "limit": 0.8,
        "n_positive": 1,
        "n_negative": 1,
        "action": "block",
    }
    return RuleResult(**known | {"outcome": outcome} | parts)


def loss(group, *without, metric="bpsn_auc", first=0.7, worse_by=0.1, at_least=0.0764):
    """Return an AUC that is shown to be worse."""
    return Loss(
        metric=metric,
        group=group,
        first=first,
        second=first + worse_by,
        worse_by=worse_by,
        worse_by_at_least=at_least,
        low=-0.12,
        high=-at_least,
        without=without,
    )


def candidate_of(name="c", **parts):
    """Return a candidate that no file is bound for."""
    known = {"kind": "scores", "digest": "d2", "bound": Bound(**NO_FILES)}
    return ModelRecord(**known | {"name": name} | parts)


def rival_of(name="old", **parts):
    """Return what a candidate is compared with."""
    known = {"kind": "mlflow", "digest": "d3", "bound": Bound(**NO_FILES)}
    return Rival(**known | {"name": name} | parts)


def verdict_of(*results, name="c", of_set="s", required=True, report_only=False, **parts):
    """Return a logged verdict with these results; its outcome is `fail` if nothing else is said."""
    known = {
        "schema_version": 1,
        "policy": PolicyRecord(name="p", digest="d4", report_only=report_only),
        "evaluation_set": JudgedSet(name=of_set, digest="d1", required=required),
        "candidate": candidate_of(name),
        "champion": None,
        "reference": None,
        "n_candidates": 1,
        "report_digest": "d5",
        "evidence_digest": "d6",
        "code": Code(version="1", bias_metrics="d7"),
        "decided_on": "2026-11-21",
        "outcome": "fail",
        "holds_for": HoldsFor(identities=[], of=0),
        "exceptions": [],
        "reservations": [],
        "bounds": BoundCounts(separately=0, expected_wrong=0.0, jointly=0, alpha=0.0),
        "results": list(results),
        "objective": OBJECTIVE,
        "worsened": [],
        "required_sets": [of_set],
        "ledger": None,
        "registered_policy": None,
        "run_id": "run",
    }
    return LoggedVerdict(**known | parts)


def decision_of(candidate="c", outcome="fail", sentence="X.", **parts):
    """Return a decision that left the champion as it was."""
    known = {"promoted": False, "champion_moved": False, "rule": None, "report_only": False}
    known |= {"candidate": candidate, "outcome": outcome, "sentence": sentence}
    return CandidateDecision(**known | parts)


def summary_of(verdicts=(), decisions=(), **parts):
    """Return the summary of an evaluation that ended so."""
    known = {
        "evaluation": "small",
        "outcome": "fail",
        "outcome_of": [one.candidate for one in decisions],
        "report_only": False,
        "run_id": "run",
        "verdicts": list(verdicts),
        "decisions": list(decisions),
        "sets": [],
        "store": {"total": 0},
        "config": "evaluation.yaml",
    }
    return Summary(**known | parts)
