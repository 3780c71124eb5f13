"""What a plan rests on, what it says, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bias_metrics.gate import PlanAssumptions


@dataclass(frozen=True)
class Mentions:
    """Comments that mention one identity, or any of a category."""

    toxic: float
    harmless: float
    """Share of all comments that mention it and are toxic, or harmless."""
    guess: PlanAssumptions
    """What is assumed of its numbers."""
    have: tuple[int, int] = (0, 0)
    """Toxic and harmless comments that are labelled already."""


@dataclass(frozen=True)
class Comments:
    """What is known or assumed of the comments."""

    toxic: float
    """Share of all comments that are toxic."""
    identities: Mapping[str, Mentions]
    categories: Mapping[str, Mentions]
    """By name."""
    guess: PlanAssumptions
    """What is assumed of the overall AUC."""
    have: tuple[int, int] = (0, 0)
    """Toxic and harmless comments that are labelled already."""


@dataclass(frozen=True)
class Need:
    """What one identity needs to be judged alone."""

    identity: str
    """Its name."""
    judged: str | None
    """Where it is judged with the comments there are: `alone`, a category, or None."""
    toxic: int | None
    harmless: int | None
    """Comments of each class that are needed in all; None if no number is enough."""
    label: int | None
    """Further comments that mention it to label, drawn at random among them."""


@dataclass(frozen=True)
class Plan:
    """How many comments a policy needs."""

    policy: str
    """Its name."""
    power: float
    """The wanted chance that a model passes everything that is planned for."""
    chance: float | None
    """That chance with the comments there are; None if there are none."""
    comments: int | None
    """Comments to label in all, drawn at random; None if no number is enough."""
    nights: int | None
    """Nights that take, if the number of comments a night is known."""
    needs: tuple[Need, ...]
    """By identity, the cheapest first."""
    not_planned: tuple[str, ...]
    """Rules that no plan covers."""


def told(plan: Plan, limit: int = 40) -> Iterator[str]:
    """Yield a plan in words, line by line."""
    now = "" if plan.chance is None else f" with a probability of {plan.chance:.0%} today"
    yield (
        f"Policy {plan.policy}: a model as good as assumed, and as its champion, passes"
        f"{now or ' with enough comments'}."
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
        where = f"; judged in {need.judged} now"
        if need.judged in {None, "alone"}:
            where = "; judged by itself already, with a lower probability" if need.judged else ""
        yield (
            f"  label {need.label:,} {more} that mention {need.identity} "
            f"({need.toxic:,} toxic and {need.harmless:,} harmless in all{where})"
        )
    if len(missing) > limit:
        yield f"  ... and {len(missing) - limit:,} more identities: see them with `--json`"
    enough = [need.identity for need in plan.needs if need.label == 0]
    if enough:
        yield f"Enough comments: {', '.join(enough)}."
    never = [need.identity for need in plan.needs if need.label is None]
    if never:
        yield (
            f"No number of comments suffices for {', '.join(never)}: the assumed numbers miss a "
            "limit, or are too close to it."
        )
    if plan.not_planned:
        yield f"Not planned for: {', '.join(plan.not_planned)}."
