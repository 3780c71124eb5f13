"""Assumptions and results of a plan for a policy, and their description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bias_metrics.gate import PlanAssumptions


@dataclass(frozen=True)
class Mentions:
    """Comments that mention an identity, or any identity of a category."""

    toxic: float
    harmless: float
    """With `toxic`, shares of all comments: those that mention the group in each class."""
    guess: PlanAssumptions
    """Assumptions about the metrics of the group."""
    have: tuple[int, int] = (0, 0)
    """Numbers of toxic and harmless comments that are already labelled."""


@dataclass(frozen=True)
class Comments:
    """Known or assumed composition of the comments."""

    toxic: float
    """Share of all comments that are toxic."""
    identities: Mapping[str, Mentions]
    categories: Mapping[str, Mentions]
    """Mentions of each category, by name."""
    guess: PlanAssumptions
    """Assumptions about the overall AUC."""
    have: tuple[int, int] = (0, 0)
    """Numbers of toxic and harmless comments that are already labelled."""


@dataclass(frozen=True)
class Need:
    """Comments needed to judge an identity by its own comments."""

    identity: str
    """Name of the identity."""
    judged: str | None
    """The group that currently decides: `alone` (the identity itself), a category, or None."""
    toxic: int | None
    harmless: int | None
    """With `toxic`, total comments needed in each class; None if no number is sufficient."""
    label: int | None
    """Additional comments to label, drawn at random from those that mention the identity."""


@dataclass(frozen=True)
class Plan:
    """Number of comments that a policy needs."""

    policy: str
    """Name of the policy."""
    power: float
    """The desired probability that a model passes all planned rules."""
    chance: float | None
    """The probability to pass with the current comments; None without labelled comments."""
    comments: int | None
    """Total comments to label, drawn at random; None if no number is sufficient."""
    nights: int | None
    """Nights until then, if the number of comments per night is known."""
    needs: tuple[Need, ...]
    """Needs of the identities, the fewest additional comments first."""
    not_planned: tuple[str, ...]
    """Names of the rules that the plan does not cover."""


def describe_plan(plan: Plan, limit: int = 40) -> Iterator[str]:
    """Yield the description of a plan line by line, with at most `limit` identities."""
    chance_today = "" if plan.chance is None else f" with a probability of {plan.chance:.0%} today"
    yield (
        f"Policy {plan.policy}: a model as good as assumed, and as its champion, passes"
        f"{chance_today or ' with enough comments'}."
    )
    if plan.comments is None:
        yield f"No number of random comments gives a probability of {plan.power:.0%}."
    else:
        nights = f", or {plan.nights:,} nights" if plan.nights is not None else ""
        yield (
            f"For a probability of {plan.power:.0%}: {plan.comments:,} comments drawn at random, "
            f"all labelled{nights}."
        )
    missing = [need for need in plan.needs if need.label]
    more = "comments" if plan.chance is None else "more comments"
    if missing:
        yield "To judge each identity by itself with that probability, the cheapest first:"
    for need in missing[:limit]:
        status = f"; judged in {need.judged} now"
        if need.judged in {None, "alone"}:
            status = "; judged by itself already, with a lower probability" if need.judged else ""
        yield (
            f"  label {need.label:,} {more} that mention {need.identity} "
            f"({need.toxic:,} toxic and {need.harmless:,} harmless in all{status})"
        )
    if len(missing) > limit:
        yield f"  ... and {len(missing) - limit:,} more identities: see them with `--json`"
    sufficient = [need.identity for need in plan.needs if need.label == 0]
    if sufficient:
        yield f"Enough comments: {', '.join(sufficient)}."
    impossible = [need.identity for need in plan.needs if need.label is None]
    if impossible:
        yield (
            f"No number of comments suffices for {', '.join(impossible)}: the assumed numbers miss "
            "a limit, or are too close to it."
        )
    if plan.not_planned:
        yield f"Not planned for: {', '.join(plan.not_planned)}."
