"""Which kind of bias a subgroup shows, in words, decided from metrics and their intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import pair_auc
from bias_metrics._core.checks import aligned
from bias_metrics._core.counted import counted
from bias_metrics._core.influence import ClassMembers, Members, RankedRows, rank_rows
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.ranks import SortedScores
from bias_metrics._core.values import MetricValue
from bias_metrics.diagnosis.curves import corners
from bias_metrics.diagnosis.patterns import (
    NAMES,
    SENTENCES,
    WITHIN,
    Diagnoses,
    Diagnosis,
    Findings,
    Pattern,
    Range,
    kind_of_gap,
    share_of_positives,
    unsigned_gap,
)
from bias_metrics.metrics import AEGS, AUCS, CLASSES, subgroup_metric
from bias_metrics.report.report import SubgroupBias
from bias_metrics.report.steps import MeasuredSubgroup, ranked_members
from bias_metrics.rows import Rows

# Two AEGs, three AUCs, two unsigned gaps and the share of positives.
DECISIONS = 8


class _Size(NamedTuple):
    """Rows of each class."""

    positive: int
    negative: int


class _Margins(NamedTuple):
    """How far from no difference counts as clearly different; already checked."""

    aeg_margin: float
    auc_margin: float
    spread_margin: float
    share_margin: float
    equivalence_margin: float


@aligned
def diagnose_bias(
    rows: Rows,
    y_score: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    aeg_margin: float = 0.05,
    auc_margin: float = 0.04,
    spread_margin: float = 0.04,
    share_margin: float = 0.1,
    equivalence_margin: float = 0.1,
    min_rows: int = 20,
) -> Diagnoses:
    """Say in words which pattern of bias each subgroup shows.

    The patterns are those of Table 2 of Borkan et al. (2019). A difference is *clear* when
    its whole interval lies beyond the margin. In each class the subgroup's scores are

    - *higher* or *lower* when the AEG is clear;
    - *wider* or *narrower* when the unsigned gap (see `Corners`) is clear and more
      than twice the AEG, so that the difference is in the spread rather than a shift.

    An AUC is *low* when its drop below the background's own AUC is clear. Then

    - A: positives and negatives higher; B: the same, and BPSN AUC low; C: the same as B, and
      the share of positives clearly different from the background's;
    - D: positives and negatives lower;
    - E: positives lower, negatives higher, Subgroup AUC low;
    - F: neither shifted, at least one wider, and Subgroup AUC clearly not low;
    - G: neither shifted, Subgroup AUC low;
    - harmless higher, harmless lower, toxic higher, toxic lower: a shift of one class, while
      the other shows no clear difference; Table 2 has no letter for these;
    - other: some difference is clear, but none of the above applies;
    - none: no difference is clear, and every one is shown to be below `equivalence_margin`: its
      whole interval lies within the margin (two one-sided tests, TOST);
    - no evidence: too few rows, or no difference is clear but one may be that large.

    All intervals of all subgroups hold together with `confidence` (Bonferroni over eight per
    subgroup), so that without bias a pattern appears anywhere in at most 5 % of data sets.
    Diagnosing more subgroups at once therefore needs more rows. Rows count once each and are
    taken as independent: if rows of an article, thread or template are correlated, patterns
    appear by chance more often. (No bound for the unsigned gap with clusters is known.) Only the
    order of the scores counts.

    Parameters
    ----------
    rows : Rows
        The rows, without weights and clusters.
    y_score : float array of shape (n,)
        Finite scores.
    confidence : float, default=0.95
        Confidence of all intervals together.
    aeg_margin : float, default=0.05
        From 0 to below 1/2. An AEG of .05 is a shift of .18 standard deviations.
    auc_margin : float, default=0.04
        From 0 to below 1/2; for drops of an AUC below the background's.
    spread_margin : float, default=0.04
        From 0 to below 1/2. With r times the standard deviation and no shift, the unsigned
        gap of normal scores is arctan(r) / pi - 1/4: .04 at r = 1.3, .10 at r = 2.
    share_margin : float, default=0.1
        From 0 to below 1/2; for the difference of the shares of positives.
    equivalence_margin : float, default=0.1
        From 0 to below 1/2. The pattern is "none" only if the intervals of both AEGs, all drops
        and both unsigned gaps exclude differences of this size; an AUC may be higher by more.
    min_rows : int, default=20
        At least 2. With fewer positives or negatives in subgroup or background, the pattern is
        "no evidence".

    Returns
    -------
    Diagnoses
        A dict of str to Diagnosis, in the order given, that prints as a table.

    Raises
    ------
    ValueError, TypeError
        If scores are of another number or not finite, a margin or `min_rows` is out of range, or
        the rows have weights or clusters.

    Notes
    -----
    AUCs and AEGs have the intervals of `evaluate_bias`; a drop combines the intervals of two
    AUCs, the difference of the shares of positives two Wilson intervals (Newcombe 1998, method
    10). For equal distributions without ties the unsigned gap is, in large samples,
    sqrt(1/m + 1/n) times the L1 norm of a Brownian bridge (with ties it is smaller), whose tail
    is at most 1.25 times that of a normal variable of variance 1/12 wherever that tail is below
    1/8. The interval reaches that quantile on either side of the estimate.

    References
    ----------
    Borkan et al. (2019), Table 2 and Figure 2; the rules and margins are ours. Johnson and
    Killeen (1983), Annals of Probability 11 (L1 norm of the Brownian bridge). Newcombe
    (1998), Statistics in Medicine 17. Schuirmann (1987), Journal of Pharmacokinetics and
    Biopharmaceutics 15 (TOST).

    Examples
    --------
    >>> y_true = [0] * 80 + [1] * 80
    >>> elsewhere, mentions = range(40), range(30, 70)
    >>> y_score = [*elsewhere, *mentions, *(s + 40 for s in elsewhere), *(s + 40 for s in mentions)]
    >>> muslim = ([0] * 40 + [1] * 40) * 2
    >>> found = diagnose_bias(Rows(y_true, {"muslim": muslim}), y_score)["muslim"]
    >>> found.pattern, found.name
    ('B', 'large right shift')
    """
    rows.refuse("diagnose_bias", "sample_weight", "clusters")
    scores = rows.scores("y_score", y_score)
    level = 1 - (1 - check_confidence(confidence)) / (DECISIONS * max(len(rows.subgroups), 1))
    margins = _Margins(aeg_margin, auc_margin, spread_margin, share_margin, equivalence_margin)
    for name, margin in margins._asdict().items():
        if not 0 <= margin < 0.5:
            msg = f"`{name}` must be at least 0 and below 0.5; got {margin}."
            raise ValueError(msg)
    if min_rows < 2:
        msg = f"`min_rows` must be at least 2; got {min_rows}."
        raise ValueError(msg)
    ranked = rank_rows(rows.y_true, scores)
    shared: MetricValue | None = None
    found = Diagnoses()
    for name, members in ranked_members(ranked, rows).items():
        bias = MeasuredSubgroup.of(members).at(level)
        sizes = _sizes(ranked, members)
        if reason := _too_few(sizes, min_rows):
            evidence = {metric: getattr(bias, metric) for metric in AUCS + AEGS}
            found[name] = _say("no evidence", name, evidence, reason=reason)
            continue
        auc = _background_auc(ranked, members, level) if shared is None else shared
        shared = None if members.others is None else auc
        found[name] = _diagnose(name, members, bias, (auc, *sizes), level, margins)
    return found


def _sizes(ranked: RankedRows, members: Members) -> tuple[_Size, _Size]:
    """Count the rows of the subgroup and of its background."""
    everyone, excluded = ranked.everyone, members.excluded.classes
    return (
        _Size(members.positive.scores.n, members.negative.scores.n),
        _Size(everyone.positive.n - excluded.positive.n, everyone.negative.n - excluded.negative.n),
    )


def _background_auc(ranked: RankedRows, members: Members, level: float) -> MetricValue:
    """Measure the rows that are not excluded; removing rows keeps the others sorted."""

    def kept(everyone: SortedScores, excluded: ClassMembers) -> SortedScores:
        stays = np.ones(everyone.n, dtype=np.bool_)
        stays[excluded.position] = False
        return SortedScores(everyone.scores[stays])

    everyone, excluded = ranked.everyone, members.excluded
    return pair_auc(
        kept(everyone.negative, excluded.negative),
        kept(everyone.positive, excluded.positive),
    ).at(level)


def _too_few(sizes: tuple[_Size, _Size], min_rows: int) -> str | None:
    """Say which class of subgroup or background is too small."""
    own, others = sizes
    counts = {
        ("toxic", "among them"): own.positive,
        ("harmless", "among them"): own.negative,
        ("toxic", "elsewhere"): others.positive,
        ("harmless", "elsewhere"): others.negative,
    }
    few = {what: n for what, n in counts.items() if n < min_rows}
    if not few:
        return None
    listed = [f"{counted(n, f'{kind} one')} {where}" for (kind, where), n in few.items()]
    is_one = next(iter(few.values())) == 1
    verb = "is" if is_one else "are"
    return f"there {verb} {' and '.join(listed)}; {min_rows} are needed"


def _say(pattern: Pattern, group: str, evidence: dict[str, MetricValue], **words: Any) -> Diagnosis:
    sentence = SENTENCES[pattern].format(group=f'"{group}"', **words)
    return Diagnosis(pattern, NAMES[pattern], sentence, evidence)


def _diagnose(
    group: str,
    members: Members,
    bias: SubgroupBias,
    known: tuple[MetricValue, _Size, _Size],
    level: float,
    margins: _Margins,
) -> Diagnosis:
    background, own, others = known
    aucs = {name: getattr(bias, name) for name in AUCS}
    gaps = {name: getattr(bias, name) for name in AEGS}
    drops = {
        f"{name}_drop": Range.of(background).minus(Range.of(auc)) for name, auc in aucs.items()
    }
    kinds, unsigned = {}, {}
    for of in CLASSES:
        metric = subgroup_metric(of, of)
        compared = members.compared[metric]
        curve = corners(compared.placed, compared.runs)
        area = unsigned_gap(curve, (getattr(own, of), getattr(others, of)), level)
        aeg = Range.of(gaps[metric])
        unsigned[f"{of}_unsigned_gap"] = area
        kinds[of] = kind_of_gap(
            aeg, area, curve, shift=margins.aeg_margin, spread=margins.spread_margin
        )
    share, background_share = (
        share_of_positives(one.positive, sum(one), level) for one in (own, others)
    )
    skew = share.minus(background_share)
    findings = Findings(
        positive=kinds["positive"],
        negative=kinds["negative"],
        low=frozenset(n for n in AUCS if drops[f"{n}_drop"].beyond(margins.auc_margin) == 1),
        apart=drops[f"{WITHIN}_drop"].high <= margins.auc_margin,
        skewed=skew.beyond(margins.share_margin) != 0,
    )
    both_ways = [one.largest for one in map(Range.of, gaps.values())]
    most = max(*both_ways, *(drop.high for drop in (*drops.values(), *unsigned.values())))
    pattern = findings.pattern()
    if pattern == "none" and most >= margins.equivalence_margin:
        pattern = "no evidence"
    ranges = {**drops, **unsigned, "share_difference": skew}
    return _say(
        pattern,
        group,
        {"background_auc": background, **aucs, **gaps}
        | {name: one.metric() for name, one in ranges.items()},
        findings=findings.in_words(),
        also=findings.also_in_words(),
        most=f"{most:.2f}",
        reason=f"no difference is clear, but differences up to {most:.2f} are not ruled out",
        share=f"{share.value:.0%}",
        background_share=f"{background_share.value:.0%}",
    )
