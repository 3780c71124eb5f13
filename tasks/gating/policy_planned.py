"""How many comments a policy needs, before anything is labelled or after an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bias_metrics.gate import (
    EACH,
    OVERALL,
    WORST,
    Counts,
    Hierarchy,
    Rule,
    chance_of_auc,
    chance_of_group,
    is_planned,
    lacks_support,
    least_rows,
)
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
    total = least_rows(planner.chance_at, power, least=100.0)
    wanted = power ** (1 / max(len(comments.identities), 1))
    needs = [planner.need(name, wanted) for name in comments.identities]
    return Plan(
        policy=policy.name,
        power=power,
        chance=planner.chance_now() if sum(comments.have) else None,
        comments=None if total is None else round(total),
        nights=None if total is None or per_night is None else -(-round(total) // per_night),
        needs=tuple(sorted(needs, key=lambda one: (one.label is None, one.label or 0))),
        not_planned=planner.not_planned,
    )


class _Planner:
    """The rules of a policy, and the comments that they are about."""

    def __init__(self, policy: Policy, comments: Comments) -> None:
        rules = policy.decision_rules(policy.first_share)
        known = [rule for rule in rules if is_planned(rule) or rule.scope == OVERALL]
        self._rules = [rule for rule in known if rule.scope != OVERALL and rule.slice is None]
        self._overall = [rule for rule in known if rule.scope == OVERALL and rule.slice is None]
        kept = {rule.name for rule in (*self._rules, *self._overall)}
        self.not_planned = tuple(rule.name for rule in rules if rule.name not in kept)
        self._comments = comments
        self._hierarchy = policy.hierarchy or Hierarchy({})

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
        joined = self._hierarchy.joined(list(counts))
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
            chance *= chance_of_auc(rule, comments.guess.auc, comments.guess, *everyone)
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
            chance *= chance_of_group(rules, guess, _counts(have[place], everyone))
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
        for place in (name, *self._hierarchy.above(name)):
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

        def after(more: float) -> Counts:
            own = one.have[0] + share * more, one.have[1] + (1 - share) * more
            # Without labelled comments, those outside are labelled with these.
            beside = outside
            if not sum(comments.have):
                n = sum(own) / (one.toxic + one.harmless) if one.toxic + one.harmless else MANY
                beside = [
                    max(n * comments.toxic - own[0], 0.0),
                    max(n * (1 - comments.toxic) - own[1], 0.0),
                ]
            return Counts(*own, *beside)

        def chance(more: float) -> float:
            counts = after(more)
            return chance_of_group(rules, one.guess, counts) if rules else 1.0

        more: float | None = 0.0
        if chance(0.0) < wanted:
            more = least_rows(chance, wanted)
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
        places = [self._place(rule, name, have, comments.have) for rule in self._of(name)]
        if None in places:
            return None
        above = [place for place in places if place != name]
        return above[-1] if above else "alone"


def _counts(own: tuple[float, float], everyone: tuple[float, float]) -> Counts:
    outside = (max(total - one, 0.0) for total, one in zip(everyone, own, strict=True))
    return Counts(*own, *outside)


def _share(category: Mentions, members: Sequence[Mentions]) -> float:
    """Return how many comments a category has for each mention of its identities."""
    total = sum(one.toxic + one.harmless for one in members)
    return (category.toxic + category.harmless) / total if total else 0.0
