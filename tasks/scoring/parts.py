"""Scoring by many workers: each makes a range of the shards that one candidate's scores need.

`biasgate.tasks.scoring.scored` finds what they made, and makes what is missing. A worker that
is killed loses the shard that it was at; whoever gets its range makes the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from biasgate.tasks.common.prefect_task import is_spread, task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored import ScoredSet, score_shards, shards_of
from biasgate.tasks.store import Workplace

# Each opens the candidate anew: enough for all workers to have some, few enough to be worth it.
PARTS = 32


@dataclass(frozen=True)
class Part:
    """A range of the shards of one candidate's scores on one set.

    Attributes
    ----------
    first, last : int
        Numbers of its first and its last shard.
    scores : str
        Folder or URL below which the flow keeps scores, whatever a worker's own environment says.
    """

    first: int
    last: int
    scores: str


@task(name="share out shards", task_run_name="share out {candidate.name} on {set_folder!e}")
def share_out(candidate: CandidateSettings, set_folder: str, workplace: Workplace) -> list[Part]:
    """Return ranges of shards for workers. Reads only.

    None where the tasks of this flow run in its own process, or the scores are kept.
    """
    if not is_spread():
        return []
    evaluation_set = EvaluationSet.load(Path(set_folder))
    with candidate.open(workplace) as scorer:
        scorer.check(evaluation_set)
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
    """Make those of a range of shards that are not there yet. Safe to retry."""
    evaluation_set = EvaluationSet.load(Path(set_folder))
    numbers = range(part.first, part.last + 1)
    with candidate.open(workplace) as scorer:
        shards = shards_of(scorer, evaluation_set, part.scores)
        which = f", shards {part.first} to {part.last}"
        score_shards(scorer, evaluation_set, candidate, shards, numbers, which)
