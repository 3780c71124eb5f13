"""What a pass leaves open at the counts of a set: per identity, by measured or assumed errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from bias_metrics import Difference, MetricValue
from bias_metrics.gate import (
    EACH,
    WORST,
    Counts,
    Guess,
    OpenLoss,
    Rule,
    expected_reaches,
    is_planned,
    open_loss,
    paired_reach,
)
from bias_metrics.metrics import METRICS, PAIRS, SUBGROUP_METRICS, Class
from bias_metrics.parts import Table
from biasgate.tasks.evidence.file import evidence_at
from biasgate.tasks.gating.plan import Comments
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.records import Differences, MeasuredNumbers, metric_cells

# Between two models over repeated samples of rows; models of one task agree on hard rows.
CORRELATION = 0.8
AUCS_ASSUMED = (0.80, 0.87, 0.93)
POWER = 0.8
_MANY = 10**6
_WORDS: dict[Class, str] = {"positive": "toxic", "negative": "harmless"}


@dataclass(frozen=True)
class Asked:
    """How a metric of an identity is compared with the champion's."""

    confidence: float
    """One-sided."""
    margin: float | None
    """None if no rule compares it."""


Asking = Callable[[str, str], Asked]


@dataclass(frozen=True)
class IdentityLoss:
    """What a pass leaves open about one metric of one identity."""

    identity: str
    """Its name."""
    toxic: int
    harmless: int
    """Its comments of each class."""
    auc: float | None
    """The AUC that is assumed; None where one is measured."""
    correlation: float | None
    """The assumed correlation of the two models' estimates; None where their difference is
    measured."""
    loss: OpenLoss
    """The numbers."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Return plain values, the classes by the words for comments."""
        both = vars(self) | self.loss.to_dict() | {"more_of": _WORDS[self.loss.scarcer]}
        return {key: value for key, value in both.items() if key not in {"loss", "scarcer"}}


def asked_by(policy: Policy) -> Asking:
    """Return how a policy compares metrics of identities: by its strictest rule with a margin."""
    rules = [rule for rule in policy.decision_rules(policy.first_share) if _compares(rule)]

    def asked(identity: str, metric: str) -> Asked:
        own = [
            rule
            for rule in rules
            if rule.metric == metric
            and (rule.scope in {EACH, WORST} or identity in rule.named_groups)
        ]
        if not own:
            return Asked(policy.confidence, None)
        strictest = min(own, key=_margin)
        return Asked(strictest.confidence, _margin(strictest))

    return asked


def losses_of_evidence(
    path: Path, asked: Asking, correlation: float = CORRELATION
) -> list[IdentityLoss]:
    """Return what a pass leaves open, by the errors of an evaluation.

    Parameters
    ----------
    path : Path
        An `evidence.parquet`, or the folder of results that holds it.
    asked : callable
        From identity and metric to how it is compared.
    correlation : float, default=0.8
        Of the two models' estimates, where no champion was measured, or where it ranks the
        comments as the candidate does: an equal model differs somewhere.

    Raises
    ------
    InputError
        If there is no such file.
    """
    evidence = evidence_at(path)
    wanted = {
        (name, metric): asked(name, metric)
        for name in evidence.identities
        for metric in SUBGROUP_METRICS
    }
    levels = {2 * one.confidence - 1 for one in wanted.values()}
    found = evidence.measure([(None, level) for level in sorted(levels)])
    measured = {level: MeasuredNumbers.from_dict(one.report) for (_, level), one in found.items()}
    champions = {level: one.champion for (_, level), one in found.items() if one.champion}
    changes = {level: Differences.from_dict(one) for level, one in champions.items()}

    def loss(name: str, metric: str, how: Asked) -> IdentityLoss:
        level = 2 * how.confidence - 1
        group = measured[level].subgroups[name]
        cell = metric_cells(group)[metric]
        change = changes[level].subgroups[name][metric] if level in changes else None
        paired = None if change is None else reach_of(change)
        reaches = assumed = None
        if (ends := reach_of(cell)) is not None:
            if paired is not None and max(paired) > 0:
                reach = max(paired) if METRICS[metric].is_gap else paired[0]
            else:
                assumed = correlation
                reach = paired_reach(metric, *ends, assumed)
            reaches = reach, max(ends)
        counts = group.n_positive, group.n_negative
        result = open_loss(
            metric,
            cell.value,
            reaches,
            counts,
            how.confidence,
            how.margin,
            power=POWER,
            reason=cell.reason,
        )
        return IdentityLoss(name, *counts, None, assumed, result)

    return [loss(*key, how) for key, how in wanted.items()]


def losses_of_comments(comments: Comments, n: int | None, asked: Asking) -> list[IdentityLoss]:
    """Return what a pass leaves open with `n` comments drawn at random, at each assumed AUC."""
    if n is None:
        return []
    everyone = round(n * comments.toxic), round(n * (1 - comments.toxic))
    return [
        _assumed(
            name, metric, (round(n * one.toxic), round(n * one.harmless)), everyone, how, asked
        )
        for name, one in comments.identities.items()
        for how in _guesses(one.guess)
        for metric in SUBGROUP_METRICS
    ]


