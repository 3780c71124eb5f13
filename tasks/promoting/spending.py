"""Decisions of a year, counted by the ledger: each spends its share of alpha before it is made.

A decision tests one version: by one policy, on the frozen rows of the required sets, against one
champion and reference, all with their scores. The same decision made again has the same answer, so
it has the share that it spent. Anything else is another decision, and spends a share of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.evidence.file import RIVALS
from biasgate.tasks.evidence.nights import SAME_CHOICES
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import LEAST_LEVEL, OnlineSettings
from biasgate.tasks.ledger.alpha import Asked, Year, find_decision, share_of
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Move, Spending, Spent
from biasgate.tasks.ledger.ledger import CHAMPION, Ledger
from biasgate.tasks.ledger.sound import remember, require_sound
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.promoting.champion import entered, take_turn
from biasgate.tasks.promoting.rivals import Rivals
from biasgate.tasks.records import AlphaShare, Context
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.store import Workplace

RivalScores = dict[str, str]
"""Folders of kept scores on one set, by role."""
Shares = dict[str, AlphaShare]
"""By the candidate's name; the champion has none."""
# An entry is a tag, whose length servers limit.
_MOST = 20


def spend(asked: Sequence[Asked], policy: Policy, ledger: Ledger) -> dict[str, AlphaShare]:
    """Spend a share of the year's alpha on each decision that the ledger does not know yet.

    The entry is written before anything is decided: a process that dies afterwards has spent it,
    and finds it again.

    The shares are by the version's number.
    """
    settings = policy.spending
    assert settings is not None  # noqa: S101 - the caller asks only then
    _require_readable(ledger)
    chain = ledger.chain
    require_sound(ledger, chain)
    new = [one for one in asked if find_decision(chain, one.subject) is None]
    for start in range(0, len(new), _MOST):
        chain = _record(new[start : start + _MOST], policy, settings, ledger)
    return {one.version: share_of(one, chain) for one in asked}


def _record(
    asked: Sequence[Asked], policy: Policy, settings: OnlineSettings, ledger: Ledger
) -> Chain:
    """Write an entry for decisions; return the chain with it."""
    spending = Spending(
        policy=policy.digest,
        bounds=settings.bounds,
        planned=settings.decisions,
        year=datetime.now(UTC).year,
    )
    reason = f"policy {policy.name} counts the decisions of a year (`correction: online`)"
    move = Move(action="spent", reason=reason, spent=[], spending=spending)
    with entered(ledger, move) as entry:
        take_turn(ledger, entry)
        entries = ledger.entries()
        _require_readable(ledger)
        require_sound(ledger, chain := Chain.of(entries))
        ledger.refuse_closed(entry, entries)
        new = [one for one in asked if find_decision(chain, one.subject) is None]
        if not new:  # another process was faster
            ledger.close(entry, "abandoned", "another entry spent the same")
            return chain
        # Whoever sets the clock back stays in the latest year.
        year = max([datetime.now(UTC).year, *_years(chain)])
        spent = _shares(new, policy, settings, Year.of(chain, year))
        spending = replace(spending, year=year)
        content = replace(entry.content, spent=spent, spending=spending)
        claimed = ledger.claim(replace(entry, content=content), chain)
        done = ledger.close(claimed, "done", _note(spent, year))
        whole = Chain([*chain.links, done])
        remember(ledger, whole)
    return whole


def _shares(
    asked: Sequence[Asked], policy: Policy, settings: OnlineSettings, year: Year
) -> list[Spent]:
    found: list[Spent] = []
    for one in asked:
        share = year.next(settings)
        if share * (1 - policy.confidence) < LEAST_LEVEL:
            msg = (
                f"`correction: online` must have some of the year's alpha left for decision "
                f"{len(year.shares) + 1} of {year.year}; nothing is left, since decisions were "
                "counted by other settings before. Nothing can pass before the next year begins."
            )
            raise InputError(msg)
        year = year.with_decision(share)
        number = len(year.shares)
        found.append(Spent(version=one.version, subject=one.subject, number=number, share=share))
    return found


def _note(spent: list[Spent], year: int) -> str:
    first, last = spent[0].number, spent[-1].number
    what = f"decision {first}" if first == last else f"decisions {first} to {last}"
    return f"{what} of {year}"


def _years(chain: Chain) -> list[int]:
    return [
        link.content.counted[0].year for link in chain.links if link.content.counted is not None
    ]


def _require_readable(ledger: Ledger) -> None:
    """Refuse a ledger of which a part cannot be read: it may hold decisions."""
    problem = next(iter(ledger.foreign()), None)
    if problem is not None:
        msg = (
            f"every version of {ledger.name} must be an entry, since `correction: online` counts "
            f"the decisions in it; {problem} Delete it, unless it was an entry before."
        )
        raise InputError(msg)


def asked_of(
    measured: list[Measured], rivals: Rivals, against: list[RivalScores], policy: Policy
) -> Asked | None:
    """Return the decision on a candidate; None if it is the champion, which cannot be promoted."""
    uri = measured[0].candidate.uri
    assert uri is not None  # noqa: S101 - others are refused when the evaluation file is read
    champion = rivals.get(CHAMPION)
    if champion is not None and champion.uri == uri:
        return None
    compared: dict[str, list[str | None]] = {}
    for one, scores in zip(measured, against, strict=True):
        if one.source.required:
            of_rivals = [
                ScoredSet.open(scores[role]).candidate_digest if role in scores else None
                for role in RIVALS
            ]
            compared[one.source.name] = [_rows(one), one.report.candidate.digest, *of_rivals]
    return Asked(uri.rpartition("/")[2], policy.digest, compared)


def _rows(measured: Measured) -> str:
    """Return a digest of the rows; of nights that are pooled, one that is the same every night."""
    evaluation_set = measured.report.evaluation_set
    if measured.source.pool_nights is None:
        return evaluation_set.digest
    choices = {key: getattr(evaluation_set.choices, key) for key in SAME_CHOICES}
    return json_digest(["nights", choices])


def with_share(context: Context, candidate: str, shares: Shares) -> Context:
    """Return what the verdicts on a candidate say of the ledger, with its share of alpha."""
    return replace(context, online=shares[candidate]) if candidate in shares else context


@task(name="count decisions")
def count_decisions(
    measured: list[list[Measured]],
    rivals: Rivals,
    against: list[RivalScores],
    registered_model: str,
    policy: Policy,
    workplace: Workplace,
) -> Shares:
    """Spend a share of the year's alpha on each decision. Safe to retry: it is spent once."""
    asked = {
        on_sets[0].candidate.name: asked_of(on_sets, rivals, against, policy)
        for on_sets in measured
    }
    new = [one for one in asked.values() if one is not None]
    if not new:
        return {}
    found = spend(new, policy, Ledger(workplace.gateway, registered_model))
    shares = {name: found[one.version] for name, one in asked.items() if one is not None}
    for name, one in shares.items():
        say(f"{name}: decision {one.number} of {one.year}, {one.share:.3g} of alpha")
    return shares
