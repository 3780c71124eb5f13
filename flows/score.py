"""Score candidates on sets: in this process, or on the workers of a cluster (step 2)."""

from __future__ import annotations

from typing import Any

from prefect import unmapped

from biasgate.tasks.common.prefect_task import asking_for
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.parts import score_part, share_out
from biasgate.tasks.scoring.scored import check_candidate, score_candidate
from biasgate.tasks.scoring.sending import agree_to_send, estimate_sending
from biasgate.tasks.store import Workplace


def score_candidates(
    candidates: list[CandidateSettings], frozen: list[str], workplace: Workplace, *, yes: bool
) -> list[list[str]]:
    """Return the folders of scores: for each candidate, one per set.

    - check all candidates against all sets before anything is scored
    - say what is sent to paid or limited services, and ask unless `yes`
    - on a cluster: submit ranges of shards, for all candidates and sets
    - make the shards that are still missing in this process, one candidate after the other
      (kept scores are reused)
    """
    for candidate in candidates:
        check_candidate(candidate, frozen, workplace)
    agree_to_send(estimate_sending(candidates, frozen, workplace), yes=yes)
    submitted: list[Any] = []
    for candidate in candidates:
        score = score_part.with_options(tags=candidate.tags)
        for rows in frozen:
            parts = share_out(candidate, rows, workplace)
            with asking_for(candidate.resources):
                submitted.append(
                    score.map(parts, unmapped(candidate), unmapped(rows), unmapped(workplace))
                )
    for parts in submitted:
        parts.result()
    return [[score_candidate(one, rows, workplace) for rows in frozen] for one in candidates]
