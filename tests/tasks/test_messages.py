"""Every message on results, rendered once with realistic values: `messages.txt`.

Wording is changed in the templates and in that file alone; other tests assert ids and values. To
write the file again: `BIASGATE_WRITE_MESSAGES=1 pytest tests/tasks/test_messages.py`; then read it.
"""

import os
from pathlib import Path
from typing import get_args

import pytest
from support.made import loss, number, report_with, result, verdict_of

from bias_metrics.gate import Bounds, Lack, Objective, PassException
from bias_metrics.gate.verdict import Reason
from bias_metrics.groups.dominance import DominantUnits
from bias_metrics.metrics import METRICS
from bias_metrics.thresholds import CountedShare
from biasgate.tasks.check_messages import (
    bounds_message,
    check_message,
    exception_message,
    objective_message,
)
from biasgate.tasks.outcomes import COPY, EXCEPT, WORDS
from biasgate.tasks.records import RATE_OF_GAP
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.leaderboard import leaderboard
from biasgate.tasks.reporting.story import ErrorHarm, Errors, Story
from biasgate.tasks.wording import changed_in_words, shown_worse

FILE = Path(__file__).with_name("messages.txt")

RIVAL = {"kind": "champion", "limit": 0.02, "rival": 0.85, "value": 0.71, "low": -0.17}
RIVAL |= {"high": -0.11}
GAP = {"kind": "ceiling", "limit": 0.2, "metric": "negative_aeg", "low": 0.21, "high": 0.31}
SMALL = {"reason": "small_group", "lack": Lack("positive", 14, 25), "confidence": 0.95}
SMALL |= {"value": 0.75, "not_excluded": 0.62, "visible": 0.22}
HARM = {"rule": "shown_harm", "kind": "champion", "limit": 0.0, "n_bounds": 120, "group": "muslim"}
MISSING = {"rule": "max_missing", "metric": "missing_rate", "scope": "overall", "group": None}
MISSING |= {"kind": "ceiling", "limit": 0.02, "n_missing": 31, "n_rows": 900, "role": "candidate"}
USELESS = {"rule": "useful", "metric": "auc", "scope": "overall", "group": None, "limit": 0.5}

RESULTS = {
    "met": result("pass", value=0.86, low=0.83, high=0.89),
    "met, estimate": result("pass", mode="estimate", value=0.86),
    "met, ceiling": result("pass", **GAP | {"value": 0.05, "low": 0.01, "high": 0.09}),
    "met, champion": result("pass", **RIVAL | {"value": 0.849, "low": -0.01, "high": 0.008}),
    "not_met": result("fail", value=0.702, low=0.68, high=0.72),
    "not_met, estimate": result("fail", mode="estimate", value=0.702),
    "not_met, gap": result("fail", **GAP, value=0.26),
    "not_met, champion": result("fail", **RIVAL),
    "not_met, newly flagged": result(
        "fail", metric="newly_flagged", kind="champion", limit=0.05, value=0.19, low=0.16, high=0.2
    ),
    "not_met, overall": result("fail", metric="auc", scope="overall", group=None, value=0.61),
    "not_met, worst": result("fail", scope="worst", value=0.61),
    "not_met, slice": result("fail", slice="language.ar", value=0.61),
    "not_met, threshold": result(
        "fail", **GAP | {"metric": "fpr_gap"}, threshold="given", value=0.26
    ),
    "not_met, category": result("fail", instead_of=("hindu", "sikh", "religion"), n_categories=1),
    "undecided": result("insufficient", value=0.79, low=0.77, high=0.82),
    "undecided, champion": result("insufficient", **RIVAL | {"high": 0.01}),
    "undecided, few rows for the margin": result(
        "insufficient", **RIVAL | {"high": 0.01}, rows_for_margin=1200, n_compared=300
    ),
    "not_finite": result("error"),
    "no_interval": result("insufficient", reason="no_interval", value=0.8, why="15 clusters"),
    "undefined": result("insufficient", reason="undefined", value=None, why="no toxic comments"),
    "few_rows": result("insufficient", reason="few_rows", lack=Lack("negative", 12, 20)),
    "few_rows, weighted": result(
        "insufficient", reason="few_rows", lack=Lack("positive", 12, 20, effective=True)
    ),
    "no_rival": result("skipped", kind="champion"),
    "no_rival, losses": result("skipped", **HARM),
    "small_group": result("insufficient", **SMALL),
    "small_group, category": result("skipped", **SMALL, judged_in="religion"),
    "small_group, fails": result("fail", **SMALL, judged_in="religion"),
    "small_group, champion": result(
        "insufficient",
        **SMALL | RIVAL | {"value": 0.83, "not_excluded": 0.08, "visible": 0.1},
        blind=0.05,
        rows_needed={"positive": 30, "negative": 12},
    ),
    "small_group, no bound": result("insufficient", **SMALL | {"not_excluded": None}),
    "small_group, not measured": result(
        "skipped", **SMALL, not_measured="few comments; until 2027"
    ),
    "loss": result("fail", **HARM, reason="loss", value=0.7, rival=0.84, bound=-0.11),
    "loss, gap": result(
        "fail",
        **HARM,
        reason="loss",
        metric="fpr_gap",
        threshold="given",
        value=0.3,
        rival=0.1,
        bound=0.15,
    ),
    "loss, shared": result(
        "fail",
        **HARM,
        reason="loss",
        value=0.7,
        rival=0.84,
        bound=-0.11,
        without=("gay",),
        may_be_shared=True,
    ),
    "no_loss": result("pass", **HARM, reason="no_loss"),
    "no_better_than_chance": result(
        "insufficient",
        **USELESS,
        reason="no_better_than_chance",
        value=0.52,
        low=0.48,
        high=0.56,
        bound=0.48,
    ),
    "no_better_than_chance, no interval": result(
        "insufficient", **USELESS, reason="no_better_than_chance", value=0.52, why="15 clusters"
    ),
    "flags_nothing": result(
        "fail", **USELESS, reason="flags_nothing", value=0.0, at=0.9, positives_flagged=0.001
    ),
    "flags_everything": result(
        "fail", **USELESS, reason="flags_everything", value=0.99, at=0.01, positives_flagged=1.0
    ),
    "few_missing": result("pass", **MISSING, reason="few_missing", value=0.004, low=0.0, high=0.01),
    "few_missing, fails": result(
        "fail", **MISSING, reason="few_missing", value=0.034, low=0.025, high=0.045
    ),
    "few_missing, undecided": result(
        "insufficient", **MISSING, reason="few_missing", value=0.02, low=0.015, high=0.025
    ),
    "none_missing": result("pass", **MISSING | {"n_missing": 0}, reason="none_missing"),
    "missing_undefined": result(
        "insufficient", **MISSING, reason="missing_undefined", why="no rows"
    ),
    "missing_not_ruled": result("fail", **MISSING, reason="missing_not_ruled"),
    "dominated": result("insufficient", dominated_by=DominantUnits("gay", "negative", 80, 0.34)),
}


