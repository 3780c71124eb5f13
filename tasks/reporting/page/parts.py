"""What a page says of one candidate on one set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bias_metrics import SubgroupBias
from bias_metrics.gate import RIVALS
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.measuring.diagnosis import NO_PATTERN
from biasgate.tasks.records import Details, Report, Verdict
from biasgate.tasks.reporting.page.drawing import Axis
from biasgate.tasks.reporting.page.grids import LIMITS, Grid, metric_grid
from biasgate.tasks.reporting.page.scores import Explorer, Panel, describe_scores, explore
from biasgate.tasks.reporting.page.texts import Quoted
from biasgate.tasks.reporting.story import Check, Story
from biasgate.tasks.reporting.tables import (
    NOTHING,
    Table,
    numeric,
    percent,
    short,
    shown_rows,
    with_interval,
)

# Most checks in a table: if there are more, the first.
_CHECKS = 300


@dataclass(frozen=True)
class Part:
    """Everything of one candidate on one set; `anchor` starts the names of its places."""

    anchor: str
    story: Story
    keys: tuple[tuple[str, str], ...]
    """The numbers of all comments together, with intervals."""
    lacks: tuple[tuple[str, str], ...]
    """Why some of them are undefined."""
    grid: Grid
    panels: tuple[Panel, ...]
    everyone: Panel
    scores_from: str
    scores_to: str
    scores_scale: str
    explorer: Explorer | None
    diagnosed: Table
    analyses: tuple[tuple[str, tuple[str, ...]], ...]
    remarks: tuple[str, ...]
    is_pooled: bool
    """Whether the verdict is about more nights than the numbers of the page."""
    digests: tuple[tuple[str, str], ...]
    gains: Table | None
    quotes: tuple[Quoted, ...] = ()

    @property
    def unmet(self) -> tuple[Check, ...]:
        """The first checks that did not pass."""
        return self.story.unmet[:_CHECKS]

    @property
    def met(self) -> tuple[Check, ...]:
        """The first others."""
        return self.story.met[:_CHECKS]

    @property
    def left_out(self) -> str:
        """A note if there are more."""
        if max(len(self.story.unmet), len(self.story.met)) <= _CHECKS:
            return ""
        return f"Tables list the first {_CHECKS}; all are in verdict.json."


def describe(
    anchor: str, report: Report, verdict: Verdict, details: Details, axes: Mapping[str, Axis]
) -> Part:
    """Return what a page says of one candidate on one set, drawn on the axes of the page."""
    scores, calibrated = details.scores, report.calibration
    story = Story.of(report, verdict, details.differences)
    grid = metric_grid(
        report, verdict, (*LIMITS, *RIVALS), differences=details.differences, axes=axes
    )
    return Part(
        anchor=anchor,
        story=story,
        keys=tuple((name, with_interval(cell)) for name, cell in story.numbers),
        lacks=tuple(
            (name, cell.reason or "no reason given")
            for name, cell in story.numbers
            if cell.value is None
        ),
        grid=grid,
        panels=tuple(describe_scores(name, one, details) for name, one in scores.subgroups.items()),
        everyone=describe_scores("all comments", scores.overall, details),
        scores_from=short(scores.edges[0]),
        scores_to=short(scores.edges[-1]),
        scores_scale=scores.scale,
        explorer=explore(details.curves) if details.curves is not None else None,
        diagnosed=_diagnosed(report, [row.name for row in grid.rows]),
        analyses=tuple(
            (kind.replace("_", " "), tuple(one.sentences))
            for kind, one in (report.analyses or {}).items()
        ),
        remarks=(*story.warnings, *([calibrated.sentence] if calibrated else [])),
        is_pooled=verdict.nights is not None and verdict.nights.number > 1,
        digests=tuple(_digests(report, verdict)),
        gains=_gains(report),
    )


def _diagnosed(report: Report, names: list[str]) -> Table:
    found = [report.diagnosis.subgroups[name] for name in names]
    return Table(
        "Pattern of bias by identity",
        {"Identity": "name", "Pattern": "words", "In words": "words"},
        [(name, one.name, one.sentence) for name, one in zip(names, found, strict=True)],
        frozenset(at for at, one in enumerate(found) if one.pattern in NO_PATTERN),
    )


def _gains(report: Report) -> Table | None:
    """Return what terms add to human labels; None for a set without terms to help."""
    agreement: dict[str, Any] = (report.label_agreement or {}).get("identities", {})
    subgroups = report.bias.subgroups
    shown, _ = shown_rows(subgroups)
    rows = [
        (
            name,
            *(_times(subgroups[name], metric) for metric in SUBGROUP_METRICS),
            *(percent(agreement[name][of]["value"]) for of in ("recall", "precision")),
        )
        for name in shown
        if name in agreement
    ]
    titles = [METRICS[metric].title for metric in SUBGROUP_METRICS]
    titles += ["Mentions that terms find", "Found comments that are mentions"]
    caption = (
        "What terms add to human labels: how many times as many labelled comments would tell as "
        "much"
    )
    return Table(caption, {"Identity": "name", **numeric(*titles)}, rows) if rows else None


def _times(subgroup: SubgroupBias, metric: str) -> str:
    """Return how many times as many labelled rows would give the same precision."""
    return NOTHING if subgroup.assisted is None else f"{subgroup.assisted[metric].gain:.1f}"


def _digests(report: Report, verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "evaluation set", report.evaluation_set.digest
    yield "candidate (everything that decides its scores)", report.candidate.digest
    yield "policy", verdict.policy.digest
    yield "report.json", verdict.report_digest
    yield "evidence.parquet", verdict.evidence_digest
    yield "code that decided", verdict.code.bias_metrics