def losses_of_fewest(policy: Policy) -> list[IdentityLoss]:
    """Return what a pass leaves open of identities with just as many comments as rules need."""
    asked, everyone = asked_by(policy), (_MANY, _MANY)
    least: dict[str, tuple[int, int]] = {}
    for rule in policy.decision_rules():
        if rule.metric in PAIRS and METRICS[rule.metric].scopes[0] == "subgroup":
            own = rule.min_positives, rule.min_negatives
            least[rule.metric] = min(least.get(rule.metric, own), own)
    return [
        _assumed("any with so many", metric, counts, everyone, guess, asked)
        for guess in _guesses(Guess(correlation=CORRELATION))
        for metric, counts in least.items()
    ]


def losses_in_words(losses: Iterable[IdentityLoss]) -> list[str]:
    """Return a table with the worst metric of each identity, and what its numbers are.

    At each assumed AUC there is a line of its own.
    """
    worst: dict[tuple[str, float | None], IdentityLoss] = {}
    for loss in losses:
        key = loss.identity, loss.auc
        worst[key] = max(worst.get(key, loss), loss, key=lambda x: x.loss.order)
    if not worst:
        return []
    shown = list(worst.values())
    first = {name: max(x.loss.order for x in shown if x.identity == name) for name, _ in worst}
    shown.sort(key=lambda x: first[x.identity], reverse=True)
    auc = [] if shown[0].auc is None else ["AUC"]
    head = [
        "identity",
        "toxic",
        "harmless",
        *auc,
        "metric",
        "not excluded",
        "seen",
        "margin",
        "more",
    ]
    title = "What a pass leaves open, in the worst metric of each identity:"
    table = Table(head, [_cells(x) for x in shown], title, list(_notes(shown)))
    return table.text().splitlines()


def _cells(one: IdentityLoss) -> list[str]:
    loss = one.loss
    cells = [one.identity, f"{one.toxic:,}", f"{one.harmless:,}"]
    cells += [] if one.auc is None else [f"{one.auc:.2f}"]
    more = "" if loss.more is None else f"{loss.more:,} {_WORDS[loss.scarcer]}"
    return [
        *cells,
        METRICS[loss.metric].title,
        "any" if loss.not_excluded is None else f"{loss.not_excluded:.3f}",
        "" if loss.visible is None else f"{loss.visible:.3f}",
        "" if loss.margin is None else f"{loss.margin:g}",
        "0" if loss.more == 0 else more,
    ]


def _notes(shown: Iterable[IdentityLoss]) -> Iterator[str]:
    """Say what the columns are, and what was measured or assumed."""
    shown = list(shown)
    yield "not excluded: the loss that a bound typically leaves open for a model as good as its"
    yield "champion; of a gap, by how much it may be wider. any: there are too few comments."
    yield f"seen: the loss whose bound would show it with a chance of {POWER:.0%}."
    if any(loss.loss.margin is not None for loss in shown):
        yield "more: comments that are lacking until `not excluded` is within the rule's margin, of"
        yield "the scarcer class that the metric compares."
    correlations = sorted({loss.correlation for loss in shown if loss.correlation is not None})
    known = ", ".join(f"{correlation:g}" for correlation in correlations)
    assumed = f"of {known} of the two models' estimates"
    if shown[0].auc is not None:
        yield "Only counts are known. Assumed: each AUC, with normal scores, and a correlation"
        yield f"{assumed}."
    elif correlations:
        bounded = [loss for loss in shown if loss.loss.not_excluded is not None]
        some = "" if all(loss.correlation is not None for loss in bounded) else ", in some lines"
        yield f"Measured: the AUCs and their errors. Assumed{some}: a correlation"
        yield f"{assumed}."
    else:
        yield "Measured: the AUCs, and the errors of their differences from the champion's."
    yield "The width goes with the AUC: wide at .80, narrow at .95."


def _assumed(
    name: str,
    metric: str,
    own: tuple[int, int],
    everyone: tuple[int, int],
    guess: Guess,
    asked: Asking,
) -> IdentityLoss:
    """Return what a pass leaves open with scores that are normal in each class."""
    how, reaches = asked(name, metric), None
    outside = [max(total - n, 2) for total, n in zip(everyone, own, strict=True)]
    if min(own) >= 1:
        level = 2 * how.confidence - 1
        ends = expected_reaches(metric, level, guess, Counts(*own, *outside))
        reaches = paired_reach(metric, *ends, guess.correlation), max(ends)
    loss = open_loss(
        metric, guess.value(metric), reaches, own, how.confidence, how.margin, power=POWER
    )
    return IdentityLoss(name, *own, guess.auc, guess.correlation, loss)


def _guesses(guess: Guess) -> list[Guess]:
    return [replace(guess, auc=auc, values={}) for auc in AUCS_ASSUMED]


def reach_of(cell: MetricValue | Difference) -> tuple[float, float] | None:
    """Return how far an interval reaches down and up; None if there is none."""
    value, low, high = cell.value, cell.low, cell.high
    return None if value is None or low is None or high is None else (value - low, high - value)


def _compares(rule: Rule) -> bool:
    return is_planned(rule) and _margin(rule) < math.inf and rule.slice is None


def _margin(rule: Rule) -> float:
    """Return the margin of a rule; infinity if it has none."""
    margins = rule.margin, rule.reference_margin
    return min((margin for margin in margins if margin is not None), default=math.inf)
