"""Train and score candidates in this process or on workers of a cluster (stage `score`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect import flow, unmapped

from biasgate.flows.own_runs import apply_file_settings, record_own_run
from biasgate.flows.stages import stage
from biasgate.tasks.common.errors import CandidateError, InputError
from biasgate.tasks.common.own_folders import redirect_temporary_files
from biasgate.tasks.common.prefect_task import log_message, request_resources
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.ledger.ledger import CHAMPION
from biasgate.tasks.promoting.champion import make_decision
from biasgate.tasks.promoting.rivals import Rivals, RivalScores, find_watched_champion, pin_rivals
from biasgate.tasks.reading_evaluation import read_evaluation_file
from biasgate.tasks.records import CandidateDecision
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored import (
    check_candidate,
    divide_shards,
    score_candidate,
    score_part,
)
from biasgate.tasks.scoring.sending import agree_to_send, estimate_sending
from biasgate.tasks.scoring.training import (
    check_training_set,
    pin_candidate,
    refuse_two_thresholds,
    train_candidate,
)
from biasgate.tasks.store import Workplace


@dataclass(frozen=True)
class ScoringResult:
    """Scores of candidates and rivals, and the candidates that failed."""

    candidates: list[CandidateSettings]
    """Candidates with scores on every set; registered candidates are pinned to a version."""
    watched: list[CandidateSettings]
    """The champion, if it is measured but is not a candidate."""
    scores: list[list[str]]
    """Folders of scores per set, for each of `candidates` and then of `watched`."""
    failed: list[CandidateDecision]
    """Decisions not to judge the other candidates, with reasons."""
    rivals: list[RivalScores]
    """Scores of champion and reference, by set."""


@stage("score", spread=True)
def score_all_models(
    evaluation: Evaluation,
    frozen: list[str],
    workplace: Workplace,
    *,
    unlisted: Collection[str],
    night: bool,
    yes: bool,
) -> ScoringResult:
    """Train candidates, and score candidates, champion and reference on every set.

    - refuse files that do not fit the sets, before they are registered
    - train candidates; pin registered candidates to a version
    - score candidates and rivals; a candidate that fails does not stop the others

    `unlisted` has the names of candidates in the registry that the evaluation file does not list.
    """
    for candidate in evaluation.candidates:
        if candidate.registered_model is not None:
            check_candidate(candidate, frozen, workplace)
    candidates = prepare_candidates(evaluation, workplace, frozen, unlisted)
    rivals = look_up_rivals(evaluation, candidates, workplace)
    watched = find_watched_champion(rivals, candidates) if night else []
    scored, failed, rival_scores = score_candidates(
        candidates, rivals, frozen, workplace, unlisted=unlisted, watched=bool(watched), yes=yes
    )
    return ScoringResult(
        [attempt.candidate for attempt in scored],
        watched,
        [*(attempt.scores for attempt in scored), *(rival_scores[CHAMPION] for _ in watched)],
        [attempt.report_failure() for attempt in failed],
        [{role: scores[i] for role, scores in rival_scores.items()} for i in range(len(frozen))],
    )


def look_up_rivals(
    evaluation: Evaluation, candidates: list[CandidateSettings], workplace: Workplace
) -> Rivals:
    """Return the current rivals of the candidates."""
    return pin_rivals(
        evaluation.champion,
        evaluation.reference,
        evaluation.registered_model,
        evaluation.policy,
        candidates,
        workplace,
    )


def score_rivals(rivals: Rivals, rows: str, workplace: Workplace) -> RivalScores:
    """Return the kept scores of champion and reference on a set."""
    return {role: score_candidate(rival, rows, workplace) for role, rival in rivals.items()}


def score_candidates(
    candidates: Sequence[CandidateSettings],
    rivals: Rivals,
    frozen: list[str],
    workplace: Workplace,
    *,
    unlisted: Collection[str],
    watched: bool,
    yes: bool,
) -> tuple[list[_Attempt], list[_Attempt], dict[str, list[str]]]:
    """Score candidates and their rivals.

    A candidate that fails does not stop the others:

    - check all candidates and rivals against all sets before scoring
    - report what is sent to paid or limited services, and ask for consent unless `yes`
    - on a cluster, submit ranges of shards for all candidates and sets
    - score the remaining shards in this process, a candidate at a time; kept scores are reused

    Anyone who can tag a version can make it an `unlisted` candidate. Its wrong input must not keep
    the others from being judged. `watched` is True if a rival is measured but is not a candidate.

    Returns
    -------
    tuple
        Candidates with scores, candidates that failed, and the scores of rivals on each set, by
        role.

    Raises
    ------
    InputError
        If the check finds wrong input of a candidate that the file lists.
    Exception
        If a rival fails, if every candidate fails and no rival is measured, or if another error
        occurs, such as a full disk.
    """
    candidate_attempts = [_Attempt(candidate) for candidate in candidates]
    attempts = [*candidate_attempts, *(_Attempt(rival, role) for role, rival in rivals.items())]
    for attempt in attempts:
        kinds = [InputError] if attempt.candidate.name in unlisted else []
        with attempt.record_errors(CandidateError, *kinds):
            check_candidate(attempt.candidate, frozen, workplace)
    able = [attempt for attempt in attempts if attempt.error is None]
    sending = estimate_sending([attempt.candidate for attempt in able], frozen, workplace)
    agree_to_send(sending, yes=yes)
    for attempt in able:
        candidate = attempt.candidate
        score = score_part.with_options(tags=candidate.tags)
        for rows in frozen:
            parts = divide_shards(candidate, rows, workplace)
            with request_resources(candidate.resources):
                attempt.parts += score.map(
                    parts, unmapped(candidate), unmapped(rows), unmapped(workplace)
                )
    for attempt in able:
        with attempt.record_errors(CandidateError, InputError):
            for part in attempt.parts:
                part.result()
            attempt.scores = [
                score_candidate(attempt.candidate, rows, workplace) for rows in frozen
            ]
    scored = [attempt for attempt in candidate_attempts if attempt.error is None]
    failed = [attempt for attempt in candidate_attempts if attempt.error is not None]
    if failed and not scored and not watched:
        raise failed[0].error  # type: ignore[misc] # not None
    rival_scores = {attempt.role: attempt.scores for attempt in attempts if attempt.role}
    return scored, failed, rival_scores


@dataclass(eq=False)
class _Attempt:
    """Progress of scoring a candidate, or a rival, which has a role such as `champion`."""

    candidate: CandidateSettings
    role: str | None = None
    parts: list[Any] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)
    error: Exception | None = None

    @contextmanager
    def record_errors(self, *kinds: type[Exception]) -> Iterator[None]:
        """Record an error of these kinds instead of raising it; raise every error of a rival."""
        try:
            yield
        except (CandidateError, InputError) as error:
            if self.role is not None:
                subject = f"{self.role} {self.candidate.uri or self.candidate.name}"
                msg = f"no candidate can be judged: {subject} could not be scored: {error}"
                if self.role == CHAMPION and self.candidate.uri is not None:
                    msg += " To stop comparing with it, see `--reset` in `biasgate promote --help`."
                raise type(error)(msg) from None
            if not isinstance(error, kinds):
                raise
            self.error = error

    def report_failure(self) -> CandidateDecision:
        """Report that the candidate is not judged, and return the decision."""
        log_message(f"{self.candidate.name} could not be scored; the others are judged without it")
        sentence = f"Not judged, since it could not be scored: {self.error}"
        return CandidateDecision(
            candidate=self.candidate.name, **vars(make_decision("error", sentence))
        )


def prepare_candidates(
    evaluation: Evaluation,
    workplace: Workplace,
    frozen: Sequence[str],
    unlisted: Collection[str] = (),
) -> list[CandidateSettings]:
    """Train candidates, and pin registered candidates to a version.

    - freeze all training sets; refuse wrong sets, and sets that share rows with an evaluation set
      in `frozen`, before any training
    - for each candidate with `train_on`: train, log and register it, or find the version of an
      earlier identical training
    - for each `models:/name@alias`: look up the version once, for all later steps
    - leave out an `unlisted` candidate if its version is also that of a listed candidate
    - refuse a version with two thresholds
    """
    training_sets = {
        candidate.name: freeze_evaluation_set(source, workplace)
        for candidate in evaluation.candidates
        if (source := candidate.training()) is not None
    }
    model = str(evaluation.registered_model)
    for candidate in evaluation.candidates:
        if (rows := training_sets.get(candidate.name)) is not None:
            check_training_set(candidate, rows, frozen, workplace, model)
    prepared = [
        train_candidate(candidate, training_sets[candidate.name], workplace, evaluation.name, model)
        if candidate.name in training_sets
        else pin_candidate(candidate, workplace)
        for candidate in evaluation.candidates
    ]
    listed_uris = {candidate.uri for candidate in prepared if candidate.name not in unlisted}
    prepared = [
        candidate
        for candidate in prepared
        if candidate.name not in unlisted or candidate.uri not in listed_uris
    ]
    refuse_two_thresholds(prepared)
    return prepared


@flow(name="train", flow_run_name="train {config}", on_running=[record_own_run])
def train(config: str, store: str, *, sample: int | None = None) -> list[CandidateSettings]:
    """Train and register the candidates of an evaluation file with `train_on`.

    The evaluation sets are frozen first, to refuse training sets that share rows with them.

    Parameters
    ----------
    store : str
        Folder of frozen sets and, by default, the MLflow store.
    sample : int, optional
        As in `evaluate`.

    Returns
    -------
    list of CandidateSettings
        The candidates; trained ones with `model`, as in `models:/toxicity/3`.
    """
    with redirect_temporary_files(), apply_file_settings(config, store):
        evaluation = read_evaluation_file(config, sample=sample)
        workplace = Workplace(Path(store))
        needs_sets = any(
            candidate.training() is not None and not candidate.allow_training_rows
            for candidate in evaluation.candidates
        )
        sets = evaluation.evaluation_sets if needs_sets else []
        frozen = [freeze_evaluation_set(source, workplace) for source in sets]
        return prepare_candidates(evaluation, workplace, frozen)
