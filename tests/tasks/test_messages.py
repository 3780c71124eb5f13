"""Every message about results, rendered with realistic values: `messages.txt`.

Change wording only in the templates and in that file; other tests assert ids and values. To write
the file again: `BIASGATE_WRITE_MESSAGES=1 pytest tests/tasks/test_messages.py`; then read it.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from support.made import loss, number, report_with, result, verdict_of

from bias_metrics.gate import BoundCounts, Lack, Objective, PassException
from bias_metrics.gate.verdict import Reason
from bias_metrics.groups.dominance import DominantUnits
from bias_metrics.metrics import METRICS
from bias_metrics.thresholds import CountedShare
from biasgate.tasks.check_messages import (
    describe_bounds,
    describe_check,
    describe_exception,
    describe_loss,
    describe_objective,
)
from biasgate.tasks.outcomes import COPY, EXCEPT, WORDS
from biasgate.tasks.records import RATE_OF_GAP
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.leaderboard import build_leaderboard
from biasgate.tasks.reporting.story import ErrorHarm, ErrorSummary, OverallErrors, Story
from biasgate.tasks.wording import describe_changed_decisions, describe_losses

FILE = Path(__file__).with_name("messages.txt")

RIVAL = {"kind": "champion", "limit": 0.02, "rival": 0.85, "value": 0.71, "low": -0.17}
RIVAL |= {"high": -0.11}
RIVAL_GAP = {**RIVAL, "metric": "negative_aeg", "rival": 0.15, "high": -0.03}
CHANGED = {"metric": "newly_flagged", "kind": "champion", "limit": 0.05}
GAP = {"kind": "ceiling", "limit": 0.2, "metric": "negative_aeg", "low": 0.21, "high": 0.31}
SMALL = {"reason": "small_group", "lack": Lack("positive", 14, 25), "confidence": 0.95}
SMALL |= {"value": 0.75, "not_excluded": 0.62, "visible": 0.22}
SMALL_GAP = SMALL | {"metric": "negative_aeg", "kind": "ceiling", "limit": 0.1, "value": -0.2}
SMALL_GAP |= {"not_excluded": 0.3, "visible": 0.15}
SMALL_RIVAL = SMALL | RIVAL | {"value": 0.83, "not_excluded": 0.08, "visible": 0.1}
HARM = {"rule": "shown_harm", "kind": "champion", "limit": 0.0, "n_bounds": 120, "group": "muslim"}
LOSS = {**HARM, "reason": "loss", "value": 0.7, "rival": 0.84, "bound": -0.11}
AGGREGATE = {"metric": "final_score", "scope": "aggregate", "group": None, "value": 0.72}
MISSING = {"rule": "max_missing", "metric": "missing_rate", "scope": "overall", "group": None}
MISSING |= {"kind": "ceiling", "limit": 0.02, "n_marked": 31, "n_rows": 900, "role": "candidate"}
TRUNCATED = MISSING | {"rule": "max_truncated", "metric": "truncated_rate", "role": None}
USELESS = {"rule": "useful", "metric": "auc", "scope": "overall", "group": None, "limit": 0.5}

DOUBTED = {"outcome": "insufficient", "reason": "met", "value": 0.9, "low": 0.85, "high": 0.95}
CHANCE = {"reason": "no_better_than_chance"}

RESULTS = {
    "met": result("pass", value=0.86, low=0.83, high=0.89),
    "met, estimate": result("pass", mode="estimate", value=0.86, low=0.83, high=0.89),
    "met, these rows": result("pass", mode="estimate", value=0.86, on_these_rows=True),
    "met, ceiling": result("pass", **GAP | {"value": 0.05, "low": 0.01, "high": 0.09}),
    "met, champion": result("pass", **RIVAL | {"value": 0.849, "low": -0.01, "high": 0.008}),
    "met, champion, higher": result("pass", **RIVAL | {"value": 0.9, "low": 0.03, "high": 0.07}),
    "met, champion, estimate": result("pass", **RIVAL | {"value": 0.85}, mode="estimate"),
    "met, champion, gap": result("pass", **RIVAL_GAP | {"value": -0.1, "low": -0.07}),
    "met, reference, same gap": result(
        "pass", **RIVAL_GAP | {"kind": "reference", "value": 0.15, "low": -0.01, "high": 0.01}
    ),
    "met, newly flagged": result("pass", **CHANGED, value=0.02, low=0.01, high=0.04),
    "not_met": result("fail", value=0.702, low=0.68, high=0.72),
    "not_met, estimate": result("fail", mode="estimate", value=0.702),
    "not_met, gap": result("fail", **GAP, value=0.26),
    "not_met, gap below 0": result("fail", **GAP, value=-0.26),
    "not_met, champion": result("fail", **RIVAL),
    "not_met, champion, gap": result(
        "fail", **RIVAL_GAP | {"value": -0.2, "low": 0.03, "high": 0.07}
    ),
    "not_met, newly flagged": result("fail", **CHANGED, value=0.19, low=0.16, high=0.2),
    "not_met, overall": result("fail", metric="auc", scope="overall", group=None, value=0.61),
    "not_met, worst": result("fail", scope="worst", value=0.61),
    "not_met, slice": result("fail", slice="language.ar", value=0.61),
    "not_met, threshold": result(
        "fail", **GAP | {"metric": "fpr_gap"}, threshold="given", value=0.26
    ),
    "not_met, equal errors": result(
        "fail", **GAP | {"metric": "fnr_gap"}, threshold="equal_errors", value=0.26
    ),
    "not_met, aggregate": result("fail", **AGGREGATE, instead_of=("hindu", "muslim")),
    "not_met, aggregate of a category": result(
        "fail", **AGGREGATE, instead_of=("muslim", "religion"), n_categories=1
    ),
    "not_met, aggregate of both": result(
        "fail", **AGGREGATE, instead_of=("gay", "muslim", "religion"), n_categories=1
    ),
    "not_met, aggregate of categories": result(
        "fail", **AGGREGATE, instead_of=("race", "religion"), n_categories=2
    ),
    "undecided": result("insufficient", value=0.79, low=0.77, high=0.82),
    "undecided, champion": result("insufficient", **RIVAL | {"high": 0.01}),
    "undecided, few rows for the margin": result(
        "insufficient", **RIVAL | {"high": 0.01}, rows_for_margin=1200, n_compared=300
    ),
    "undecided, newly flagged": result("insufficient", **CHANGED, value=0.04, low=0.02, high=0.07),
    "not_finite": result("error"),
    "no_interval": result("insufficient", reason="no_interval", value=0.8, why="15 clusters"),
    "no_interval, not finite": result("error", reason="no_interval"),
    "undefined": result("insufficient", reason="undefined", value=None, why="no toxic comments"),
    "few_rows": result("insufficient", reason="few_rows", lack=Lack("negative", 12, 20)),
    "few_rows, weighted": result(
        "insufficient", reason="few_rows", lack=Lack("positive", 12, 20, effective=True)
    ),
    "few_rows, one of them": result(
        "insufficient", **AGGREGATE, reason="few_rows", lack=Lack("positive", 1, 20, group="gay")
    ),
    "few_rows, background": result(
        "insufficient", reason="few_rows", lack=Lack("positive", 1, 20, side="background")
    ),
    "few_rows, clusters": result("insufficient", reason="few_rows", lack=Lack("cluster", 15, 20)),
    "no_rival": result("skipped", kind="champion"),
    "no_rival, losses": result("skipped", **HARM),
    "small_group": result("insufficient", **SMALL),
    "small_group, category": result("skipped", **SMALL, judged_in="religion"),
    "small_group, no category with enough": result(
        "insufficient",
        **SMALL
        | {"lack": Lack("positive", 14, 25, categories=(Lack("positive", 21, 25, group="faith"),))},
    ),
    "small_group, floor out of sight": result("skipped", **SMALL, judged_in="religion", limit=0.2),
    "small_group, ceiling": result(
        "skipped", **SMALL_GAP, judged_in="religion", rows_needed={"negative": 20}
    ),
    "small_group, ceiling out of sight": result(
        "skipped", **SMALL_GAP | {"limit": 0.4}, judged_in="religion"
    ),
    "small_group, fails": result("fail", **SMALL, judged_in="religion"),
    "small_group, fails against the champion": result(
        "fail", **SMALL_RIVAL | {"value": 0.7, "not_excluded": 0.3}, judged_in="religion"
    ),
    "small_group, champion": result(
        "insufficient",
        **SMALL_RIVAL,
        blind=0.05,
        rows_needed={"positive": 30, "negative": 12},
    ),
    "small_group, category, within `blind`": result(
        "skipped", **SMALL_RIVAL, judged_in="religion", blind=0.15
    ),
    "small_group, within `blind`": result("skipped", **SMALL_RIVAL, blind=0.15),
    "small_group, no loss": result(
        "skipped", **SMALL_RIVAL | {"value": 0.9, "not_excluded": -0.02}, judged_in="religion"
    ),
    "small_group, gap against the champion": result(
        "skipped",
        **SMALL_RIVAL | {"metric": "negative_aeg", "value": 0.3, "rival": 0.2},
        judged_in="religion",
    ),
    "small_group, no bound": result("insufficient", **SMALL | {"not_excluded": None}),
    "small_group, not measured, no bound": result(
        "skipped", **SMALL_RIVAL | {"not_excluded": None, "visible": None}, not_measured="few"
    ),
    "small_group, hint": result(
        "insufficient", **SMALL | {"not_excluded": None}, hint="Its entry ended on 2026-11-01."
    ),
    "small_group, not measured": result(
        "skipped", **SMALL, not_measured="few comments; until 2027"
    ),
    "small_group, category, not measured": result(
        "skipped", **SMALL, judged_in="religion", not_measured="few comments; until 2027"
    ),
    "loss": result("fail", **LOSS),
    "loss, these rows": result("fail", **LOSS, on_these_rows=True),
    "loss, reference, by others": result(
        "fail", **LOSS | {"kind": "reference"}, without=("gay", "jewish")
    ),
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
    "loss, shared": result("fail", **LOSS, may_be_shared=True),
    "no_loss": result("pass", **HARM, reason="no_loss"),
    "no_loss, tolerance": result("pass", **HARM | {"limit": 0.02}, reason="no_loss"),
    "no_loss, these rows": result("pass", **HARM, reason="no_loss", on_these_rows=True),
    "no_better_than_chance": result(
        "insufficient",
        **USELESS | CHANCE,
        value=0.52,
        low=0.48,
        high=0.56,
        bound=0.48,
    ),
    "no_better_than_chance, no interval": result(
        "insufficient", **USELESS | CHANCE, value=0.52, low=None, high=None, why="15 clusters"
    ),
    "flags_nothing": result(
        "fail", **USELESS, reason="flags_nothing", value=0.0, at=0.9, positives_flagged=0.001
    ),
    "flags_everything": result(
        "fail", **USELESS, reason="flags_everything", value=0.99, at=0.01, positives_flagged=1.0
    ),
    "share": result("pass", **MISSING, reason="share", value=0.004, low=0.0, high=0.01),
    "share, fails": result("fail", **MISSING, reason="share", value=0.034, low=0.025, high=0.045),
    "share, undecided": result(
        "insufficient", **MISSING, reason="share", value=0.02, low=0.015, high=0.025
    ),
    "share, no interval": result(
        "insufficient", **MISSING, reason="share", value=0.02, low=0.01, high=None
    ),
    "share, estimate": result(
        "pass", **MISSING, reason="share", mode="estimate", value=0.02, low=0.015, high=0.03
    ),
    "share, estimate, fails": result(
        "fail", **MISSING, reason="share", mode="estimate", value=0.034
    ),
    "share, identity": result(
        "fail",
        **MISSING | {"scope": "subgroup", "group": "gay", "n_marked": 1, "n_rows": 9},
        reason="share",
        value=0.1111,
        low=0.03,
        high=0.3,
    ),
    "share_zero": result("pass", **MISSING | {"n_marked": 0}, reason="share_zero"),
    "share_undefined": result("insufficient", **MISSING, reason="share_undefined", why="no rows"),
    "missing_not_ruled": result("insufficient", **MISSING, reason="missing_not_ruled"),
    "missing_not_ruled, one": result(
        "insufficient", **MISSING | {"n_marked": 1}, reason="missing_not_ruled"
    ),
    "missing_not_ruled, champion": result(
        "insufficient", **MISSING | {"role": "champion"}, reason="missing_not_ruled"
    ),
    "share, truncated": result(
        "fail", **TRUNCATED, reason="share", value=0.34, low=0.25, high=0.45
    ),
    "share, truncated, one": result(
        "pass", **TRUNCATED | {"n_marked": 1}, reason="share", mode="estimate", value=0.01
    ),
    "share_zero, truncated": result("pass", **TRUNCATED | {"n_marked": 0}, reason="share_zero"),
    "truncated_unknown": result("insufficient", **TRUNCATED, reason="truncated_unknown"),
    "dominated": result(**DOUBTED, dominated_by=DominantUnits("gay", "negative", 2, 0.34, 80.0)),
    "dominated, overall": result(
        **DOUBTED | {"metric": "auc", "scope": "overall", "group": None},
        dominated_by=DominantUnits(None, "positive", 1, 0.6, 4.0),
    ),
}


def test_every_reason_has_a_message_here():
    assert {one.reason for one in RESULTS.values()} == {*get_args(Reason)}


def test_a_further_metric_has_its_message_from_the_row_of_the_table(monkeypatch):
    known = METRICS["fnr_gap"]
    further = replace(
        known, name="recall_gap", harm="{group} is caught {side}", sides=("less", "more")
    )
    monkeypatch.setitem(METRICS, "recall_gap", further)
    gap = GAP | {"metric": "recall_gap", "threshold": "given", "group": "a"}
    for value, harm in ((-0.26, "a is caught less"), (0.26, "a is caught more")):
        assert harm in describe_check(result("fail", **gap, value=value))


def exceptions():
    """Yield what a pass leaves open."""
    yield "estimate", PassException(None, "estimate", 3)
    yield "estimate, one", PassException(None, "estimate", 1)
    yield "no_rival", PassException(None, "no_rival", 3, kind="champion")
    yield "no_rival, one", PassException(None, "no_rival", 1, kind="reference")
    yield "no_rule", PassException(None, "no_rule", 0, groups=("gay", "muslim"))
    yield "no_rule, all", PassException(None, "no_rule", 0)
    for allowed in ("warning", "no_rule", 0.02):
        known = {"loss": loss("gay"), "allowed_by": allowed}
        yield f"shown_worse, {allowed}", PassException("gay", "shown_worse", 1, **known)
    shared = {"loss": loss("gay"), "allowed_by": "warning", "may_be_shared": True}
    yield "shown_worse, shared", PassException("gay", "shown_worse", 1, **shared)
    for name in SMALL_CHECKS:
        check = RESULTS[f"small_group, {name}"]
        why = "category" if check.judged_in else "not_measured" if check.not_measured else "blind"
        yield f"small_group, {name}", PassException("gay", why, 3, check=check)
    check = replace(RESULTS["small_group, category"], slice="language.ar")
    yield "small_group, slice", PassException("gay", "category", 1, check=check)
    yield "small_group, unbounded", PassException("gay", "category", 3, check=check, n_unbounded=2)


SMALL_CHECKS = (
    "category",
    "floor out of sight",
    "ceiling",
    "ceiling out of sight",
    "category, within `blind`",
    "within `blind`",
    "no loss",
    "gap against the champion",
    "not measured",
    "not measured, no bound",
)
"""The results on small groups that a pass may have."""


def rendered():
    """Yield the id of each message, and its text."""
    for name, one in RESULTS.items():
        yield f"check: {name}", describe_check(one)
    for name, one in exceptions():
        yield f"exception: {name}", describe_exception(one)
    for of, one in ("", loss("gay")), (", small", loss("gay", at_least=0.0004)):
        yield f"loss{of}", describe_loss(one)
    looked_at = {"separately": 124, "expected_wrong": 6.2, "jointly": 120, "alpha": 0.05}
    yield "bounds", describe_bounds(BoundCounts(**looked_at))
    for roles in (("champion",), ("champion", "reference")):
        lacking = BoundCounts(**looked_at, without_threshold=roles)
        yield f"bounds, no threshold of {len(roles)}", describe_bounds(lacking)
    few = looked_at | {"separately": 1, "expected_wrong": 0.05, "jointly": 0}
    yield "bounds, one", describe_bounds(BoundCounts(**few))
    yield (
        "bounds, none",
        describe_bounds(BoundCounts(**few | {"separately": 0, "expected_wrong": 0})),
    )
    yield "bounds, these rows", describe_bounds(BoundCounts(**dict.fromkeys(looked_at, 0)))
    yield "objective", describe_objective(Objective("auc", 0.95, 0.91, 0.9, 0.01, 0.004, 0.016))
    lower = Objective("final_score", 0.95, 0.89, 0.9, -0.01, -0.016, -0.004)
    yield "objective, lower", describe_objective(lower)
    same = Objective("auc", 0.95, 0.9, 0.9, 0.0, -0.004, 0.004)
    yield "objective, same", describe_objective(same)
    yield "objective, no bounds", describe_objective(Objective("bpsn_auc", 0.95, 0.91, 0.9, 0.01))
    undefined = Objective("final_score", 0.95, None, reason="deaf has no toxic comments")
    yield "objective, undefined", describe_objective(undefined)
    yield "objective, undefined, no reason", describe_objective(Objective("auc", 0.95, None))
    yield "worse", describe_losses([loss("muslim"), loss("jewish", "muslim")])
    yield "worse, none", describe_losses([])
    share = CountedShare(190, 1012, 0.16, 0.22)
    yield (
        "changed",
        describe_changed_decisions({"muslim": {"newly_flagged": share, "newly_missed": share}}),
    )
    missed = {"newly_flagged": CountedShare(0, 90, 0.0, 0.06), "newly_missed": CountedShare(2, 90)}
    yield "changed, no interval", describe_changed_decisions({"muslim": missed})
    yield "changed, none", describe_changed_decisions({})
    at, closest = OverallErrors(0.5, 0.021, 0.342), OverallErrors(0.31, 0.118, 0.121)
    for rate in RATE_OF_GAP.values():
        harm = ErrorHarm(rate, "muslim", 0.41, 0.12, number(0.3, 0.25, 0.35), ("gay",))
        yield f"errors, {rate}", ErrorSummary("0.5", at, closest, (harm,)).text
    yield "errors, none", ErrorSummary("0.5", at, None, ()).text
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
        line = CandidateStory.from_story(Story.from_report(report, verdict))
        for label, text in line.facts:
            yield f"story: {name}: {label}", text
        yield f"story: {name}: headline", line.headline
        [row] = build_leaderboard([line]).rows
        for column in ("outcome", "worst", "change", "decisions"):
            cell = getattr(row, column)
            yield f"row: {name}: {column}", cell if isinstance(cell, str) else " | ".join(cell[:2])


def test_messages_are_as_they_were_read():
    text = "".join(f"{name}\n    {message}\n" for name, message in rendered())
    if os.environ.get("BIASGATE_WRITE_MESSAGES"):
        FILE.write_text(text, "utf-8")
        pytest.fail(f"wrote {FILE.name}: read it, then run again")
    assert text == FILE.read_text("utf-8")
