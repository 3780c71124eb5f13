"""What is remembered of a night: numbers with intervals, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bias_metrics import MetricValue, Overall, SubgroupBias
from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.records import LoggedVerdict, Report, metric_cells
from biasgate.tasks.records.trend import Cause, Digests, Night, Remembered

SCHEMA_VERSION = 1
CAUSES: tuple[Cause, ...] = ("model", "data", "options", "policy", "code")
# The rows of a night are not a choice: these say how many there were, or where they came from.
_NO_CHOICES = ("n_", "source", "split")


def remember(
    measured: Sequence[Measured],
    verdicts: Sequence[LoggedVerdict],
    *,
    evaluation: str,
    number: int,
    run_id: str,
) -> Night:
    """Return the record of one night.

    Parameters
    ----------
    number : int
        Of the night, from 1.
    """
    by_place = {(v.candidate.name, v.evaluation_set.name): v for v in verdicts}
    return Night(
        schema_version=SCHEMA_VERSION,
        evaluation=evaluation,
        number=number,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        run_id=run_id,
        models=[
            _remembered(one, by_place[one.candidate.name, one.source.name]) for one in measured
        ],
        news=[],
    )


def _remembered(measured: Measured, verdict: LoggedVerdict) -> Remembered:
    report = measured.report
    choices = {
        key: value
        for key, value in report.evaluation_set.choices.to_dict().items()
        if not key.startswith(_NO_CHOICES)
    }
    digests = Digests(
        model=_model_digest(measured, verdict),
        data=report.evaluation_set.digest,
        options=json_digest([choices, sorted(report.bias.subgroups)]),
        policy=verdict.policy.digest,
        code=json_digest(verdict.code),
    )
    return Remembered(
        candidate=measured.candidate.name,
        model=measured.candidate.uri or measured.candidate.name,
        evaluation_set=measured.source.name,
        run_id=verdict.run_id,
        outcome=verdict.outcome,
        digests=digests,
        rows=Path(measured.rows).name,
        scored_by=report.candidate.digest,
        numbers=numbers_of(report),
    )


def _model_digest(measured: Measured, verdict: LoggedVerdict) -> str:
    """Return the digest of what scored: of a version, its files and how they are opened.

    It is the same whether the version was trained in that night or taken from the registry.
    """
    bound = verdict.candidate.bound
    if bound.what == "files" and measured.candidate.uri:
        return json_digest([bound.digest, measured.candidate.opened_as()])
    return measured.report.candidate.digest


def numbers_of(report: Report) -> dict[str, list[float | None]]:
    """Return value, low and high of every number; shares have no interval."""
    bias = report.bias
    overall = bias.overall
    found: dict[str, list[float | None]] = {}
    cells = {"auc/overall": overall.auc, "final_score": bias.final_score}
    powers = metric_cells(bias.power_mean)
    cells |= {f"power_mean/{name}": powers[name] for name in FINAL_SCORE_PARTS}
    for name, subgroup in bias.subgroups.items():
        of_group = metric_cells(subgroup)
        cells |= {f"{metric}/{name}": of_group[metric] for metric in SUBGROUP_METRICS}
    for key, cell in cells.items():
        found[key] = [cell.value, cell.low, cell.high]
    counts: dict[str, Overall[MetricValue] | SubgroupBias] = {"overall": overall, **bias.subgroups}
    for name, one in counts.items():
        n, positive = one.n, one.n_positive
        found[f"toxic_share/{name}"] = [positive / n if n else None, None, None]
        found[f"share/{name}"] = [n / overall.n if overall.n else None, None, None]
    del found["share/overall"]
    return found


def causes_of(now: Digests, before: Digests) -> list[Cause]:
    """Return what is other now."""
    return [one for one in CAUSES if getattr(now, one) != getattr(before, one)]
