"""Third step: bias metrics, one task per identity over arrays that are shared as files.

Many identities are divided among a limited number of tasks. Each task memory-maps the arrays of
a layout and unpacks the memberships of its own identities, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bias_metrics import BiasReport, SubgroupBias
from bias_metrics.report.evaluation import (
    measure_members,
    members_of,
    summarise_bias,
    with_intervals,
)
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.join import Layout, lay_out
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.scoring.scored_set import ScoredSet

# Tasks that measure identities: enough for the cores of a large machine.
MAX_TASKS = 32


def measure_one(layout: Layout, identity: str) -> SubgroupBias:
    """Measure one identity."""
    return measure_some(layout, [identity])[identity]


def measure_some(layout: Layout, identities: Sequence[str]) -> dict[str, SubgroupBias]:
    """Measure several identities, one after the other."""
    ranked, masks = layout.ranked(), layout.masks()
    others = layout.others(ranked)
    return {
        name: measure_members(ranked.members(np.flatnonzero(masks[name]), others), CONFIDENCE)
        for name in identities
    }


def share_out_identities(identities: Sequence[str]) -> dict[str, list[str]]:
    """Divide identities among at most `MAX_TASKS` tasks; a few identities get one task each.

    Returns
    -------
    dict of str to list of str
        The identities by name of the task, as in `muslim` or `500 identities, part 3`.
    """
    if len(identities) <= MAX_TASKS:
        return {name: [name] for name in identities}
    return {
        f"{len(identities):,} identities, part {part + 1}": list(identities[part::MAX_TASKS])
        for part in range(MAX_TASKS)
    }


def summarise(layout: Layout, measured: Mapping[str, SubgroupBias]) -> BiasReport:
    """Compute overall numbers and aggregates; let all intervals account for clusters.

    A prediction-powered set is measured here as a whole.
    """
    powered = layout.powered()
    if powered is not None:
        record = layout.record
        return powered.measure(
            layout.folder.parent.name,
            record["power_mean_groups"],
            CONFIDENCE,
            record["choices"]["background"],
        )
    ranked = layout.ranked()
    report = summarise_bias(
        ranked.everyone,
        measured,
        power_mean_groups=layout.record["power_mean_groups"],
        confidence=CONFIDENCE,
        background=layout.record["choices"]["background"],
    )
    members = members_of(ranked, layout.masks(), layout.others(ranked))
    return with_intervals(
        report, ranked, members, confidence=CONFIDENCE, clusters=layout.clusters()
    )


@task(name="lay out scores", task_run_name="lay out {work!m}")
def lay_out_scores(
    set_folder: str, scores_folder: str, source: SourceSettings, work: str
) -> Layout:
    """Read rows and scores, write the ranked arrays. Safe to retry."""
    scored = ScoredSet.open(scores_folder)
    frozen = EvaluationSet.load(Path(set_folder))
    return lay_out(frozen, scored, source, Path(work))


def list_identities(layout: Layout) -> dict[str, list[str]]:
    """Return the identities of each task, by name of the task."""
    return share_out_identities(layout.record["identities"])


@task(name="measure identity", task_run_name="measure {identity} of {layout.folder!m}")
def measure_identity(
    identity: str, identities: list[str], layout: Layout
) -> dict[str, SubgroupBias]:
    """Memory-map the arrays and measure one identity, or a part of many.

    Writes nothing, safe to retry.
    """
    del identity  # only names the task run
    return measure_some(layout, identities)


@task(name="summarise bias", task_run_name="summarise {layout.folder!m}")
def summarise_identities(measured: list[dict[str, SubgroupBias]], layout: Layout) -> BiasReport:
    """Compute overall and aggregate numbers from the identities' results."""
    by_name = {name: bias for part in measured for name, bias in part.items()}
    found = summarise(layout, {name: by_name[name] for name in layout.record["identities"]})
    of = f"{layout.folder.name} on {layout.folder.parent.name}"
    auc, final = (one.value for one in (found.overall.auc, found.final_score))
    numbers = ", ".join(
        f"{name} {'undefined' if value is None else f'{value:.3f}'}"
        for name, value in (("AUC", auc), ("final score", final))
    )
    say(f"measured {of}: {numbers}; identities: {len(by_name)}")
    return found
