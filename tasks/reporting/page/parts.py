"""What a page says of one candidate on one set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bias_metrics.gate.objective import Objective
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, SUBGROUP_METRICS
from biasgate.tasks.common.outcomes import REPORTED, WORDS
from biasgate.tasks.measuring.diagnosis import NO_PATTERN
from biasgate.tasks.records import Bias, Details, GroupScores, Report, Result, Verdict, metric_cells
from biasgate.tasks.reporting.headline import checks_not_passed, headline
from biasgate.tasks.reporting.page.drawing import Histogram, draw_histogram, is_empty
from biasgate.tasks.reporting.page.explorer import Explorer, explore, position_of
from biasgate.tasks.reporting.page.focus import Focus, focus_of
from biasgate.tasks.reporting.page.gains import Gained, gains_of
from biasgate.tasks.reporting.page.grids import Grid, difference_grid, metric_grid
from biasgate.tasks.reporting.page.numbers import count, interval, number, plus_minus, with_interval
from biasgate.tasks.reporting.page.texts import Quoted

# Most checks in a table, and most numbers that got worse: if there are more, the first.
_CHECKS, _WORSENED = 300, 60
# Checks that did not pass and are quoted at the top of a page: the worst.
_QUOTED = 5


@dataclass(frozen=True)
class Check:
    """One check of the policy, in words; `rule` has the rule and what it compares with."""

    outcome: str
    word: str
    rule: str
    sentence: str


@dataclass(frozen=True)
class Judged:
    """The verdict on a candidate on a set.

    Attributes
    ----------
    status, word : str
        The outcome, for colours and in words.
    counted : str
        How many checks did not pass.
    quoted : tuple of str
        The worst of those, in words.
    more : str
        How many others did not pass; empty if all are quoted.
    unmet, met : tuple of Check
        Those that did not pass, the worst first, and all others.
    left_out : str
        A note if there are more.
    keys : tuple of (str, str)
        The numbers of all comments together, with intervals.
    lacks : tuple of (str, str)
        Why some of them are undefined.
    """

    status: str
    word: str
    counted: str
    quoted: tuple[str, ...]
    more: str
    unmet: tuple[Check, ...]
    met: tuple[Check, ...]
    left_out: str
    keys: tuple[tuple[str, str], ...]
    lacks: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class WorstRow:
    """Who is treated worst by one metric, and by how much."""

    metric: str
    name: str
    value: str
    interval: str
    meaning: str


@dataclass(frozen=True)
class Worsened:
    """A number that is shown to be worse than the champion's."""

    name: str
    metric: str
    champion: str
    candidate: str
    worse_by: str
    at_least: str


@dataclass(frozen=True)
class Compared:
    """The candidate beside the champion."""

    champion: str
    worsened: tuple[Worsened, ...]
    left_out: str
    objective: str
    grid: Grid


@dataclass(frozen=True)
class Panel:
    """The scores of an identity: a drawing, and the same in numbers."""

    name: str
    n: str
    drawing: Histogram | None
    harmless: tuple[str, ...]
    toxic: tuple[str, ...]


@dataclass(frozen=True)
class Diagnosed:
    """The pattern of bias of an identity."""

    name: str
    pattern: str
    sentence: str
    is_clear: bool


@dataclass(frozen=True)
class Part:
    """Everything of one candidate on one set; `anchor` starts the names of its places."""

    anchor: str
    candidate: str
    evaluation_set: str
    judged: Judged
    focus: Focus | None
    look_first: str
    worst: tuple[WorstRow, ...]
    grid: Grid
    compared: Compared | None
    panels: tuple[Panel, ...]
    everyone: Panel
    scores_from: str
    scores_to: str
    scores_scale: str
    explorer: Explorer | None
    diagnosed: tuple[Diagnosed, ...]
    analyses: tuple[tuple[str, tuple[str, ...]], ...]
    remarks: tuple[str, ...]
    pooled: str
    digests: tuple[tuple[str, str], ...]
    gains: tuple[Gained, ...]
    quotes: tuple[Quoted, ...] = ()


def describe(anchor: str, report: Report, verdict: Verdict, details: Details) -> Part:
    """Return what a page says of one candidate on one set."""
    scores, analyses = details["scores"], report.get("analyses", {})
    calibrated = report.get("calibration")
    grid = metric_grid(report, verdict)
    compared = _compared(verdict, details, grid)
    return Part(
        anchor=anchor,
        candidate=report["candidate"]["name"],
        evaluation_set=report["evaluation_set"]["name"],
        judged=_judged(report, verdict),
        focus=focus_of(report, verdict, grid, compared.grid if compared else None),
        look_first=_look_first(report, verdict),
        worst=tuple(_worst(report["bias"])),
        grid=grid,
        compared=compared,
        panels=tuple(_panel(name, one, details) for name, one in scores["subgroups"].items()),
        everyone=_panel("all comments", scores["overall"], details),
        scores_from=_short(scores["edges"][0]),
        scores_to=_short(scores["edges"][-1]),
        scores_scale=scores["scale"],
        explorer=explore(details["curves"]) if "curves" in details else None,
        diagnosed=tuple(_diagnosed(report, row.name) for row in grid.rows),
        analyses=tuple(
            (kind.replace("_", " "), tuple(one["sentences"])) for kind, one in analyses.items()
        ),
        remarks=(*report["warnings"], *([calibrated["sentence"]] if calibrated else [])),
        pooled=_pooled(verdict),
        digests=tuple(_digests(report, verdict)),
        gains=gains_of(report),
    )


