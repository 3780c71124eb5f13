"""The patterns of bias: their names, when they apply, and what users will notice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from bias_metrics._core.intervals import quantile
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.tables import Row, Tabular, labelled
from bias_metrics._core.values import MetricValue
from bias_metrics.diagnosis.curves import Corners
from bias_metrics.groups.counts import as_dicts
from bias_metrics.metrics import AUCS, METRICS, subgroup_metric
from bias_metrics.report.report import cell_of

Letter = Literal["A", "B", "C", "D", "E", "F", "G"]
OneSided = Literal["harmless higher", "harmless lower", "toxic higher", "toxic lower"]
Pattern = Letter | OneSided | Literal["other", "none", "no evidence"]
Gap = Literal["higher", "lower", "wider", "narrower", "alike"]

NAMES: Mapping[Pattern, str] = {
    "A": "small right shift",
    "B": "large right shift",
    "C": "large right shift with skewed counts",
    "D": "left shift",
    "E": "low separability within the subgroup",
    "F": "wide without overlap",
    "G": "wide with overlap",
    "harmless higher": "harmless mentions score higher",
    "harmless lower": "harmless mentions score lower",
    "toxic higher": "toxic mentions score higher",
    "toxic lower": "toxic mentions score lower",
    "other": "a difference of another kind",
    "none": "no bias seen",
    "no evidence": "not enough evidence for a pattern",
}
_GAPS: Mapping[Gap, str] = {
    "higher": "score higher than",
    "lower": "score lower than",
    "wider": "have more widely spread scores than",
    "narrower": "have less widely spread scores than",
}
_NOTICED: Mapping[tuple[str, Gap], str] = {
    ("harmless", "higher"): " and will be flagged more often at some thresholds",
    ("harmless", "lower"): " and will be flagged less often at some thresholds",
    ("toxic", "higher"): " and will be missed less often at some thresholds",
    ("toxic", "lower"): " and will be missed more often at some thresholds",
}
_FLAGGED = (
    "Harmless comments that mention {group} score so high that they mix with abuse elsewhere: "
    "they will be flagged far more often than other harmless comments."
)


def _one_sided(kind: str, gap: Gap) -> str:
    noticed = _NOTICED[kind, gap]
    other = "toxic" if kind == "harmless" else "harmless"
    return (
        f"Of the comments that mention {{group}}, the {kind} ones clearly {_GAPS[gap]} other "
        f"{kind} comments{noticed}; no shift of the {other} ones is clear.{{also}}"
    )


SENTENCES: Mapping[Pattern, str] = {
    "A": "Comments that mention {group} score higher than others of the same kind. Harmless ones "
    "do not clearly mix with abuse elsewhere, but at some thresholds harmless mentions will be "
    "flagged more often.",
    "B": _FLAGGED,
    "C": _FLAGGED + " {share} of the comments that mention {group} are toxic, against "
    "{background_share} of the others, which also distorts accuracy and pinned AUC.",
    "D": "Comments that mention {group} score lower than others of the same kind: at some "
    "thresholds abuse of this group will be missed more often.",
    "E": "Among comments that mention {group}, harmless and toxic ones score closer together: "
    "harmless mentions will be flagged and abuse of this group will be missed more often.",
    "F": "Comments that mention {group} score equally high on average, but their scores are more "
    "spread out: a strict or a lenient threshold treats them differently from others of the same "
    "kind.",
    "G": "Scores of comments that mention {group} are so spread out that harmless and toxic ones "
    "mix: some harmless mentions will be flagged and some abuse of this group will be missed.",
    "harmless higher": _one_sided("harmless", "higher"),
    "harmless lower": _one_sided("harmless", "lower"),
    "toxic higher": _one_sided("toxic", "higher"),
    "toxic lower": _one_sided("toxic", "lower"),
    "other": "Comments that mention {group} are treated differently: {findings}.",
    "none": "No bias seen for comments that mention {group}: no difference is clear, and all are "
    "shown to be at most {most}.",
    "no evidence": "Too little evidence to name a pattern of bias for comments that mention "
    "{group}: {reason}. Single metrics may still be shown to be bad.",
}
WITHIN = subgroup_metric("positive", "negative", inside=True)
_FROM_ABUSE = subgroup_metric("negative", "positive")
# Shifts of one class while the other shows no clear difference; keys: positives, negatives.
ONE_SIDED: Mapping[tuple[Gap, Gap], Pattern] = {
    ("alike", "higher"): "harmless higher",
    ("alike", "lower"): "harmless lower",
    ("higher", "alike"): "toxic higher",
    ("lower", "alike"): "toxic lower",
}


@dataclass(frozen=True)
class Findings:
    """What the intervals show clearly."""

    # positive, negative: the subgroup's scores compared with the background's, in each class.
    positive: Gap
    negative: Gap
    low: frozenset[str]  # The AUCs that are clearly below the background's
    apart: bool  # Whether the Subgroup AUC is clearly not below it by more than the margin
    skewed: bool  # Whether the share of positives clearly differs from the background's

    def pattern(self) -> Pattern:
        """Return the pattern; skewed counts alone are not one."""
        gaps = (self.positive, self.negative)
        overlap = WITHIN in self.low
        if gaps == ("higher", "higher"):
            return self._right_shift()
        if gaps == ("lower", "lower"):
            return "D"
        if gaps == ("lower", "higher") and overlap:
            return "E"
        if {"higher", "lower", "narrower"}.isdisjoint(gaps):
            return self._unshifted(wider="wider" in gaps, overlap=overlap)
        return ONE_SIDED.get(gaps, "other")

    def _right_shift(self) -> Pattern:
        if _FROM_ABUSE not in self.low:
            return "A"
        return "C" if self.skewed else "B"

    def _unshifted(self, *, wider: bool, overlap: bool) -> Pattern:
        if overlap:
            return "G"
        if wider and self.apart:
            return "F"
        return "other" if wider or self.low else "none"

    def in_words(self) -> str:
        """List the findings in words."""
        classes: tuple[tuple[str, Gap], ...] = (
            ("toxic", self.positive),
            ("harmless", self.negative),
        )
        gaps = [
            f"{kind} ones {_GAPS[gap]} other {kind} comments{_NOTICED.get((kind, gap), '')}"
            for kind, gap in classes
            if gap != "alike"
        ]
        return "; ".join([*gaps, *self._mixed()])

    def also_in_words(self) -> str:
        """List in a sentence what is hard to tell apart, after a blank; "" if nothing is."""
        mixed = "; ".join(self._mixed())
        return f" In addition, {mixed}." if mixed else ""

    def _mixed(self) -> list[str]:
        return [METRICS[auc].when_low for auc in AUCS if auc in self.low]


# ---- What `diagnose_bias` returns: the pattern of bias of each subgroup, in words


@dataclass(frozen=True)
class Diagnosis(Tabular):
    """The pattern that one subgroup shows, and the evidence for it."""

    pattern: Pattern
    """A letter of Table 2 of Borkan et al. (2019), a shift of one class such as "harmless higher",
    "other", "none" or "no evidence"."""
    name: str
    """Name of the pattern."""
    sentence: str
    """What users will notice, or why no pattern can be named."""
    evidence: dict[str, MetricValue]
    """The numbers that decided it, with their intervals."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        evidence = {name: value.to_dict(interval=True) for name, value in self.evidence.items()}
        return {
            "pattern": self.pattern,
            "name": self.name,
            "sentence": self.sentence,
            "evidence": evidence,
        }

    def rows(self) -> list[Row]:
        """Return one record per number that decided the pattern."""
        return labelled("evidence", {name: [cell_of(one)] for name, one in self.evidence.items()})


