"""What is refused before Prefect starts: wrong sets, candidates and results."""

from __future__ import annotations

from pathlib import Path

from biasgate.tasks.common.errors import SourceError
from biasgate.tasks.data.freezing import freeze
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.mitigating.blocked import Blocked, limited_to, refuse_other_evaluation
from biasgate.tasks.mitigating.proposing import (
    chosen_candidate,
    mitigation_of,
    trained_here,
    training_source,
)
from biasgate.tasks.mitigating.sets import SetFolder, refuse_unfit, rows_of, sets_of
from biasgate.tasks.scoring.candidate import CandidateSettings


def check_diagnosis(evaluation: Evaluation, candidate: str | None, store: Path) -> None:
    """Refuse training sets that cannot be diagnosed. The sets are frozen, for the flow.

    A source that fails is left to the flow, which tries it again.

    `candidate`: the candidate whose training set is diagnosed. `store`: where sets are frozen.
    """
    mitigation = mitigation_of(evaluation.mitigation)
    for source in trained_here(evaluation.candidates, candidate):
        try:
            folder = _frozen(source, store)
        except SourceError:
            continue
        rows_of(SetFolder(source, folder), mitigation).require_classes()


def check_mitigation(
    evaluation: Evaluation, candidate: str | None, store: Path, blocked: Blocked | None = None
) -> None:
    """Refuse what an experiment or a mitigation cannot work with. The sets are frozen.

    `evaluation`, `candidate`, `store`: as in `check_diagnosis`.
    """
    chosen = candidate_of(evaluation, candidate, blocked)
    mitigation = mitigation_of(evaluation.mitigation)
    source = training_source(chosen)
    try:
        sets = sets_of(
            source, evaluation.evaluation_sets, mitigation, lambda one: _frozen(one, store)
        )
    except SourceError:
        return
    refuse_unfit(sets, limited_to(blocked, mitigation, sets))


def candidate_of(
    evaluation: Evaluation, candidate: str | None, blocked: Blocked | None = None
) -> CandidateSettings:
    """Return the candidate to train again: the named one, that of `blocked`, or the only one."""
    if blocked is not None:
        trained = [
            candidate.name
            for candidate in evaluation.candidates
            if candidate.training() is not None
        ]
        known = trained if candidate is None else [*trained, blocked.candidate]
        refuse_other_evaluation(
            blocked, known, [evaluation_set.name for evaluation_set in evaluation.evaluation_sets]
        )
    named = candidate or (None if blocked is None else blocked.candidate)
    chosen = chosen_candidate(evaluation.candidates, named)
    chosen.check_training()
    return chosen


def _frozen(source: SourceSettings, store: Path) -> str:
    return str(freeze(source, store).folder)
