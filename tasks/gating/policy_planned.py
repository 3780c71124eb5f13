"""Plans of the number of comments that a policy needs, before labelling or after an evaluation."""

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
_N_DRAWS, _SEED = 12, 11


def plan_policy(
    policy: Policy, comments: Comments, *, power: float = POWER, per_night: int | None = None
) -> Plan:
    """Compute the number of comments that a policy needs.

    Parameters
    ----------
    policy : Policy
        The policy. Rules that cannot be planned are listed in the result.
    comments : Comments
        Known or assumed composition of the comments.
    power : float, default=0.8
        The desired probability to pass, for a model that is as good as assumed and as its champion.
    per_night : int, optional
        Number of comments that are labelled per night.

    Returns
    -------
    Plan
        By the normal approximation. Groups are treated as independent.
    """
    planner = _Planner(policy, comments)
    total = find_least_rows(planner.estimate_chance, power, least=100.0)
    wanted = power ** (1 / max(len(comments.identities), 1))
    needs = [planner.estimate_need(name, wanted) for name in comments.identities]
    return Plan(
        policy=policy.name,
        power=power,
        chance=planner.estimate_current_chance() if sum(comments.have) else None,
        comments=None if total is None else round(total),
        nights=None if total is None or per_night is None else -(-round(total) // per_night),
        needs=tuple(sorted(needs, key=lambda need: (need.label is None, need.label or 0))),
        not_planned=planner.not_planned,
    )


class _Planner:
    """Probabilities to pass the rules of a policy for given numbers of comments."""

    def __init__(self, policy: Policy, comments: Comments) -> None:
        rules = policy.decision_rules()
        plannable = [rule for rule in rules if is_planned(rule) or rule.scope == OVERALL]
        self._rules = [rule for rule in plannable if rule.scope != OVERALL and rule.slice is None]
        self._overall = [rule for rule in plannable if rule.scope == OVERALL and rule.slice is None]
        planned_names = {rule.name for rule in (*self._rules, *self._overall)}
        self.not_planned = tuple(rule.name for rule in rules if rule.name not in planned_names)
        self._comments = comments
        self._hierarchy = policy.hierarchy or Hierarchy({})
        # With `blind`, all ancestors of an identity may decide for it, even the top category.
        self._has_blind = policy.blind is not None

    def estimate_chance(self, n: float) -> float:
        """Return the probability to pass with `n` comments drawn at random."""
        return float(np.mean([self._simulate_chance(n, draw) for draw in range(_N_DRAWS)]))

    def _simulate_chance(self, n: float, draw: int) -> float:
        comments, rng = self._comments, np.random.default_rng((_SEED, draw))

        def draw_count(share: float) -> float:
            expected = n * share
            return max(expected + float(np.sqrt(expected)) * float(rng.standard_normal()), 0.0)

        counts = {
            name: (draw_count(mentions.toxic), draw_count(mentions.harmless))
            for name, mentions in comments.identities.items()
        }
        members_of = self._hierarchy.group_identities(list(counts))
        for name, mentions in comments.categories.items():
            members = [counts[member] for member in members_of.get(name, ())]
            per_mention = _count_per_mention(
                mentions, [comments.identities[member] for member in members_of.get(name, ())]
            )
            counts[name] = (
                per_mention * sum(positive for positive, _ in members),
                per_mention * sum(negative for _, negative in members),
            )
        return self._compute_chance(counts, (n * comments.toxic, n * (1 - comments.toxic)))

    def estimate_current_chance(self) -> float:
        """Return the probability to pass with the comments that are already labelled."""
        comments = self._comments
        groups = {**comments.identities, **comments.categories}
        return self._compute_chance(
            {name: mentions.have for name, mentions in groups.items()}, comments.have
        )

    def _compute_chance(
        self, counts: Mapping[str, tuple[float, float]], overall_counts: tuple[float, float]
    ) -> float:
        comments = self._comments
        chance = 1.0
        for rule in self._overall:
            chance *= estimate_auc_chance(rule, comments.guess.auc, comments.guess, *overall_counts)
        rules_by_place: dict[str, list[Rule]] = {}
        for name in comments.identities:
            for rule in self._select_rules(name):
                place = self._find_place(rule, name, counts, overall_counts)
                if place is None:
                    return 0.0
                place_rules = rules_by_place.setdefault(place, [])
                place_rules += [rule] if rule not in place_rules else []
        for place, rules in rules_by_place.items():
            guess = {**comments.identities, **comments.categories}[place].guess
            chance *= estimate_group_chance(
                rules, guess, _make_counts(counts[place], overall_counts)
            )
        return chance

    def _select_rules(self, name: str) -> list[Rule]:
        """Return the rules that apply to an identity."""
        return [
            rule for rule in self._rules if rule.scope in {EACH, WORST} or name in rule.named_groups
        ]

    def _find_place(
        self,
        rule: Rule,
        name: str,
        counts: Mapping[str, tuple[float, float]],
        overall_counts: tuple[float, float],
    ) -> str | None:
        """Return the identity or category whose comments a rule uses; None if all are too small."""
        list_places = (
            self._hierarchy.list_ancestors if self._has_blind else self._hierarchy.list_substitutes
        )
        for place in (name, *list_places(name)):
            if place in counts and not lacks_support(
                rule, _make_counts(counts[place], overall_counts)
            ):
                return place
        return None

    def estimate_need(self, name: str, wanted: float) -> Need:
        """Return the comments an identity needs to pass by itself with probability `wanted`."""
        comments = self._comments
        mentions, rules = comments.identities[name], self._select_rules(name)
        mention_share = mentions.toxic + mentions.harmless
        share = mentions.toxic / mention_share if mention_share else 0.5
        outside = [
            max(total - own, 0.0) for total, own in zip(comments.have, mentions.have, strict=True)
        ]

        def add_comments(more: float) -> PlannedCounts:
            own = mentions.have[0] + share * more, mentions.have[1] + (1 - share) * more
            # Without labelled comments, the other comments are labelled along with these.
            other_counts = outside
            if not sum(comments.have):
                n = sum(own) / mention_share if mention_share else MANY
                other_counts = [
                    max(n * comments.toxic - own[0], 0.0),
                    max(n * (1 - comments.toxic) - own[1], 0.0),
                ]
            return PlannedCounts(*own, *other_counts)

        def estimate_group(more: float) -> float:
            counts = add_comments(more)
            return estimate_group_chance(rules, mentions.guess, counts) if rules else 1.0

        more: float | None = 0.0
        if estimate_group(0.0) < wanted:
            more = find_least_rows(estimate_group, wanted)
        needed = None if more is None else add_comments(more)
        return Need(
            identity=name,
            judged=self._find_current_place(name),
            toxic=None if needed is None else round(needed.positive),
            harmless=None if needed is None else round(needed.negative),
            label=None if more is None else round(more),
        )

    def _find_current_place(self, name: str) -> str | None:
        """Return the highest category that currently decides for an identity by any rule.

        `alone` if its own comments suffice for all rules; None if a rule cannot be judged.
        """
        comments = self._comments
        groups = {**comments.identities, **comments.categories}
        counts = {key: mentions.have for key, mentions in groups.items()}
        ancestors, highest = [name, *self._hierarchy.list_ancestors(name)], name
        for rule in self._select_rules(name):
            place = self._find_place(rule, name, counts, comments.have)
            if place is None:
                return None
            highest = max(highest, place, key=ancestors.index)
        return "alone" if highest == name else highest


def _make_counts(own: tuple[float, float], overall: tuple[float, float]) -> PlannedCounts:
    outside = (max(total - part, 0.0) for total, part in zip(overall, own, strict=True))
    return PlannedCounts(*own, *outside)


def _count_per_mention(category: Mentions, members: Sequence[Mentions]) -> float:
    """Return the number of comments of a category per mention of its identities.

    Below 1 if comments mention several identities of the category.
    """
    total = sum(member.toxic + member.harmless for member in members)
    return (category.toxic + category.harmless) / total if total else 0.0


Share = Annotated[float, Field(gt=0, lt=1)]
SHIPPED = Path(__file__).parent / "prevalences"
_CONFIDENCE = 0.9


class MentionShares(Settings):
    """Frequency of an identity in a file of shares."""

    share: Share
    """Share of all comments that mention the identity."""
    toxic: Share
    """Share of these comments that are toxic."""
    auc: Annotated[float, Field(gt=0.5, lt=1)] | None = None
    """Assumed AUCs of the identity. Default: the value for all identities."""


class Shares(Settings):
    """A file with the frequencies of identities and toxic comments."""

    toxic: Share
    """Share of all comments that are toxic."""
    identities: Annotated[dict[Name, MentionShares], Field(min_length=1)]
    """Frequencies of the identities, by name."""


def read_comment_shares(
    file: str | Path, policy: Policy, *, auc: float, correlation: float, design_effect: float
) -> Comments:
    """Return the composition of the comments from assumed shares.

    Parameters
    ----------
    file : str or Path
        A YAML file of `Shares`, or `civil_comments` for the shares of Civil Comments. A file with
        that name must be given as `./civil_comments`.
    policy : Policy
        The policy, for its categories.
    auc, correlation, design_effect : float
        Assumptions about every identity; see `PlanAssumptions`.

    Returns
    -------
    Comments
        Without labelled comments. The identities of a category are assumed not to overlap.

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
    for name, entry in shares.identities.items():
        guess = PlanAssumptions(
            auc=entry.auc or auc, correlation=correlation, inflation=design_effect
        )
        identities[name] = Mentions(
            entry.share * entry.toxic, entry.share * (1 - entry.toxic), guess
        )
    guess = PlanAssumptions(auc=auc, correlation=correlation, inflation=design_effect)
    categories = {
        name: Mentions(
            sum(identities[member].toxic for member in members),
            sum(identities[member].harmless for member in members),
            guess,
        )
        for name, members in _group_names(policy.hierarchy, list(identities)).items()
    }
    return Comments(shares.toxic, identities, categories, guess)


def measure_comments(path: Path, policy: Policy, *, correlation: float, auc: float) -> Comments:
    """Return the composition of the comments of an evaluation.

    Values, standard errors and the correlation with the champion are those measured.

    Parameters
    ----------
    path : Path
        An `evidence.parquet`, or the folder of results that holds it.
    policy : Policy
        The policy, for its categories.
    correlation : float
        Assumed correlation of the two models' estimates, for evaluations without a champion.
    auc : float
        Assumed AUC of identities without measured values.

    Returns
    -------
    Comments
        Measured standard errors account for clusters if the set has clusters.

    Raises
    ------
    InputError
        If the file does not exist.
    """
    evidence = open_evidence(path)
    identities = evidence.identities
    categories = _group_names(policy.hierarchy, identities)
    table = evidence.measure_with(_CONFIDENCE, categories).table
    rows = table.counts[None]
    overall, n = (rows.n_positive, rows.n_negative), rows.n_positive + rows.n_negative
    groups = {name: counts for name, counts in table.counts.items() if name is not None}
    correlations = list(_estimate_correlations(table))
    factors = {name: list(_estimate_inflations(table, name, overall)) for name in groups}
    all_factors = [counts for group_factors in factors.values() for counts in group_factors]

    def measure_mentions(name: str) -> Mentions:
        own = groups[name].n_positive, groups[name].n_negative
        cells = {metric: table[metric, name].value for metric in SUBGROUP_METRICS}
        values = {metric: value for metric, value in cells.items() if value is not None}
        guess = PlanAssumptions(
            values=values,
            auc=auc,
            correlation=median(correlations) if correlations else correlation,
            inflation=median(factors[name] or all_factors or [1.0]),
        )
        return Mentions(own[0] / n, own[1] / n, guess, own)

    return Comments(
        overall[0] / n,
        {name: measure_mentions(name) for name in identities},
        {name: measure_mentions(name) for name in categories},
        PlanAssumptions(
            auc=table.overall.auc.value or auc,
            correlation=median(correlations) if correlations else correlation,
        ),
        overall,
    )


def _group_names(hierarchy: Hierarchy | None, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return {} if hierarchy is None else hierarchy.group_identities(names)


def _estimate_correlations(table: BiasTable) -> Iterator[float]:
    """Yield the correlation of the estimates of two models, for each AUC with a standard error."""
    for key, change in table.items():
        if key.group is not None and key.against == "champion" and key.metric in AUCS:
            error, difference_error = table[key._replace(against=None)].std_error, change.std_error
            if error and difference_error is not None:
                yield min(max(1 - (difference_error / error) ** 2 / 2, 0.0), 0.999)


def _estimate_inflations(table: BiasTable, name: str, overall: tuple[int, int]) -> Iterator[float]:
    """Yield ratios of measured variances to those predicted for normal, independent rows."""
    own = table.counts[name].n_positive, table.counts[name].n_negative
    outside = overall[0] - own[0], overall[1] - own[1]
    if min(*own, *outside) < 2:
        return
    for metric in AUCS:
        cell = table[metric, name]
        if cell.std_error and cell.value is not None and 0 < cell.value < 1:
            yield (
                cell.std_error
                / predict_standard_error(metric, cell.value, PlannedCounts(*own, *outside))
            ) ** 2
