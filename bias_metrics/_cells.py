r"""The five Borkan metrics of one subgroup, from pair counts that are shared between them.

Notation: `P(upper > lower)` counts a tie one half, and `wins` is twice the number of pairs
that `upper` wins (see `bias_metrics._ranks`). With D the rows of all, Dg those of the
subgroup and D \\ Dg the background::

    wins(D+ \\ Dg+, Dg-) = wins(D+, Dg-) - wins(Dg+, Dg-)

so that only the subgroup's scores are ever searched, and the background is never sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from bias_metrics._ranks import SortedClasses, SortedScores, doubled_wins
from bias_metrics._values import MetricValue, undefined

# Below this share of its class's weight, the background is lost in the subtraction above.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Cells:
    """The five metrics of one subgroup."""

    subgroup_auc: MetricValue
    bpsn_auc: MetricValue
    bnsp_auc: MetricValue
    positive_aeg: MetricValue
    negative_aeg: MetricValue


def measure_cells(everyone: SortedClasses, subgroup: SortedClasses) -> Cells:
    """Compute the five metrics of one subgroup; undefined cells carry their reason."""
    sub_pos, sub_neg = subgroup.positive, subgroup.negative
    positives_win = doubled_wins(sub_neg, sub_pos)
    pairs = sub_pos.total * sub_neg.total
    positives = partial(_against, "positives", everyone.positive, sub_pos)
    negatives = partial(_against, "negatives", everyone.negative, sub_neg)
    return Cells(
        subgroup_auc=_ratio(
            positives_win,
            pairs,
            lacks(subgroup_negatives=sub_neg.n, subgroup_positives=sub_pos.n),
        ),
        # BPSN counts what the background wins over the subgroup, hence `flip`.
        bpsn_auc=positives("negatives", sub_neg, own_wins=2 * pairs - positives_win, flip=True),
        bnsp_auc=negatives("positives", sub_pos, own_wins=positives_win),
        positive_aeg=_centred(positives("positives", sub_pos, own_wins=sub_pos.total**2)),
        negative_aeg=_centred(negatives("negatives", sub_neg, own_wins=sub_neg.total**2)),
    )


def pair_auc(negative: SortedScores, positive: SortedScores) -> MetricValue:
    """Compute AUC(negative, positive) = P(positive > negative) + P(equal) / 2."""
    pairs = positive.total * negative.total
    lack = lacks(negatives=negative.n, positives=positive.n)
    # Fewer searches: the smaller class is searched in the larger one.
    if positive.n <= negative.n:
        return _ratio(doubled_wins(negative, positive), pairs, lack)
    return _ratio(2 * pairs - doubled_wins(positive, negative), pairs, lack)


def lacks(**counts: int) -> str | None:
    """Say which of the named counts are 0, as in `no background positives`; None if none is."""
    empty = [name.replace("_", " ") for name, count in counts.items() if count == 0]
    return f"no {' and no '.join(empty)}" if empty else None


def _against(
    background_class: str,
    everyone: SortedScores,
    own: SortedScores,
    searched_class: str,
    searched: SortedScores,
    *,
    own_wins: float,
    flip: bool = False,
) -> MetricValue:
    """Compute P(searched > background), or P(background > searched) when `flip`.

    `own` are the subgroup's members of the background's class, `own_wins` what `searched`
    wins over them, doubled.
    """
    background = {
        f"background_{background_class}": everyone.n - own.n,
        f"subgroup_{searched_class}": searched.n,
    }
    if lack := lacks(**background):
        return undefined(lack)
    background_weight = everyone.total - own.total
    if background_weight < ROUNDING * everyone.total:
        return undefined(f"background {background_class} without weight to speak of")
    pairs = background_weight * searched.total
    wins = doubled_wins(everyone, searched) - own_wins
    return _ratio(2 * pairs - wins if flip else wins, pairs, None)


def _ratio(wins: float, pairs: float, lack: str | None) -> MetricValue:
    if lack:
        return undefined(lack)
    # Sums of fractional weights may pass the end by a rounding error.
    return MetricValue(min(max(wins / (2 * pairs), 0.0), 1.0))


def _centred(share: MetricValue) -> MetricValue:
    return share if share.value is None else MetricValue(share.value - 0.5)
