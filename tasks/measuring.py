"""Third step: bias metrics, one task per identity over arrays that are shared as files.

Each identity's task maps the arrays of a layout into memory and reads one more column, its own
membership.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bias_metrics import BiasReport, SubgroupBias
from bias_metrics.evaluation import measure_members, summarise_bias, with_intervals
from tasks.data.evaluation_set import EvaluationSet
from tasks.data.freezing import SOURCES
from tasks.layout import CONFIDENCE, Layout, lay_out, membership
from tasks.orchestration import task
from tasks.scoring.scored import ScoredSet

# All AUCs this close to chance: see `warn_of_misjoin`.
_CHANCE = 0.05


def measure_one(layout: Layout, identity: str) -> SubgroupBias:
    """Measure one identity."""
    ranked = layout.ranked()
    members = ranked.members(np.flatnonzero(membership(layout, identity)), layout.others(ranked))
    return measure_members(members, CONFIDENCE)


def summarise(layout: Layout, measured: Mapping[str, SubgroupBias]) -> BiasReport:
    """Compute overall numbers, aggregates and what clusters do to every interval."""
    ranked = layout.ranked()
    report = summarise_bias(
        ranked.everyone,
        measured,
        power_mean_groups=layout.record["power_mean_groups"],
        confidence=CONFIDENCE,
        background=layout.record["choices"]["background"],
    )
    others = layout.others(ranked)
    members = {
        name: ranked.members(np.flatnonzero(membership(layout, name)), others) for name in measured
    }
    return with_intervals(
        report, ranked, members, confidence=CONFIDENCE, clusters=layout.clusters()
    )


def warn_of_misjoin(report: BiasReport) -> str | None:
    """Say so when every AUC is near 0.5: the scores are probably joined to the wrong rows."""
    values = [report.overall.auc.value]
    values += [bias.subgroup_auc.value for bias in report.subgroups.values()]
    known = [value for value in values if value is not None]
    if any(abs(value - 0.5) > _CHANCE for value in known):
        return None
    return (
        f"every AUC is within {_CHANCE} of 0.5, as if the scores were guesses. Were they made for "
        "these rows? Check that the ids of scores and evaluation set mean the same comments."
    )


@task(name="lay out scores")
def lay_out_scores(set_folder: str, scores_folder: str, source: dict[str, Any], work: str) -> str:
    """Read rows and scores, write the ranked arrays, return their folder. Safe to retry."""
    scored = ScoredSet.open(scores_folder)
    frozen = EvaluationSet.load(Path(set_folder))
    settings = SOURCES.validate_python(source)
    return str(lay_out(frozen, scored, settings, Path(work)).folder)


def list_identities(layout: str) -> list[str]:
    """Read which identities to measure."""
    return list(Layout(Path(layout)).record["identities"])


@task(name="measure identity", task_run_name="measure {identity}")
def measure_identity(identity: str, layout: str) -> SubgroupBias:
    """Map the arrays into memory and measure one identity. Writes nothing, safe to retry."""
    return measure_one(Layout(Path(layout)), identity)


@task(name="summarise bias")
def summarise_identities(
    identities: list[str], measured: list[SubgroupBias], layout: str
) -> BiasReport:
    """Compute overall and aggregate numbers from the identities' results."""
    return summarise(Layout(Path(layout)), dict(zip(identities, measured, strict=True)))
