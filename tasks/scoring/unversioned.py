"""Refuse to pool the nights of what need not be the same model every night."""

from __future__ import annotations

from collections.abc import Sequence

from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.scoring.candidate import CandidateSettings


def refuse_unversioned(
    sets: Sequence[SourceSettings],
    candidates: Sequence[CandidateSettings],
    reference: CandidateSettings | None,
    registered_model: str | None,
) -> None:
    """Refuse candidates that are no versions of the registered model, if a set pools nights.

    Raises
    ------
    ValueError
        With the set, and what is no version.
    """
    pooled = next((one.name for one in sets if one.pool_nights is not None), None)
    if pooled is None:
        return
    if registered_model is None:
        msg = (
            f"set {pooled} has `pool_nights`, which needs `registered_model`: the rows of earlier "
            "nights are found by the version that they judged"
        )
        raise ValueError(msg)
    versions = f"models:/{registered_model}/", f"models:/{registered_model}@"
    for one in candidates:
        if one.training() is None and not (one.uri or "").startswith(versions):
            msg = (
                f"set {pooled} has `pool_nights`, so candidates must be versions of "
                f"{registered_model}; candidate {one.name} is none"
            )
            raise ValueError(msg)
    if reference is not None and not (reference.uri or "").startswith("models:/"):
        msg = (
            f"set {pooled} has `pool_nights`, so `reference` must be a registered version; "
            f"{reference.name} is none"
        )
        raise ValueError(msg)
