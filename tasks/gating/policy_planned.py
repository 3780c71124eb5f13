"""How many comments a policy needs, before anything is labelled or after an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
from pydantic import Field

from bias_metrics.gate import (
    EACH,
    OVERALL,
    WORST,
    Hierarchy,
    PlanAssumptions,
    PlannedCounts,
    Rule,
    estimate_auc_chance,
    estimate_group_chance,
    find_least_rows,
    is_planned,
    lacks_support,
    predict_standard_error,
)
from bias_metrics.metrics import AUCS, SUBGROUP_METRICS
from bias_metrics.table import BiasTable
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.evidence.file import open_evidence
from biasgate.tasks.gating.plan import Comments, Mentions, Need, Plan
from biasgate.tasks.gating.policy import Policy

POWER = 0.8
MANY = 1e6
_DRAWS, _SEED = 12, 11


def plan_policy(
    policy: Policy, comments: Comments, *, power: float = POWER, per_night: int | None = None
) -> Plan:
    """Plan how many comments a policy needs.

    Parameters
    ----------
    comments : Comments
        What is known or assumed of the comments.
    power : float, default=0.8
        The wanted chance to pass, of a model with the assumed numbers that is as good as its
        champion.
    per_night : int, optional
        Comments that are labelled in a night.

    Returns
    -------
    Plan
        By the normal approximation. Groups are treated as independent.
    """
    planner = _Planner(policy, comments)
    total = find_least_rows(planner.chance_at, power, least=100.0)
    wanted = power ** (1 / max(len(comments.identities), 1))
    needs = [planner.need(name, wanted) for name in comments.identities]
    return Plan(
        policy=policy.name,
        power=power,
        chance=planner.chance_now() if sum(comments.have) else None,
        comments=None if total is None else round(total),
        nights=None if total is None or per_night is None else -(-round(total) // per_night),
        needs=tuple(sorted(needs, key=lambda need: (need.label is None, need.label or 0))),
        not_planned=planner.not_planned,
    )


class _Planner:
    """The rules of a policy, and the comments that they are about."""

    def __init__(self, policy: Policy, comments: Comments) -> None:
        rules = policy.decision_rules()
        known = [rule for rule in rules if is_planned(rule) or rule.scope == OVERALL]
        self._rules = [rule for rule in known if rule.scope != OVERALL and rule.slice is None]
        self._overall = [rule for rule in known if rule.scope == OVERALL and rule.slice is None]
        kept = {rule.name for rule in (*self._rules, *self._overall)}
        self.not_planned = tuple(rule.name for rule in rules if rule.name not in kept)
        self._comments = comments
        self._hierarchy = policy.hierarchy or Hierarchy({})
        # An identity that no category covers may then pass by its own comments.
        self._has_blind = policy.blind is not None

    def chance_at(self, n: float) -> float:
        """Return the chance to pass with `n` comments drawn at random."""
        return float(np.mean([self._drawn(n, at) for at in range(_DRAWS)]))

    def _drawn(self, n: float, at: int) -> float:
        comments, rng = self._comments, np.random.default_rng((_SEED, at))

        def around(share: float) -> float:
            expected = n * share
            return max(expected + float(np.sqrt(expected)) * float(rng.standard_normal()), 0.0)

        counts = {
            name: (around(one.toxic), around(one.harmless))
            for name, one in comments.identities.items()
        }
        joined = self._hierarchy.group_identities(list(counts))
        for name, one in comments.categories.items():
            members = [counts[member] for member in joined.get(name, ())]
            share = _share(one, [comments.identities[member] for member in joined.get(name, ())])
            counts[name] = (
                share * sum(positive for positive, _ in members),
                share * sum(negative for _, negative in members),
            )
        return self._chance(counts, (n * comments.toxic, n * (1 - comments.toxic)))

    def chance_now(self) -> float:
        """Return the chance to pass with the comments there are."""
        comments = self._comments
        both = {**comments.identities, **comments.categories}
        return self._chance({name: one.have for name, one in both.items()}, comments.have)

    def _chance(
        self, have: Mapping[str, tuple[float, float]], everyone: tuple[float, float]
    ) -> float:
        comments = self._comments
        chance = 1.0
        for rule in self._overall:
            chance *= estimate_auc_chance(rule, comments.guess.auc, comments.guess, *everyone)
        rules_of: dict[str, list[Rule]] = {}
        for name in comments.identities:
            for rule in self._of(name):
                place = self._place(rule, name, have, everyone)
                if place is None:
                    return 0.0
                known = rules_of.setdefault(place, [])
                known += [rule] if rule not in known else []
        for place, rules in rules_of.items():
            guess = {**comments.identities, **comments.categories}[place].guess
            chance *= estimate_group_chance(rules, guess, _counts(have[place], everyone))
        return chance

    def _of(self, name: str) -> list[Rule]:
        """Return the rules about one identity."""
        return [
            rule for rule in self._rules if rule.scope in {EACH, WORST} or name in rule.named_groups
        ]

    def _place(
        self,
        rule: Rule,
        name: str,
        have: Mapping[str, tuple[float, float]],
        everyone: tuple[float, float],
    ) -> str | None:
        """Return where an identity is judged by a rule; None if nowhere."""
        above = (
            self._hierarchy.list_ancestors if self._has_blind else self._hierarchy.list_substitutes
        )
        for place in (name, *above(name)):
            if place in have and not lacks_support(rule, _counts(have[place], everyone)):
                return place
        return None

    def need(self, name: str, wanted: float) -> Need:
        """Return what one identity needs to pass alone with a chance of `wanted`."""
        comments = self._comments
        one, rules = comments.identities[name], self._of(name)
        share = one.toxic / (one.toxic + one.harmless) if one.toxic + one.harmless else 0.5
        outside = [
            max(total - own, 0.0) for total, own in zip(comments.have, one.have, strict=True)
        ]

        def after(more: float) -> PlannedCounts:
            own = one.have[0] + share * more, one.have[1] + (1 - share) * more
            # Without labelled comments, those outside are labelled with these.
            beside = outside
            if not sum(comments.have):
                n = sum(own) / (one.toxic + one.harmless) if one.toxic + one.harmless else MANY
                beside = [
                    max(n * comments.toxic - own[0], 0.0),
                    max(n * (1 - comments.toxic) - own[1], 0.0),
                ]
            return PlannedCounts(*own, *beside)

        def chance(more: float) -> float:
            counts = after(more)
            return estimate_group_chance(rules, one.guess, counts) if rules else 1.0

        more: float | None = 0.0
        if chance(0.0) < wanted:
            more = find_least_rows(chance, wanted)
        found = None if more is None else after(more)
        return Need(
            identity=name,
            judged=self._judged(name),
            toxic=None if found is None else round(found.positive),
            harmless=None if found is None else round(found.negative),
            label=None if more is None else round(more),
        )

    def _judged(self, name: str) -> str | None:
        """Return where an identity is judged now by the rule that needs most."""
        comments = self._comments
        both = {**comments.identities, **comments.categories}
        have = {key: one.have for key, one in both.items()}
        upwards, highest = [name, *self._hierarchy.list_ancestors(name)], name
        for rule in self._of(name):
            place = self._place(rule, name, have, comments.have)
            if place is None:
                return None
            highest = max(highest, place, key=upwards.index)
        return "alone" if highest == name else highest


def _counts(own: tuple[float, float], everyone: tuple[float, float]) -> PlannedCounts:
    outside = (max(total - one, 0.0) for total, one in zip(everyone, own, strict=True))
    return PlannedCounts(*own, *outside)


def _share(category: Mentions, members: Sequence[Mentions]) -> float:
    """Return how many comments a category has for each mention of its identities."""
    total = sum(member.toxic + member.harmless for member in members)
    return (category.toxic + category.harmless) / total if total else 0.0


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
    file: str | Path, policy: Policy, *, auc: float, correlation: float, design_effect: float
) -> Comments:
    """Return what a plan needs from stated shares.

    Parameters
    ----------
    file : str or Path
        A YAML file of `Shares`, or `civil_comments` for the shares of Civil Comments. A file of
        that name is `./civil_comments`.
    auc, correlation, design_effect : float
        What is assumed of every identity: see `PlanAssumptions`.

    Returns
    -------
    Comments
        Nothing is labelled. The identities of a category are taken as not overlapping.

    Raises
    ------
    InputError
        If the file does not exist or a value is wrong.
    """
    path = SHIPPED / f"{file}.yaml" if file == "civil_comments" else Path(file)
    if not path.is_file():
        msg = f"`--shares` must be a file, or civil_comments; {path} does not exist."
        raise InputError(msg)
    shares = read_settings(path, Shares)
    identities = {}
    for name, one in shares.identities.items():
        guess = PlanAssumptions(
            auc=one.auc or auc, correlation=correlation, inflation=design_effect
        )
        identities[name] = Mentions(one.share * one.toxic, one.share * (1 - one.toxic), guess)
    guess = PlanAssumptions(auc=auc, correlation=correlation, inflation=design_effect)
    categories = {
        name: Mentions(
            sum(identities[member].toxic for member in members),
            sum(identities[member].harmless for member in members),
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
    evidence = open_evidence(path)
    identities = evidence.identities
    joined = _joined(policy.hierarchy, identities)
    table = evidence.measure_with(_CONFIDENCE, joined).table
    rows = table.counts[None]
    everyone, n = (rows.n_positive, rows.n_negative), rows.n_positive + rows.n_negative
    groups = {name: one for name, one in table.counts.items() if name is not None}
    agreed = list(_correlations(table))
    factors = {name: list(_inflations(table, name, everyone)) for name in groups}
    every = [one for of_group in factors.values() for one in of_group]

    def mentions(name: str) -> Mentions:
        own = groups[name].n_positive, groups[name].n_negative
        found = {metric: table[metric, name].value for metric in SUBGROUP_METRICS}
        values = {metric: value for metric, value in found.items() if value is not None}
        guess = PlanAssumptions(
            values=values,
            auc=auc,
            correlation=median(agreed) if agreed else correlation,
            inflation=median(factors[name] or every or [1.0]),
        )
        return Mentions(own[0] / n, own[1] / n, guess, own)

    return Comments(
        everyone[0] / n,
        {name: mentions(name) for name in identities},
        {name: mentions(name) for name in joined},
        PlanAssumptions(
            auc=table.overall.auc.value or auc,
            correlation=median(agreed) if agreed else correlation,
        ),
        everyone,
    )


def _joined(hierarchy: Hierarchy | None, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return {} if hierarchy is None else hierarchy.group_identities(names)


def _correlations(table: BiasTable) -> Iterator[float]:
    """Yield how closely two models' estimates agree, in cells with errors of their own."""
    for key, change in table.items():
        if key.group is not None and key.against == "champion" and key.metric in AUCS:
            error, apart = table[key._replace(against=None)].std_error, change.std_error
            if error and apart is not None:
                yield min(max(1 - (apart / error) ** 2 / 2, 0.0), 0.999)


def _inflations(table: BiasTable, name: str, everyone: tuple[int, int]) -> Iterator[float]:
    """Yield how many times larger variances are than those of normal, independent rows."""
    own = table.counts[name].n_positive, table.counts[name].n_negative
    outside = everyone[0] - own[0], everyone[1] - own[1]
    if min(*own, *outside) < 2:
        return
    for metric in AUCS:
        cell = table[metric, name]
        if cell.std_error and cell.value is not None and 0 < cell.value < 1:
            yield (
                cell.std_error
                / predict_standard_error(metric, cell.value, PlannedCounts(*own, *outside))
            ) ** 2
