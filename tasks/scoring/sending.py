"""Consent before comments are sent to a service that has a price or limits."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.common.progress import format_duration, pause_display
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.outcomes import Load
from biasgate.tasks.scoring.scored import locate_shards
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.store import Workplace


@dataclass(frozen=True)
class Sending:
    """The comments that a candidate will send."""

    candidate: str
    """Name of the candidate."""
    n_texts: int
    """Comments of all sets that still lack a score."""
    load: Load
    """Estimate for all these comments."""

    def describe(self) -> str:
        """Return a sentence with the service, the shortest time and the price."""
        load = self.load
        text = (
            f"{self.candidate} sends {self.n_texts:,} comments to {load.host} in "
            f"{load.n_requests:,} requests (about {load.n_tokens:,} tokens)"
        )
        if load.seconds:
            text += f"; within its limits this takes at least {format_duration(load.seconds)}"
        if load.usd is None:
            return f"{text}; its price is unknown (`price`)."
        return (
            f"{text}; it costs about {load.usd:.2f} US dollars." if load.usd else f"{text}; free."
        )


@task(name="estimate sending")
def estimate_sending(
    candidates: Sequence[CandidateSettings], set_folders: Sequence[str], workplace: Workplace
) -> list[Sending]:
    """Estimate what candidates will send to services that have a price or limits. Only reads."""
    estimates = []
    for candidate in candidates:
        if candidate.is_local:
            continue
        with candidate.open_verified(workplace) as scorer:
            if not scorer.is_metered:
                continue
            sets = [EvaluationSet.load(Path(folder)) for folder in set_folders]
            load, n_texts = Load(host=scorer.estimate_load([]).host), 0
            for evaluation_set in sets:
                for texts in _iterate_unscored(candidate, scorer, evaluation_set, workplace):
                    load, n_texts = load + scorer.estimate_load(texts), n_texts + len(texts)
        if n_texts:
            estimates.append(Sending(candidate.name, n_texts, load))
    return estimates


def agree_to_send(estimates: Sequence[Sending], *, yes: bool) -> None:
    """Print what will be sent; request consent at a terminal, unless `yes` gives it."""
    for sending in estimates:
        log_message(sending.describe())
    if yes or not estimates:
        return
    how = "To agree in advance, add `--yes` (the parameter `yes` of a deployment)."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        msg = (
            f"sending comments to a service with a price or limits needs your consent: "
            f"{' '.join(sending.describe() for sending in estimates)} Asking needs a terminal. "
            f"{how}"
        )
        raise InputError(msg)
    with pause_display():
        sys.stderr.write("Send them? [y/N] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
    if answer.strip().lower() not in {"y", "yes"}:
        msg = f"no comments were sent, since you did not answer yes. {how}"
        raise InputError(msg)


def _iterate_unscored(
    candidate: CandidateSettings, scorer: Scorer, rows: EvaluationSet, workplace: Workplace
) -> Iterator[list[str]]:
    """Yield the texts of a shard at a time, for shards that are not kept."""
    shards = locate_shards(scorer, rows, workplace.scores)
    kept = ScoredSet.load(shards.folder.url)
    if kept is not None and kept.is_valid_for(scorer, rows):
        return
    size = candidate.rows_a_shard
    for number in range(-(-rows.n_rows // size)):
        table = rows.read_rows(["id", "text"], number * size, size)
        if not shards.has_rows(number, table["id"].combine_chunks()):
            yield table["text"].to_pylist()
