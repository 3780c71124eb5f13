"""What depends on labels: who was asked, what counts as toxic, and who finds an identity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, JsonValue, StringConstraints, field_validator, model_validator

from bias_metrics import (
    Agreement,
    BiasReport,
    LabelAgreement,
    LabelNoise,
    LabelSensitivity,
    RatedValue,
    label_agreement,
    label_noise,
    label_sensitivity,
    worst_subgroup,
)
from bias_metrics.metrics import AUCS, SUBGROUP_METRICS
from bias_metrics.parts import PackedMasks
from bias_metrics.raters import FINAL, OVERALL, Key
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import IDENTITY, RATERS, SLICE, WEIGHT, EvaluationSet
from biasgate.tasks.data.identity_names import named_by_themselves
from biasgate.tasks.data.source import SourceSettings, Threshold
from biasgate.tasks.data.terms import Matching, TermMatcher
from biasgate.tasks.records.numbers import CONFIDENCE


class LabelNoiseAnalysis(Analysis):
    """The metrics if other raters had been asked, and the part of each interval due to raters."""

    kind: Literal["label_noise"]
    draws: Annotated[int, Field(ge=2, le=1000)] = 20
    """Draws of the labels for the `consensus` reading, at least 2."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the draws: the same seed gives the same numbers."""

    def objection(self, source: SourceSettings) -> str | None:
        """Return which option is missing or too many."""
        if source.is_weighted:
            return "no weights; it has `weight`"
        if not getattr(source, "raters", True):  # a source of a plugin may have no such option
            return "the number of raters of each comment; name it with `raters`"
        if source.label_threshold >= 1:
            return f"a `label_threshold` below 1; it is {source.label_threshold:g}"
        return super().objection(source)

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set without numbers of raters, or whose report is not of its plain labels."""
        if RATERS not in frozen.columns:
            self.refuse(frozen, "the number of raters of each comment", "name it with `raters`")
        if WEIGHT in frozen.columns:
            self.refuse(frozen, "no weights", "its rows have some")
        if source.label_threshold >= 1:
            self.refuse(frozen, "a `label_threshold` below 1", f"it is {source.label_threshold:g}")

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Measure the comments under three readings of their votes."""
        found = label_noise(
            rows.column("label"),
            rows.column(RATERS),
            rows.y_score,
            rows.masks,
            rng=np.random.default_rng(self.seed),
            threshold=rows.source.label_threshold,
            n_draws=self.draws,
            power_mean_groups=rows.groups,
            confidence=CONFIDENCE,
            clusters=rows.clusters,
            background=rows.background,
        )
        return Findings(found.to_dict(), tuple(sentences_of(found)), found.rows())


def sentences_of(found: LabelNoise) -> list[str]:
    """Say what comes from raters, what other readings give, and whether the model fits."""
    raters, agreement = found.raters, found.agreement.value
    few, many = raters["least"], raters["most"]
    told = f"Comments have {few:g} raters" if few == many else f"Comments have {few:g} to {many:g}"
    told += "" if few == many else f" raters (median {raters['median']:g})"
    if agreement is not None:
        told += f"; two raters of a comment agree in {agreement:.0%} of cases"
    read = (
        f"By the label of one rater chosen at random: {_both(found.expected.numbers)}. By the "
        f"majority of all raters, as far as a model can tell: {_both(found.consensus.numbers)}."
    )
    fits, fit = _fit(found)
    return [f"{told}.", _of_raters(found, fits=fits), read, *fit]


def _of_raters(found: LabelNoise, *, fits: bool) -> str:
    """Say how much of each interval comes from raters, if the model of their votes fits."""
    numbers = found.panel.numbers
    if not fits:
        return (
            "How much of each interval comes from raters is not said: the model of their votes "
            "does not fit these labels (see below)."
        )
    if numbers[OVERALL].rater_share.value is None:
        reason = numbers[OVERALL].rater_share.reason
        return f"How much of each interval comes from raters is unknown: {reason}."
    told = f"Of the variance behind each interval, raters cause {_share(numbers[OVERALL])} for the "
    told += "overall AUC"
    if numbers[FINAL].rater_share.value is not None:
        told += f" and {_share(numbers[FINAL])} for the final score"
    known = {
        key: share
        for key, one in numbers.items()
        if key[0] is not None and (share := one.rater_share.value) is not None
    }
    if known:
        worst = max(known, key=lambda key: known[key])
        told += f"; the most for {worst[1]} of {worst[0]}: {known[worst]:.0%}"
        less = 1 - math.sqrt(1 - known[worst])
        told += f". Without it, that interval would be {less:.0%} shorter"
    return f"{told}."


def _fit(found: LabelNoise) -> tuple[bool, list[str]]:
    """Compare panels drawn from the model with the real ones, by overall AUC and final score.

    Return whether they agree, and the numbers in words.
    """
    told, fits = [], True
    for key, name in ((OVERALL, "an overall AUC"), (FINAL, "a final score")):
        drawn, real = found.redrawn[key[1]].value, found.panel[key].value
        if drawn is None or real.value is None or real.std_error is None:
            continue
        told.append(f"{name} of {drawn:.3f}, the real ones {real.value:.3f}")
        fits = fits and abs(drawn - real.value) <= real.std_error
    if not told:
        return True, []
    text = f"New panels drawn from that model have {'; and '.join(told)}"
    end = "." if fits else ": it does not fit well, so do not rely on its numbers."
    return fits, [f"{text}{end}"]


