"""Mitigated candidates: a copy of the blocked candidate for each method, with changed training."""

from __future__ import annotations

from collections.abc import Sequence

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mitigating.methods.method import MethodUndoneError
from biasgate.tasks.mitigating.sets import SetFolder, load_rows
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.source import MitigatedSource
from biasgate.tasks.scoring.candidate import CandidateSettings


def choose_candidate(
    candidates: Sequence[CandidateSettings], name: str | None
) -> CandidateSettings:
    """Return the named candidate, or the only candidate that is trained here."""
    trained = {
        candidate.name: candidate for candidate in candidates if candidate.training() is not None
    }
    if name is not None and name not in trained:
        names = ", ".join(trained) or "none"
        msg = (
            f"`--candidate` must be a candidate with `train_on`; got {name} (known: {names})."
            f"{did_you_mean(name, trained)}"
        )
        raise InputError(msg)
    if name is None and len(trained) != 1:
        msg = (
            "the evaluation file must have a single candidate with `train_on`, unless "
            f"`--candidate` names it; it has {', '.join(trained) or 'none'}."
        )
        raise InputError(msg)
    return trained[name] if name is not None else next(iter(trained.values()))


def get_training_source(candidate: CandidateSettings) -> SourceSettings:
    """Return the training set of a candidate that is trained here."""
    source = candidate.training()
    if source is None:
        msg = f"candidate {candidate.name} must be trained here, with `train_on`."
        raise InputError(msg)
    return source


@task(name="propose candidates", task_run_name="propose for {candidate.name}")
def propose_candidates(
    candidate: CandidateSettings, mitigation: Mitigation, training_rows: str
) -> list[CandidateSettings]:
    """Return a candidate for each method that can change the rows. Safe to retry: only reads.

    Raises
    ------
    InputError
        If no method can change them.
    """
    base = get_training_source(candidate)
    rows = load_rows(SetFolder(base, training_rows), mitigation)
    mitigated, reasons = [], []
    for method in mitigation.list_methods():
        try:
            method.require(rows)
        except MethodUndoneError as error:
            reasons.append(f"{method.called}: {error}")
            log_message(reasons[-1])
            continue
        source = MitigatedSource(
            name=f"{base.name} {method.called}",
            source="mitigated",
            label_threshold=base.label_threshold,
            identity_threshold=base.identity_threshold,
            base=base,
            method=method,
            pool=mitigation.pool if method.needs_pool else None,
            only=mitigation.only,
            seed=mitigation.seed,
        )
        name = f"{candidate.name} {method.called}"
        mitigated.append(candidate.model_copy(update={"train_on": source, "name": name}))
    if not mitigated:
        msg = f"`methods` must include a method that can change {rows.name!r}. {' '.join(reasons)}"
        raise InputError(msg)
    return mitigated
