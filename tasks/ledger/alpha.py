"""Which share of a year's alpha a decision has, by what the ledger says of the year."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.gating.policy_rules import OnlineSettings
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry, Spending, Spent
from biasgate.tasks.records import AlphaShare, OnlineRecord, Verdict


@dataclass(frozen=True)
class Asked:
    """A decision that is about to be made."""

    version: str
    """Number of the version."""
    policy: str
    """Digest of the policy."""
    compared: Mapping[str, list[str | None]]
    """For each required set a digest of its rows, and those of the scores of candidate, champion
    and reference; None where there is none."""

    @property
    def subject(self) -> str:
        """A digest of everything that the decision is about."""
        return json_digest([self.version, self.policy, dict(self.compared)])


@dataclass(frozen=True)
class Year:
    """The decisions of a calendar year so far."""

    year: int
    """The year, UTC."""
    shares: Sequence[float] = ()
    """Share of alpha of each decision, in their order."""
    promotions: Sequence[int] = ()
    """For each promotion of a version that a decision of the year was about, how many decisions had
    been made by then."""

    @classmethod
    def of(cls, chain: Chain, year: int) -> Year:
        """Read the decisions of a year; each version's counts for one promotion at most."""
        shares: list[float] = []
        promotions: list[int] = []
        waiting: set[str] = set()
        for link in chain.links:
            content, counted = link.content, link.content.counted
            if counted is not None and counted[0].year == year:
                shares += [spent.share for spent in counted[1]]
                waiting |= {spent.version for spent in counted[1]}
            elif content.action == "promotion" and content.version in waiting:
                promotions.append(len(shares))
                waiting.discard(content.version)
        return cls(year, shares, promotions)

    def next(self, settings: OnlineSettings) -> float:
        """Return the share of the next decision."""
        return settings.share(self.shares, self.promotions)

    def with_decision(self, share: float) -> Year:
        """Return the year with one decision more."""
        return replace(self, shares=[*self.shares, share])


def find_decision(chain: Chain, subject: str) -> tuple[Entry, Spending, Spent] | None:
    """Return where a decision was counted, and how, or None."""
    for link in chain.links:
        if link.content.counted is not None:
            spending, decisions = link.content.counted
            for spent in decisions:
                if spent.subject == subject:
                    return link, spending, spent
    return None


def share_of(asked: Asked, chain: Chain) -> AlphaShare:
    """Return what a verdict says of its share."""
    found = find_decision(chain, asked.subject)
    assert found is not None  # noqa: S101 - it was spent if it was not there
    entry, spending, spent = found
    return AlphaShare(
        bounds=spending.bounds,
        year=spending.year,
        number=spent.number,
        planned=spending.planned if spending.bounds == "any_wrong" else None,
        share=spent.share,
        entry=entry.number,
        subject=asked.subject,
        compared=dict(asked.compared),
    )


def objection_to_share(verdict: Verdict, version: str, chain: Chain) -> str | None:
    """Return why a verdict may not have been decided with the share that it names, or None."""
    record = verdict.online
    assert record is not None  # noqa: S101 - callers know it
    asked = Asked(version, verdict.policy.digest, record.compared)
    found = find_decision(chain, asked.subject)
    if found is None:
        return "the ledger counted no such decision"
    if record != OnlineRecord(**vars(share_of(asked, chain)), level=record.level):
        return f"entry {found[0].number} of the ledger says something else"
    about = record.compared.get(verdict.evaluation_set.name)
    if about is not None and about != _about(verdict, about[:1]):
        return "it was counted for other rows or scores"
    return objection_to_entry(found[0], chain)


def _about(verdict: Verdict, rows: list[str | None]) -> list[str | None]:
    """Return what a verdict is about; the rows of several nights have no digest."""
    rivals = verdict.champion, verdict.reference
    return [
        *(rows if verdict.nights is not None else [verdict.evaluation_set.digest]),
        verdict.candidate.digest,
        *(None if rival is None else rival.digest for rival in rivals),
    ]


def objection_to_entry(entry: Entry, chain: Chain) -> str | None:
    """Return why an entry spent more than its settings give it, or None."""
    counted = entry.content.counted
    assert counted is not None  # noqa: S101 - callers know it
    spending, decisions = counted
    settings = OnlineSettings(bounds=spending.bounds, decisions=spending.planned)
    year = Year.of(chain.before(entry.number), spending.year)
    for spent in decisions:
        share = year.next(settings)
        if (spent.number, spent.share) != (len(year.shares) + 1, share):
            return f"entry {entry.number} spends {spent.share:g} of alpha, where {share:g} is due"
        year = year.with_decision(share)
    return None
