"""Train candidates, and score them on sets: here, or on workers of a cluster (stage `score`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect import flow, unmapped

from biasgate.flows.own_runs import own_run, steps_of
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
from biasgate.tasks.scoring.scored import check_candidate, score_candidate, score_part, share_out
from biasgate.tasks.scoring.sending import agree_to_send, estimate_sending
from biasgate.tasks.scoring.training import (
    check_training_set,
    pin_candidate,
    refuse_two_thresholds,
    train_candidate,
)
from biasgate.tasks.store import Workplace


@dataclass(frozen=True)
class Scored:
    """What came of scoring."""

    candidates: list[CandidateSettings]
    """Those that have scores on every set, each registered one pinned to its version."""
    watched: list[CandidateSettings]
    """The champion, if it is measured without being a candidate."""
    scores: list[list[str]]
    """For each of these and of `watched` the folders of its scores, one per set."""
    failed: list[CandidateDecision]
    """On each of the others: that it is not judged, and why."""
    rivals: list[RivalScores]
    """The scores of champion and reference, by set."""


@stage("score", spread=True)
def score_everyone(
    evaluation: Evaluation,
    frozen: list[str],
    workplace: Workplace,
    *,
    found: Collection[str],
    night: bool,
    yes: bool,
) -> Scored:
    """Train what is trained here, and score candidates, champion and reference on every set.

    - refuse files that do not fit the sets, before they are registered
    - train candidates, pin registered ones to a version
    - score everyone; the others are judged without a candidate that fails

    `found` names the candidates that are in the registry and not in the evaluation file.
    """
    for candidate in evaluation.candidates:
        if candidate.registered_model is not None:
            check_candidate(candidate, frozen, workplace)
    candidates = prepare_candidates(evaluation, workplace, frozen, found)
    rivals = look_up_rivals(evaluation, candidates, workplace)
    watched = find_watched_champion(rivals, candidates) if night else []
    scored, failed, of_rivals = score_candidates(
        candidates, rivals, frozen, workplace, found=found, watched=bool(watched), yes=yes
    )
    return Scored(
        [attempt.candidate for attempt in scored],
        watched,
        [*(attempt.scores for attempt in scored), *(of_rivals[CHAMPION] for _ in watched)],
        [attempt.decision() for attempt in failed],
        [{role: scores[at] for role, scores in of_rivals.items()} for at in range(len(frozen))],
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
    found: Collection[str],
    watched: bool,
    yes: bool,
) -> tuple[list[_Attempt], list[_Attempt], dict[str, list[str]]]:
    """Score candidates and their rivals.

    Return candidates with scores, those that failed, and the rivals' scores on each set, by role.

    A candidate that fails does not stop the others:

    - check all of them against all sets before anything is scored
    - say what is sent to paid or limited services, and ask unless `yes`
    - on a cluster: submit ranges of shards, for all candidates and sets
    - make the shards that are still missing in this process, one candidate after the other
      (kept scores are reused)

    Who may tag a version must not keep the others from being judged, so wrong input of a `found`
    candidate does not. `watched` says that a rival is measured without being a candidate.

    Raises
    ------
    InputError
        If the check finds wrong input of a candidate that the file names.
    Exception
        If a rival failed, or every candidate and nobody else is measured, or if something else
        did, such as the disk.
    """
    of_candidates = [_Attempt(candidate) for candidate in candidates]
    every = [*of_candidates, *(_Attempt(rival, role) for role, rival in rivals.items())]
    for one in every:
        with one.noting(CandidateError, *([InputError] if one.candidate.name in found else [])):
            check_candidate(one.candidate, frozen, workplace)
    able = [attempt for attempt in every if attempt.error is None]
    sending = estimate_sending([attempt.candidate for attempt in able], frozen, workplace)
    agree_to_send(sending, yes=yes)
    for one in able:
        one.parts = _submit(one.candidate, frozen, workplace)
    for one in able:
        with one.noting(CandidateError, InputError):
            for part in one.parts:
                part.result()
            one.scores = [score_candidate(one.candidate, rows, workplace) for rows in frozen]
    scored = [of_candidate for of_candidate in of_candidates if of_candidate.error is None]
    failed = [of_candidate for of_candidate in of_candidates if of_candidate.error is not None]
    if failed and not scored and not watched:
        raise failed[0].error  # type: ignore[misc] # it has one
    return (
        scored,
        failed,
        {attempt.role: attempt.scores for attempt in every if attempt.role is not None},
    )


@dataclass(eq=False)
class _Attempt:
    """What came of scoring one candidate so far; a rival has a role, as in `champion`."""

    candidate: CandidateSettings
    role: str | None = None
    parts: list[Any] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)
    error: Exception | None = None

    @contextmanager
    def noting(self, *kinds: type[Exception]) -> Iterator[None]:
        """Note an error of these kinds instead of raising it; without a rival nobody is judged."""
        try:
            yield
        except (CandidateError, InputError) as error:
            if self.role is not None:
                raise type(error)(self._without_rival(error)) from None
            if not isinstance(error, kinds):
                raise
            self.error = error

    def _without_rival(self, error: Exception) -> str:
        """Say which rival failed, and what to do about a champion that is no use any more."""
        uri = self.candidate.uri
        named = f"{self.role} {uri or self.candidate.name}"
        msg = f"no candidate can be judged: {named} could not be scored: {error}"
        if self.role == CHAMPION and uri is not None:
            msg += " To stop comparing with it, see `--reset` in `biasgate promote --help`."
        return msg

    def decision(self) -> CandidateDecision:
        """Say that it is not judged, and why."""
        log_message(f"{self.candidate.name} could not be scored; the others are judged without it")
        sentence = f"Not judged, since it could not be scored: {self.error}"
        return CandidateDecision(
            candidate=self.candidate.name, **vars(make_decision("error", sentence))
        )


def _submit(candidate: CandidateSettings, frozen: list[str], workplace: Workplace) -> list[Any]:
    score = score_part.with_options(tags=candidate.tags)
    submitted: list[Any] = []
    for rows in frozen:
        parts = share_out(candidate, rows, workplace)
        with request_resources(candidate.resources):
            submitted += score.map(parts, unmapped(candidate), unmapped(rows), unmapped(workplace))
    return submitted


def prepare_candidates(
    evaluation: Evaluation,
    workplace: Workplace,
    frozen: Sequence[str],
    found: Collection[str] = (),
) -> list[CandidateSettings]:
    """Return the candidates, each registered one pinned to its version.

    A candidate in `found`, which was found in the registry, is left out if the version is one that
    was trained here.

    - freeze all training sets, so that a wrong one is refused before any training, as is one that
      shares rows with an evaluation set, `frozen`
    - for each candidate with `train_on`: train, log and register it, or find the version that
      the same training made before
    - for each `models:/name@alias`: look up the version once, for all later steps
    - refuse one version at two thresholds
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
    named = {candidate.uri for candidate in prepared if candidate.name not in found}
    prepared = [one for one in prepared if one.name not in found or one.uri not in named]
    refuse_two_thresholds(prepared)
    return prepared


@flow(name="train", flow_run_name="train {config}", on_running=[own_run])
def train(config: str, store: str, *, sample: int | None = None) -> list[CandidateSettings]:
    """Train and register the candidates of an evaluation file that are trained here.

    The evaluation sets are frozen before, so that a training set that shares rows with one of them
    is refused.

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
    with redirect_temporary_files(), steps_of(config, store):
        evaluation = read_evaluation_file(config, sample=sample)
        workplace = Workplace(Path(store))
        compares = any(
            one.training() is not None and not one.allow_training_rows
            for one in evaluation.candidates
        )
        sets = evaluation.evaluation_sets if compares else []
        frozen = [freeze_evaluation_set(source, workplace) for source in sets]
        return prepare_candidates(evaluation, workplace, frozen)
