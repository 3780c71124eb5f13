"""The step of an evaluation that has the ledger count its decisions before they are made."""

from __future__ import annotations

from dataclasses import replace

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.evidence.file import RIVALS
from biasgate.tasks.evidence.nights import SAME_CHOICES
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.promoting.decided_shares import Asked
from biasgate.tasks.promoting.ledger import CHAMPION, Ledger
from biasgate.tasks.promoting.rivals import Rivals
from biasgate.tasks.promoting.spending import spend
from biasgate.tasks.records import AlphaShare, Context
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.store import Workplace

RivalScores = dict[str, str]
"""Folders of kept scores on one set, by role."""
Shares = dict[str, AlphaShare]
"""By the candidate's name; the champion has none."""


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
                ScoredSet.record_of(scores[role]).candidate_digest if role in scores else None
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
