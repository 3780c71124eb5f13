"""Score candidates on sets: in this process, or on the workers of a cluster (step 2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from prefect import unmapped

from biasgate.tasks.common.errors import CandidateError, InputError
from biasgate.tasks.common.prefect_task import asking_for, say
from biasgate.tasks.ledger.ledger import CHAMPION
from biasgate.tasks.promoting.champion import decision
from biasgate.tasks.promoting.rivals import Rivals
from biasgate.tasks.records import CandidateDecision
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.parts import score_part, share_out
from biasgate.tasks.scoring.scored import check_candidate, score_candidate
from biasgate.tasks.scoring.sending import agree_to_send, estimate_sending
from biasgate.tasks.store import Workplace


@dataclass(frozen=True)
class Scored:
    """What came of scoring."""

    candidates: list[CandidateSettings]
    """Those that have scores on every set."""
    scores: list[list[str]]
    """For each of them the folders of its scores, one per set."""
    failed: list[CandidateDecision]
    """On each of the others: that it is not judged, and why."""


def score_candidates(
    candidates: Sequence[CandidateSettings],
    rivals: Rivals,
    frozen: list[str],
    workplace: Workplace,
    *,
    found: Collection[str],
    watched: bool,
    yes: bool,
) -> Scored:
    """Score candidates and their rivals; a candidate that fails does not stop the others.

    - check all of them against all sets before anything is scored
    - say what is sent to paid or limited services, and ask unless `yes`
    - on a cluster: submit ranges of shards, for all candidates and sets
    - make the shards that are still missing in this process, one candidate after the other
      (kept scores are reused)

    `found` names the candidates that are in the registry and not in the evaluation file. Whoever
    may tag a version must not keep the others from being judged. `watched` says that a rival is
    measured without being a candidate.

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
    able = [one for one in every if one.error is None]
    sending = estimate_sending([one.candidate for one in able], frozen, workplace)
    agree_to_send(sending, yes=yes)
    for one in able:
        one.parts = _submit(one.candidate, frozen, workplace)
    for one in able:
        with one.noting(CandidateError, InputError):
            for part in one.parts:
                part.result()
            one.scores = [score_candidate(one.candidate, rows, workplace) for rows in frozen]
    scored = [one for one in of_candidates if one.error is None]
    failed = [one for one in of_candidates if one.error is not None]
    if failed and not scored and not watched:
        raise failed[0].error  # type: ignore[misc] # it has one
    return Scored(
        [one.candidate for one in scored],
        [one.scores for one in scored],
        [one.decision() for one in failed],
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
        msg = f"nobody can be judged without {named}, which could not be scored: {error}"
        if self.role == CHAMPION and uri is not None:
            msg += " If nobody should be compared with it any more, see `biasgate reset --help`."
        return msg

    def decision(self) -> CandidateDecision:
        """Say that it is not judged, and why."""
        say(f"{self.candidate.name} could not be scored; the others are judged without it")
        sentence = f"Not judged, since it could not be scored: {self.error}"
        return CandidateDecision(candidate=self.candidate.name, **vars(decision("error", sentence)))


def _submit(candidate: CandidateSettings, frozen: list[str], workplace: Workplace) -> list[Any]:
    score = score_part.with_options(tags=candidate.tags)
    submitted: list[Any] = []
    for rows in frozen:
        parts = share_out(candidate, rows, workplace)
        with asking_for(candidate.resources):
            submitted += score.map(parts, unmapped(candidate), unmapped(rows), unmapped(workplace))
    return submitted