class Diagnoses(dict[str, Diagnosis], Tabular):
    """The diagnosis of each subgroup, by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return as_dicts(self)

    def rows(self) -> list[Row]:
        """Return one record per subgroup: the pattern, its name and the sentence."""
        return [
            {"subgroup": name, "pattern": one.pattern, "name": one.name, "sentence": one.sentence}
            for name, one in self.items()
        ]


# ---- Estimates with bounds on either side, and what they show clearly


# P(L1 norm of a Brownian bridge > x) is at most this many times P(|N(0, 1/12)| > x), wherever
# that is below 1/8 (it is 1.19 times at .1, 1.14 at .05 and 1.09 at .01).
TAIL = 1.25


class Range(NamedTuple):
    """An estimate and its interval, which must exist."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, metric: MetricValue) -> Range:
        """Return the range of a metric that has an interval."""
        return cls(*(cast("float", n) for n in (metric.value, metric.low, metric.high)))

    def metric(self) -> MetricValue:
        """Return it as a MetricValue."""
        return MetricValue(self.value, low=self.low, high=self.high)

    @property
    def largest(self) -> float:
        """The largest size, whatever the sign, that the interval holds."""
        return max(-self.low, self.high)

    def minus(self, other: Range) -> Range:
        """Return the difference of two estimates, independent or positively correlated."""
        value = self.value - other.value
        down = math.hypot(self.value - self.low, other.high - other.value)
        up = math.hypot(self.high - self.value, other.value - other.low)
        return Range(value, value - down, value + up)

    def beyond(self, margin: float) -> int:
        """Return 1 or -1 if the interval is entirely above or below [-margin, margin], else 0."""
        return int(self.low > margin) - int(self.high < -margin)


def share_of_positives(n_positive: int, n: int, confidence: float) -> Range:
    """Return the share of positives with its Wilson interval."""
    share = n_positive / n
    return Range(share, *wilson_interval(share, n, quantile(confidence)))


def unsigned_gap(curve: Corners, sizes: tuple[int, int], confidence: float) -> Range:
    """Return the area between curve and diagonal, with an interval that allows for chance."""
    value = curve.unsigned_gap
    z = -NormalDist().inv_cdf((1 - confidence) / TAIL / 2)
    chance = z * math.sqrt((1 / sizes[0] + 1 / sizes[1]) / 12)
    return Range(value, max(value - chance, 0.0), min(value + chance, 0.5))


def kind_of_gap(aeg: Range, unsigned: Range, curve: Corners, *, shift: float, spread: float) -> Gap:
    """Say how the subgroup's scores of one class differ from the background's.

    `shift` and `spread` are the margins for the signed and the unsigned area.
    """
    if unsigned.beyond(spread) and abs(aeg.value) < unsigned.value / 2:
        x, y = curve.background_rate, curve.subgroup_rate
        above, early = y - x, 0.5 - x
        # Wider: above the diagonal at strict thresholds, where x is small, and then below it.
        # The integral of above * early, both of which are linear between corners.
        ends = above[1:] * early[1:] + above[:-1] * early[:-1]
        crossed = above[1:] * early[:-1] + above[:-1] * early[1:]
        tilt = float(np.sum(np.diff(x) * (2 * ends + crossed)))
        return "wider" if tilt > 0 else "narrower"
    kinds: dict[int, Gap] = {1: "higher", -1: "lower", 0: "alike"}
    return kinds[aeg.beyond(shift)]
