"""From a blocked candidate to candidates that might pass: one for each method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import CandidateError, InputError, without_quotes
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mitigating.methods.method import (
    MethodUndoneError,
    RowMethod,
    ScoreMethod,
    Tuning,
)
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.sets import SetFolder, rows_of
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.source import MitigatedSource
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.store import Workplace

_ROWS_A_STEP = 5_000


@dataclass(frozen=True)
class Proposal:
    """A mitigated candidate."""

    method: str
    """Name of the method."""
    candidate: CandidateSettings | None
    """None if the method could do nothing."""
    sentences: tuple[str, ...] = ()
    """What the method does, or why it does nothing."""


def chosen_candidate(
    candidates: Sequence[CandidateSettings], name: str | None
) -> CandidateSettings:
    """Return the candidate to mitigate: the named one, or the only one that is trained here."""
    trained = {
        candidate.name: candidate for candidate in candidates if candidate.training() is not None
    }
    if name is not None and name not in trained:
        known = ", ".join(trained) or "none"
        msg = (
            f"`--candidate` must be a candidate with `train_on`; got {name} (known: {known})."
            f"{did_you_mean(name, trained)}"
        )
        raise InputError(msg)
    if name is None and len(trained) != 1:
        msg = (
            "the evaluation file must have one candidate with `train_on`, or name one with "
            f"`--candidate`; it has {', '.join(trained) or 'none'}."
        )
        raise InputError(msg)
    return trained[name] if name is not None else next(iter(trained.values()))


def mitigated(
    candidate: CandidateSettings, mitigation: Mitigation, method: RowMethod
) -> CandidateSettings:
    """Return the candidate with a training set that a method changes."""
    base = training_source(candidate)
    source = MitigatedSource(
        name=f"{base.name} {method.called}",
        source="mitigated",
        label_threshold=base.label_threshold,
        identity_threshold=base.identity_threshold,
        base=base,
        method=method,
        pool=mitigation.pool if method.needs_pool else None,
        only=mitigation.only,
        edges=mitigation.edges,
        seed=mitigation.seed,
    )
    name = f"{candidate.name} {method.called}"
    return candidate.model_copy(update={"train_on": source, "name": name})


@task(name="propose candidates", task_run_name="propose for {candidate.name}")
def propose_candidates(
    candidate: CandidateSettings,
    trained: CandidateSettings | None,
    mitigation: Mitigation,
    training_rows: str,
    tune_on: SetFolder | None,
    workplace: Workplace,
) -> list[Proposal]:
    """Return a candidate for each method that can do something. Safe to retry."""
    rows = rows_of(SetFolder(training_source(candidate), training_rows), mitigation)
    proposals = []
    for method in mitigation.chosen():
        if isinstance(method, RowMethod):
            proposals.append(_of_rows(candidate, mitigation, method, rows))
        elif isinstance(method, ScoreMethod):
            proposals.append(_of_scores(candidate, trained, method, tune_on, workplace))
    for proposal in proposals:
        if proposal.candidate is None:
            say(f"{proposal.method}: {' '.join(proposal.sentences)}")
    return proposals


def _of_rows(
    candidate: CandidateSettings, mitigation: Mitigation, method: RowMethod, rows: TrainingRows
) -> Proposal:
    try:
        method.require(rows)
    except MethodUndoneError as error:
        return Proposal(method.called, None, (str(error),))
    return Proposal(method.called, mitigated(candidate, mitigation, method))


def _of_scores(
    candidate: CandidateSettings,
    trained: CandidateSettings | None,
    method: ScoreMethod,
    tune_on: SetFolder | None,
    workplace: Workplace,
) -> Proposal:
    if tune_on is None or trained is None:
        said = "left out, because it needs rows to tune on. Name some by `tune_on`."
        return Proposal(method.called, None, (said,))
    if method.kind != "threshold" and "calibration" not in type(candidate).model_fields:
        said = f"left out, because kind {candidate.kind} has no option for it."
        return Proposal(method.called, None, (said,))
    rows = TrainingRows.of(tune_on.source, rows_of(tune_on, Mitigation()).table, (1,))
    with trained.opened(workplace) as scorer:
        scorer.check(tune_on.load())
        scores = scores_of(scorer, rows.table)
    try:
        found = method.adjust(Tuning(rows.labels, scores, rows.masks, (rows.labels, scores)))
    except MethodUndoneError as error:
        return Proposal(method.called, None, (str(error),))
    name = f"{candidate.name} {method.called}"
    if found.threshold is not None and (found.slope, found.shift) == (1.0, 0.0):
        update: dict[str, Any] = {"name": name, "threshold": found.threshold}
        return Proposal(method.called, trained.model_copy(update=update), found.sentences)
    calibration = (found.slope, found.shift)
    if not np.isfinite(calibration).all() or found.slope <= 0:
        return Proposal(method.called, None, ("it found no slope above 0.",))
    update = {"name": name, "calibration": calibration, "threshold": found.threshold}
    return Proposal(method.called, candidate.model_copy(update=update), found.sentences)


def mitigation_of(section: Mitigation | None) -> Mitigation:
    """Return the section `mitigation` of a file, or its defaults."""
    return section or Mitigation()


def scores_of(scorer: Scorer, table: pa.Table) -> npt.NDArray[np.floating]:
    """Score all rows of a table."""
    parts = [
        without_quotes(partial(scorer.score, batch), "scoring", CandidateError)
        for batch in table.select(list(scorer.columns)).to_batches(_ROWS_A_STEP)
        if batch.num_rows
    ]
    if not all(isinstance(part, np.ndarray) for part in parts):
        msg = "candidates that are mitigated must score every comment; one refused some."
        raise InputError(msg)
    return np.concatenate([np.empty(0), *parts])


def training_source(candidate: CandidateSettings) -> SourceSettings:
    """Return the training set of a candidate that is trained here."""
    source = candidate.training()
    if source is None:
        msg = f"candidate {candidate.name} must be trained here, with `train_on`."
        raise InputError(msg)
    return source


def trained_here(candidates: Sequence[CandidateSettings], name: str | None) -> list[SourceSettings]:
    """Return the training sets of the named candidate, or of all that are trained here."""
    if name is not None:
        return [training_source(chosen_candidate(candidates, name))]
    found = [one for candidate in candidates if (one := candidate.training())]
    if not found:
        msg = "the evaluation file must have a candidate with `train_on`; it has none."
        raise InputError(msg)
    return found
