"""Whether raters and terms find the same comments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, StringConstraints, field_validator

from bias_metrics import Agreement, LabelAgreement, label_agreement
from bias_metrics.parts import PackedMasks
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import IDENTITY, SLICE, EvaluationSet
from biasgate.tasks.data.identity_names import named_by_themselves
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import Matching, TermMatcher

Term = Annotated[str, StringConstraints(pattern=r"\S")]
_ROWS_A_STEP, _TOLD, _LANGUAGE = 100_000, 5, "language"


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
    min_recall: Annotated[float, Field(gt=0, le=1)] = 0.8
    """What share of the labelled mentions terms should find; below it, the report warns."""

    @field_validator(
        "terms", mode="before", json_schema_input_type=dict[str, list[Term]] | list[Term]
    )
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
        rated = np.asarray(np.logical_and.reduce([~np.isnan(one) for one in fractions]))
        threshold = rows.source.identity_threshold
        n = int(rated.sum())
        labelled = PackedMasks.of(
            (
                (name, one[rated] >= threshold)
                for name, one in zip(self.terms, fractions, strict=True)
            ),
            n,
        )
        every_term = [(name, term) for name, terms in self.terms.items() for term in terms]
        of_terms = self._mentions(rows, [term for _, term in every_term])[rated]
        owners = np.array([name for name, _ in every_term])
        mentions = {name: of_terms[:, owners == name].any(axis=1) for name in self.terms}
        found = label_agreement(labelled, PackedMasks.of(mentions.items(), n))
        by_term = {
            f"{name}: {term}": _one(labelled[name], of_terms[:, at])
            for at, (name, term) in enumerate(every_term)
        }
        by_language = {
            language: {
                name: _one(labelled[name][inside], mentions[name][inside]) for name in labelled
            }
            for language, inside in _languages(rows, rated).items()
        }
        few = _missed(found.identities, self.min_recall, "")
        for language, of_language in by_language.items():
            few += _missed(of_language, self.min_recall, f" in {language}")
        result = found.to_dict() | {
            "terms": {name: one.to_dict() for name, one in by_term.items()},
            "languages": {
                language: {name: one.to_dict() for name, one in of_language.items()}
                for language, of_language in by_language.items()
            },
        }
        parts: dict[tuple[str, str | None, str | None], Agreement] = {
            (name, None, None): one for name, one in found.identities.items()
        }
        parts |= {(name, term, None): by_term[f"{name}: {term}"] for name, term in every_term}
        parts |= {
            (name, None, language): one
            for language, of_language in by_language.items()
            for name, one in of_language.items()
        }
        table = [
            {"identity": name, "term": term, "language": language} | row
            for (name, term, language), one in parts.items()
            for row in one.rows()
        ]
        return Findings(result, (_sentence(found),), table, _warnings(few, self.min_recall))

    def _mentions(self, rows: MeasuredRows, terms: list[str]) -> np.ndarray:
        """Return which measured rows each term matches, in the order of `terms`."""
        matcher = TermMatcher({str(at): [term] for at, term in enumerate(terms)}, self.matching)
        batches = rows.frozen.batches(["text"], _ROWS_A_STEP)
        parts = [matcher.mentions(batch.column(0).to_pylist()) for batch in batches]
        return np.asarray(np.concatenate(parts)[rows.measured])


def _one(labelled: np.ndarray, matched: np.ndarray) -> Agreement:
    return label_agreement({"": labelled}, {"": matched}).identities[""]


def _languages(rows: MeasuredRows, rated: np.ndarray) -> dict[str, np.ndarray]:
    """Return the rated rows of each language, if the set has `slices_in: [language]`."""
    begin = f"{SLICE}{_LANGUAGE}."
    return {
        column.removeprefix(begin): rows.column(column)[rated].astype(np.bool_)
        for column in rows.frozen.columns
        if column.startswith(begin)
    }


def _missed(identities: Mapping[str, Agreement], least: float, where: str) -> list[str]:
    """Name the identities whose recall is below a level, worst first."""
    recalls = {name: one.recall for name, one in identities.items() if one.recall.value is not None}
    low = [name for name in recalls if float(recalls[name]) < least]
    return [
        f"{name}{where} ({float(recalls[name]):.1%}, 95 % interval {recalls[name].low:.1%} to "
        f"{recalls[name].high:.1%})"
        for name in sorted(low, key=lambda name: float(recalls[name]))
    ]


def _warnings(few: list[str], least: float) -> tuple[str, ...]:
    if not few:
        return ()
    more = f" and {len(few) - _TOLD:,} more" if len(few) > _TOLD else ""
    told = (
        f"terms find less than {least:.0%} of the comments that raters say mention "
        f"{', '.join(few[:_TOLD])}{more}: what is measured with these terms is about the others "
        "alone."
    )
    return (told,)


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
