"""Refuse what is no version of the registered model where versions are counted or pooled."""

from __future__ import annotations

from collections.abc import Sequence

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.scoring.candidate import CandidateSettings


def refuse_unversioned(
    sets: Sequence[SourceSettings],
    candidates: Sequence[CandidateSettings],
    reference: CandidateSettings | None,
    registered_model: str | None,
) -> None:
    """Refuse candidates that are no versions of the registered model, if a set pools nights."""
    pooled = next((one.name for one in sets if one.pool_nights is not None), None)
    if pooled is None:
        return
    if registered_model is None:
        msg = (
            f"set {pooled} has `pool_nights`, which needs `registered_model`: the rows of earlier "
            "nights are found by the version that they judged"
        )
        raise ValueError(msg)
    for candidate in candidates:
        if candidate.training() is None and not _is_version(candidate, registered_model):
            msg = (
                f"set {pooled} has `pool_nights`, so candidates must be versions of "
                f"{registered_model}; candidate {candidate.name} is none"
            )
            raise ValueError(msg)
    if reference is not None and not (reference.uri or "").startswith("models:/"):
        msg = (
            f"set {pooled} has `pool_nights`, so `reference` must be a registered version; "
            f"{reference.name} is none"
        )
        raise ValueError(msg)


def refuse_uncounted(
    candidates: Sequence[CandidateSettings], registered_model: str | None, policy: str
) -> None:
    """Refuse candidates that are no versions, where the ledger counts the decisions of a year."""
    if registered_model is None:
        msg = (
            f"policy {policy!r} has `correction: online`, which needs `registered_model` in the "
            "evaluation file: the model's ledger counts the decisions of a year."
        )
        raise InputError(msg)
    for candidate in candidates:
        becomes_version = candidate.training() is not None or candidate.registered_model is not None
        if not becomes_version and not _is_version(candidate, registered_model):
            msg = (
                f"policy {policy!r} has `correction: online`, so candidates must be versions of "
                f"{registered_model}; candidate {candidate.name} is none. Register it (`register: "
                f"{registered_model}` for scores), or use another policy."
            )
            raise InputError(msg)


def _is_version(candidate: CandidateSettings, registered_model: str) -> bool:
    uri = candidate.uri or ""
    return uri.startswith((f"models:/{registered_model}/", f"models:/{registered_model}@"))