def _look_first(report: Report, verdict: Verdict) -> str:
    """Return who is treated worst, beginning with a check that failed."""
    told = report["look_first"]["sentence"]
    first = headline(report, verdict)
    return f"{first.worst} {told}" if first.has_failed else told


def _judged(report: Report, verdict: Verdict) -> Judged:
    results = [one for one in verdict["results"] if one["outcome"] != "skipped"]
    unmet = checks_not_passed(verdict)
    policy = verdict["policy"]
    word = REPORTED if policy["report_only"] else WORDS[verdict["outcome"]]
    counted = f"All {len(results)} checks passed"
    if unmet:
        counted = f"{len(unmet)} of {len(results)} checks did not pass"
    met = [one for one in verdict["results"] if one["outcome"] in {"pass", "skipped"}]
    is_long = max(len(unmet), len(met)) > _CHECKS
    bias = report["bias"]
    means = metric_cells(bias["power_mean"])
    keys = {"Overall AUC": bias["overall"]["auc"], "Final score": bias["final_score"]}
    keys |= {f"Power mean of {METRICS[one].title}": means[one] for one in FINAL_SCORE_PARTS}
    return Judged(
        status="reported" if policy["report_only"] else verdict["outcome"],
        word=word.text,
        counted=counted,
        quoted=tuple(one["sentence"] for one in unmet[:_QUOTED]),
        more=f"And {len(unmet) - _QUOTED:,} more, listed below." if len(unmet) > _QUOTED else "",
        unmet=tuple(map(_check, unmet[:_CHECKS])),
        left_out=f"Tables list the first {_CHECKS}; all are in verdict.json." if is_long else "",
        met=tuple(map(_check, met[:_CHECKS])),
        keys=tuple((name, with_interval(cell)) for name, cell in keys.items()),
        lacks=tuple(
            (name, cell.get("reason", "no reason given"))
            for name, cell in keys.items()
            if cell["value"] is None
        ),
    )


def _check(one: Result) -> Check:
    words = {"pass": "passed", "fail": "failed", "insufficient": "not enough evidence"}
    word = words.get(one["outcome"], one["outcome"])
    if one["outcome"] not in {"pass", "skipped"}:
        word += " (only warns)" if one["action"] == "warn" else ""
        word += f" (waived by {one['waived_by']})" if one["waived_by"] else ""
    return Check(one["outcome"], word, f"{one['rule']} {one['kind']}", one["sentence"])


def _worst(bias: Bias) -> Iterator[WorstRow]:
    for metric in SUBGROUP_METRICS:
        one, known = bias["worst"][metric], METRICS[metric]
        name, value = one["subgroup"], one["value"]
        if name is None or value is None:
            continue
        meaning = known.harm.format(group=name, side=known.sides[value > 0])
        ends = bias["subgroups"][name]
        cell = metric_cells(ends)[metric]
        shown = interval(cell.get("low"), cell.get("high"), signed=known.is_gap)
        yield WorstRow(known.title, name, number(value, signed=known.is_gap), shown, meaning)


def _compared(verdict: Verdict, details: Details, grid: Grid) -> Compared | None:
    champion = verdict["champion"]
    if champion is None or "champion" not in details:
        return None
    worsened = []
    for one in verdict["worsened"][:_WORSENED]:
        signed = METRICS[one["metric"]].is_gap
        before, now = (number(one[key], signed=signed) for key in ("second", "first"))
        by, at_least = number(one["worse_by"]), number(one["worse_by_at_least"])
        title = METRICS[one["metric"]].title
        worsened.append(Worsened(one["group"], title, before, now, by, at_least))
    more = len(verdict["worsened"]) - len(worsened)
    objective = Objective(**verdict["objective"])
    undefined = f"{objective.name} has no difference, because it is undefined"
    return Compared(
        champion=champion.get("model") or champion["name"],
        worsened=tuple(worsened),
        left_out=f"and {more:,} more, all in verdict.json" if more > 0 else "",
        objective=objective.comparison if objective.change is not None else undefined,
        grid=difference_grid(details["champion"], verdict, [row.name for row in grid.rows]),
    )


def _diagnosed(report: Report, name: str) -> Diagnosed:
    one = report["diagnosis"]["subgroups"][name]
    return Diagnosed(name, one["name"], one["sentence"], one["pattern"] not in NO_PATTERN)


def _panel(name: str, scores: GroupScores, details: Details) -> Panel:
    harmless, toxic = (
        (count(one["n"]), *map(_short, one["quartiles"] or ()))
        for one in (scores["negative"], scores["positive"])
    )
    n = scores["negative"]["n"] + scores["positive"]["n"]
    drawing = None
    if not is_empty(scores):
        curves = details.get("curves")
        threshold = None if curves is None else curves["thresholds"][position_of(curves)]
        drawing = draw_histogram(scores, details["scores"]["edges"], threshold)
    return Panel(name, count(n), drawing, harmless, toxic)


def _short(value: float) -> str:
    return plus_minus(f"{value:.3g}")


def _pooled(verdict: Verdict) -> str:
    """Return which comments the verdict is about, if they are more than those of the set."""
    nights = verdict.get("nights")
    if nights is None or nights["number"] == 1:
        return ""
    return (
        f"The verdict is about all {nights['n_rows']:,} comments of {nights['number']} nights. "
        "Numbers and drawings of this page are about those of the last night alone."
    )


def _digests(report: Report, verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "evaluation set", report["evaluation_set"]["digest"]
    yield "candidate (everything that decides its scores)", report["candidate"]["digest"]
    yield "policy", verdict["policy"]["digest"]
    yield "report.json", verdict["report_digest"]
    yield "evidence.parquet", verdict["evidence_digest"]
    yield "code that decided", verdict["code"]["bias_metrics"]