def _both(numbers: dict[Key, RatedValue]) -> str:
    return f"overall AUC {numbers[OVERALL].value}, final score {numbers[FINAL].value}"


def _share(one: RatedValue) -> str:
    return format(one.rater_share, ".0%")


Share = Annotated[float, Field(gt=0, lt=1)]


class LabelSensitivityAnalysis(Analysis):
    """The metrics at several label thresholds, and where raters agree or are divided."""

    kind: Literal["label_sensitivity"]
    thresholds: Annotated[tuple[Threshold, ...], Field(min_length=2)] = (0.3, 0.4, 0.5, 0.6, 0.7)
    """A comment is toxic if its label is at least this."""
    contested: tuple[Share, Share] = (0.3, 0.7)
    """Smallest and largest label at which raters count as divided. The metrics are also computed on
    these rows alone, on all others, and on rows with label 0 or 1; there, 0.5 and more is toxic."""

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if len(set(self.thresholds)) < len(self.thresholds):
            msg = f"`thresholds` must differ; got {list(self.thresholds)}"
            raise ValueError(msg)
        if self.contested[0] > self.contested[1]:
            msg = f"`contested` must give the smaller number first; got {list(self.contested)}"
            raise ValueError(msg)
        return self

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set whose labels are all 0 or 1, since no threshold changes these."""
        del source
        labels = frozen.column("label").to_numpy()
        if np.isin(labels, (0, 1)).all():
            self.refuse(
                frozen, "labels that are fractions of raters", "all of its labels are 0 or 1"
            )

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Measure the same rows at every threshold, and the parts where raters agree or not."""
        found = label_sensitivity(
            rows.column("label"),
            rows.y_score,
            rows.masks,
            thresholds=self.thresholds,
            contested=self.contested,
            background=rows.background,
        )
        result = {
            "by_threshold": {f"{at:g}": _brief(one) for at, one in found.by_threshold.items()},
            "contested": _brief(found.contested),
            "agreed": _brief(found.agreed),
            "unanimous": _brief(found.unanimous),
            "spread": {
                name: {metric: found.spread(name, metric).to_dict() for metric in SUBGROUP_METRICS}
                for name in rows.masks
            },
        }
        return Findings(result, tuple(_sentences(found)), found.rows())


def _brief(report: BiasReport) -> dict[str, JsonValue]:
    """Return the overall numbers, and the worst identity by each metric."""
    known = report.to_dict()
    worst = {}
    for metric in SUBGROUP_METRICS:
        one = worst_subgroup(known, metric).to_dict()
        keys = ("subgroup", "value") if one["value"] is not None else ("value", "reason")
        worst[metric] = {key: one[key] for key in keys}
    return {key: known[key] for key in ("overall", "power_mean", "final_score")} | {"worst": worst}


def _sentences(found: LabelSensitivity) -> list[str]:
    """Return the overall AUC and the worst AUC at the lowest and at the highest threshold."""
    thresholds = sorted(found.by_threshold)
    lowest, highest = (found.by_threshold[at] for at in (thresholds[0], thresholds[-1]))
    told = (
        f"With the label threshold at {thresholds[0]:g} and at {thresholds[-1]:g}: overall AUC "
        f"{_number(lowest.overall.auc.value)} and {_number(highest.overall.auc.value)}; worst "
        f"AUC of an identity {_worst(lowest)} and {_worst(highest)}."
    )
    spreads = {
        (name, metric): spread.value
        for name in found.contested.subgroups
        for metric in SUBGROUP_METRICS
        if (spread := found.spread(name, metric)).value is not None
    }
    if not spreads:
        return [told]
    name, metric = max(spreads, key=lambda one: spreads[one])
    most = f"Over all thresholds, {metric} of {name} moves most: by {spreads[name, metric]:.3f}."
    return [told, most]


def _worst(report: BiasReport) -> str:
    known = [one for metric in AUCS if (one := report.worst[metric]).value.value is not None]
    if not known:
        return "undefined"
    worst = min(known, key=lambda one: float(one.value))
    return f"{float(worst.value):.3f} ({worst.metric} of {worst.subgroup})"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


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
        found = [] if matcher is None else matcher.identities
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
        rated = np.asarray(np.logical_and.reduce([~np.isnan(fraction) for fraction in fractions]))
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
        "undefined" if value.value is None else f"{value.value:.1%}"
        for value in (worst.recall, worst.precision)
    ]
    return (
        f"On {found.n:,} rated comments, raters and terms agree least on {name} (kappa "
        f"{kappas[name]:.3f}): terms find {shares[0]} of the comments that raters say mention it, "
        f"and raters confirm {shares[1]} of the comments that terms find."
    )
