"""Scoring by many workers: each computes a range of the shards of one candidate's scores.

`biasgate.tasks.scoring.scored` finds these shards and computes missing ones. A killed worker
loses only its current shard; the worker that takes over its range computes the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from biasgate.tasks.common.prefect_task import is_spread, task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored import check_set, score_shards, shards_of
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.store import Workplace

# Each part opens the candidate again: enough parts for all workers, but no more than pays off.
PARTS = 32


@dataclass(frozen=True)
class Part:
    """A range of the shards of one candidate's scores on one set."""

    first: int
    last: int
    """Numbers of the first and the last shard."""
    scores: str
    """Folder or URL below which the flow keeps scores; overrides a worker's own environment."""


@task(name="share out shards", task_run_name="share out {candidate.name} on {set_folder!e}")
def share_out(candidate: CandidateSettings, set_folder: str, workplace: Workplace) -> list[Part]:
    """Return ranges of shards for workers. Only reads.

    Empty if the tasks of this flow run in its own process, or all scores are kept.
    """
    if not is_spread():
        return []
    evaluation_set = EvaluationSet.load(Path(set_folder))
    with candidate.open(workplace) as scorer:
        check_set(scorer, evaluation_set, candidate)
        kept = ScoredSet.load(shards_of(scorer, evaluation_set, workplace.scores).folder.url)
        if kept is not None and kept.is_of(scorer, evaluation_set):
            return []
    n_shards = -(-evaluation_set.n_rows // candidate.rows_a_shard)
    n_parts = min(n_shards, PARTS)
    starts = [n_shards * part // n_parts for part in range(n_parts + 1)]
    return [Part(first, after - 1, workplace.scores) for first, after in pairwise(starts)]


@task(
    name="score shards",
    task_run_name="score {candidate.name} on {set_folder!e}, shards {part.first} to {part.last}",
)
def score_part(
    part: Part, candidate: CandidateSettings, set_folder: str, workplace: Workplace
) -> None:
    """Compute the missing shards of a range. Safe to retry."""
    evaluation_set = EvaluationSet.load(Path(set_folder))
    numbers = range(part.first, part.last + 1)
    with candidate.open(workplace) as scorer:
        shards = shards_of(scorer, evaluation_set, part.scores)
        which = f", shards {part.first} to {part.last}"
        score_shards(scorer, evaluation_set, candidate, shards, numbers, which)
