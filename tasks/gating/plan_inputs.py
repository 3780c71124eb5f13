"""What a plan is made from: shares that somebody states, or an evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

from pydantic import Field

from bias_metrics import Difference, MetricValue, SubgroupBias
from bias_metrics.gate import Counts, Guess, Hierarchy, standard_error
from bias_metrics.metrics import AUCS
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.evidence.file import evidence_at
from biasgate.tasks.gating.plan import Comments, Mentions
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.records import Differences, MeasuredNumbers, metric_cells

Share = Annotated[float, Field(gt=0, lt=1)]
SHIPPED = Path(__file__).parent / "prevalences"
_CONFIDENCE = 0.9


class MentionShares(Settings):
    """One identity of a file of shares."""

    share: Share
    """Share of all comments that mention it."""
    toxic: Share
    """Share of those that are toxic."""
    auc: Annotated[float, Field(gt=0.5, lt=1)] | None = None
    """Its assumed AUCs. Default: the one for all."""


class Shares(Settings):
    """A file of shares: how common identities and toxic comments are."""

    toxic: Share
    """Share of all comments that are toxic."""
    identities: Annotated[dict[Name, MentionShares], Field(min_length=1)]
    """By name."""


def comments_of_shares(
    path: Path, policy: Policy, *, auc: float, correlation: float, design_effect: float
) -> Comments:
    """Return what a plan needs from stated shares.

    Parameters
    ----------
    path : Path
        A YAML file of `Shares`, or `civil_comments` for the shares of Civil Comments.
    auc, correlation, design_effect : float
        What is assumed of every identity: see `Guess`.

    Returns
    -------
    Comments
        Nothing is labelled. The identities of a category are taken as not overlapping.

    Raises
    ------
    InputError
        If the file does not exist or a value is wrong.
    """
    shipped = SHIPPED / f"{path.name}.yaml"
    path = shipped if not path.exists() and shipped.exists() else path
    if not path.is_file():
        msg = f"`--shares` must be a file, or civil_comments; {path} does not exist."
        raise InputError(msg)
    shares = read_settings(path, Shares)
    identities = {}
    for name, one in shares.identities.items():
        guess = Guess(auc=one.auc or auc, correlation=correlation, inflation=design_effect)
        identities[name] = Mentions(one.share * one.toxic, one.share * (1 - one.toxic), guess)
    guess = Guess(auc=auc, correlation=correlation, inflation=design_effect)
    categories = {
        name: Mentions(
            sum(identities[one].toxic for one in members),
            sum(identities[one].harmless for one in members),
            guess,
        )
        for name, members in _joined(policy.hierarchy, list(identities)).items()
    }
    return Comments(shares.toxic, identities, categories, guess)


def comments_of_evidence(path: Path, policy: Policy, *, correlation: float, auc: float) -> Comments:
    """Return what a plan needs from an evaluation: counts, values, errors, and how models agree.

    Parameters
    ----------
    path : Path
        An `evidence.parquet`, or the folder of results that holds it.
    correlation : float
        Of the two models' estimates, if there was no champion.
    auc : float
        What is assumed of identities that have no numbers yet.

    Returns
    -------
    Comments
        Errors are those measured, so they allow for clusters if the set has any.

    Raises
    ------
    InputError
        If there is no such file.
    """
    evidence = evidence_at(path)
    identities = evidence.identities
    joined = _joined(policy.hierarchy, identities)
    found = evidence.measure_with(_CONFIDENCE, joined)
    numbers = MeasuredNumbers.from_dict(found.report)
    overall = numbers.overall
    everyone = overall.n_positive, overall.n - overall.n_positive
    groups = numbers.subgroups | numbers.categories
    agreed = []
    if found.champion is not None:
        apart = Differences.from_dict(found.champion)
        cells = {name: metric_cells(one) for name, one in groups.items()}
        agreed = list(_correlations(cells, apart.subgroups | apart.categories))
    factors = {name: list(_inflations(one, everyone)) for name, one in groups.items()}
    every = [one for of_group in factors.values() for one in of_group]

    def mentions(name: str) -> Mentions:
        own = groups[name].n_positive, groups[name].n_negative
        cells = metric_cells(groups[name])
        values = {metric: one.value for metric, one in cells.items() if one.value is not None}
        guess = Guess(
            values=values,
            auc=auc,
            correlation=median(agreed) if agreed else correlation,
            inflation=median(factors[name] or every or [1.0]),
        )
        return Mentions(own[0] / overall.n, own[1] / overall.n, guess, own)

    return Comments(
        everyone[0] / overall.n,
        {name: mentions(name) for name in identities},
        {name: mentions(name) for name in joined},
        Guess(auc=float(overall.auc), correlation=median(agreed) if agreed else correlation),
        everyone,
    )


def _joined(hierarchy: Hierarchy | None, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return {} if hierarchy is None else hierarchy.joined(names)


def _correlations(
    cells: Mapping[str, Mapping[str, MetricValue]],
    changes: Mapping[str, Mapping[str, Difference]],
) -> Iterator[float]:
    """Yield how closely two models' estimates agree, in cells with errors of their own."""
    for name, change in changes.items():
        for metric in AUCS:
            error, apart = cells[name][metric].std_error, change[metric].std_error
            if error and apart is not None:
                yield min(max(1 - (apart / error) ** 2 / 2, 0.0), 0.999)


def _inflations(group: SubgroupBias, everyone: tuple[int, int]) -> Iterator[float]:
    """Yield how many times larger variances are than those of normal, independent rows."""
    own = group.n_positive, group.n_negative
    outside = everyone[0] - own[0], everyone[1] - own[1]
    if min(*own, *outside) < 2:
        return
    for metric in AUCS:
        cell = metric_cells(group)[metric]
        if cell.std_error and cell.value is not None and 0 < cell.value < 1:
            plain = standard_error(metric, cell.value, Counts(*own, *outside))
            if math.isfinite(plain) and plain > 0:
                yield (cell.std_error / plain) ** 2
