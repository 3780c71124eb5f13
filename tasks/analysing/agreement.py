"""Whether raters and terms find the same comments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, StringConstraints, field_validator

from bias_metrics import LabelAgreement, label_agreement
from bias_metrics.parts import PackedMasks
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import IDENTITY, EvaluationSet
from biasgate.tasks.data.identity_names import named_by_themselves
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import Matching, TermMatcher

Term = Annotated[str, StringConstraints(pattern=r"\S")]
_ROWS_A_STEP = 100_000


class AgreementAnalysis(Analysis):
    """How well terms find the comments that raters say mention an identity.

    The result is the same for every candidate.
    """

    kind: Literal["agreement"]
    terms: Annotated[dict[str, Annotated[list[Term], Field(min_length=1)]], Field(min_length=1)]
    """Identities of the set, with the terms that stand for each, as in `{muslim: [muslim,
    muslims]}`."""
    matching: Matching = "longest"
    """As in `source: table`."""

    @field_validator("terms", mode="before")
    @classmethod
    def _name_terms(cls, value: Any) -> Any:
        return named_by_themselves(value)

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set without text, or without raters' labels of these identities."""
        if not frozen.has_text:
            self.refuse(frozen, "text", "it has none")
        matcher = source.matcher()
        found = [] if matcher is None or source.prediction_powered else matcher.identities
        rated = [name for name in frozen.identities if name not in found]
        unknown = [name for name in self.terms if name not in rated]
        if unknown:
            msg = (
                f"analysis agreement: `terms` must name identities that raters labelled in "
                f"evaluation set {frozen.name!r}; got {unknown[0]!r} (known: "
                f"{', '.join(rated) or 'none'}).{did_you_mean(unknown[0], rated)} Change `terms`, "
                "or name suitable sets with `sets`."
            )
            raise InputError(msg)

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Compare raters and terms on the measured comments rated for all of these identities."""
        fractions = [rows.column(IDENTITY + name) for name in self.terms]
        rated = np.logical_and.reduce([~np.isnan(one) for one in fractions])
        threshold = rows.source.identity_threshold
        n = int(rated.sum())
        labelled = PackedMasks.of(
            (
                (name, one[rated] >= threshold)
                for name, one in zip(self.terms, fractions, strict=True)
            ),
            n,
        )
        mentions = self._mentions(rows)[rated]
        matched = PackedMasks.of(zip(self.terms, mentions.T, strict=True), n)
        found = label_agreement(labelled, matched)
        return Findings(found.to_dict(), (_sentence(found),), found.rows())

    def _mentions(self, rows: MeasuredRows) -> np.ndarray:
        matcher = TermMatcher(self.terms, self.matching)
        batches = rows.frozen.batches(["text"], _ROWS_A_STEP)
        parts = [matcher.mentions(batch.column(0).to_pylist()) for batch in batches]
        return np.asarray(np.concatenate(parts)[rows.measured])


def _sentence(found: LabelAgreement) -> str:
    kappas = {
        name: one.kappa.value
        for name, one in found.identities.items()
        if one.kappa.value is not None
    }
    if not kappas:
        return f"Raters and terms cannot be compared on the {found.n:,} comments that were rated."
    name = min(kappas, key=lambda one: kappas[one])
    worst = found.identities[name]
    shares = [
        "undefined" if one.value is None else f"{one.value:.1%}"
        for one in (worst.recall, worst.precision)
    ]
    return (
        f"On {found.n:,} rated comments, raters and terms agree least on {name} (kappa "
        f"{kappas[name]:.3f}): terms find {shares[0]} of the comments that raters say mention it, "
        f"and raters confirm {shares[1]} of the comments that terms find."
    )