def test_every_reason_has_a_message_here():
    assert {one.reason for one in RESULTS.values()} == {*get_args(Reason)}


def exceptions():
    """Yield what a pass leaves open."""
    small = result("skipped", **SMALL, judged_in="religion")
    yield "estimate", PassException(None, "estimate", 3)
    yield "no_rival", PassException(None, "no_rival", 3, kind="champion")
    yield "no_rule", PassException(None, "no_rule", 0, groups=("gay", "muslim"))
    for allowed in ("warning", "no_rule", 0.02):
        known = {"loss": loss("gay"), "allowed_by": allowed}
        yield f"shown_worse, {allowed}", PassException("gay", "shown_worse", 1, **known)
    yield "category", PassException("gay", "category", 3, check=small)


def rendered():
    """Yield the id of each message, and its text."""
    for name, one in RESULTS.items():
        yield f"check: {name}", check_message(one)
    for name, one in exceptions():
        yield f"exception: {name}", exception_message(one)
    looked_at = {"separately": 124, "expected_wrong": 6.2, "jointly": 120, "alpha": 0.05}
    yield "bounds", bounds_message(Bounds(**looked_at))
    lacking = Bounds(**looked_at, without_threshold=("champion",))
    yield "bounds, no threshold", bounds_message(lacking)
    yield "bounds, these rows", bounds_message(Bounds(**dict.fromkeys(looked_at, 0)))
    yield "objective", objective_message(Objective("auc", 0.95, 0.91, 0.9, 0.01, 0.004, 0.016))
    yield "objective, no bounds", objective_message(Objective("auc", 0.95, 0.91, 0.9, 0.01))
    yield "worse", shown_worse([loss("muslim"), loss("jewish", "muslim")])
    yield "worse, none", shown_worse([])
    share = CountedShare(190, 1012, 0.16, 0.22)
    yield "changed", changed_in_words({"muslim": {"newly_flagged": share, "newly_missed": share}})
    yield "changed, none", changed_in_words({})
    for rate in RATE_OF_GAP.values():
        harm = ErrorHarm(rate, "muslim", 0.41, 0.12, number(0.3, 0.25, 0.35), ("gay",))
        yield f"errors, {rate}", Errors("0.5", (harm,)).text
    yield "errors, none", Errors("0.5", ()).text
    for metric in METRICS.values():
        if metric.harm:
            for side in dict.fromkeys(metric.sides):
                yield f"harm: {metric.name} {side}", metric.harm.format(group="muslim", side=side)
        yield f"question: {metric.name}", metric.question.format(of="muslim")
    for word in [*(one.text for one in WORDS.values()), EXCEPT, COPY]:
        yield "word", word
    yield from stories()


def stories():
    """Yield what is written of a candidate, by its verdict."""
    cells = {"bpsn_auc": number(0.702, 0.68, 0.72), "subgroup_auc": number(0.9, 0.88, 0.92)}
    report = report_with({"muslim": cells, "gay": cells})
    kinds = {
        "blocked": [RESULTS["not_met"], RESULTS["not_met, gap"]],
        "worse": [RESULTS["loss"]],
        "undecided": [RESULTS["few_rows"], RESULTS["undecided"]],
        "no champion": [result("insufficient", reason="no_rival", kind="champion")],
        "passed": [RESULTS["met"]],
    }
    outcomes = {"blocked": "fail", "worse": "fail", "passed": "pass"}
    for name, results in kinds.items():
        verdict = verdict_of(*results, outcome=outcomes.get(name, "insufficient"))
        line = CandidateStory.of(Story.of(report, verdict))
        for label, text in line.facts:
            yield f"story: {name}: {label}", text
        yield f"story: {name}: headline", line.headline
        [row] = leaderboard([line]).rows
        for column in ("outcome", "worst", "change", "decisions"):
            cell = getattr(row, column)
            yield f"row: {name}: {column}", cell if isinstance(cell, str) else " | ".join(cell[:2])


def test_messages_are_as_they_were_read():
    text = "".join(f"{name}\n    {message}\n" for name, message in rendered())
    if os.environ.get("BIASGATE_WRITE_MESSAGES"):
        FILE.write_text(text, "utf-8")
        pytest.fail(f"wrote {FILE.name}: read it, then run again")
    assert text == FILE.read_text("utf-8")
