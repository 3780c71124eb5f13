"""Reuse of evaluation sets, and the optimism of the best candidate that it can cause.

The tags of the experiment record the judged candidates. Each pair of set and candidate has its own
tag: concurrent evaluations do not overwrite each other, and each candidate counts once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist, median

from bias_metrics.gate import estimate_optimism
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.records import LoggedVerdict, SetUse, Verdict
from biasgate.tasks.records.summary import SpentBy
from biasgate.tasks.tracking.resume import EvaluationRun

PREFIX = "biasgate.judged."
_DIGITS = 16


@task(name="count uses of sets")
def count_set_uses(verdicts: Sequence[LoggedVerdict], run: EvaluationRun) -> list[SetUse]:
    """Record the judged candidates of each set, and return the uses. Safe to retry."""
    gateway = run.workplace.gateway
    experiment_id = gateway.get_experiment_id(run.run_id)
    old_tags = set(gateway.get_experiment_tags(experiment_id))
    new_tags = {
        _make_tag(verdict): verdict.decided_on
        for verdict in verdicts
        if _make_tag(verdict) not in old_tags
    }
    gateway.tag_experiment(experiment_id, new_tags)
    by_set: dict[str, list[LoggedVerdict]] = {}
    for verdict in verdicts:
        by_set.setdefault(verdict.evaluation_set.name, []).append(verdict)
    uses = [
        assess_set_use(
            set_verdicts,
            sum(
                tag.startswith(_make_set_prefix(set_verdicts[0]))
                for tag in old_tags | new_tags.keys()
            ),
        )
        for set_verdicts in by_set.values()
    ]
    for use in uses:
        if use.spent_by is not None:
            log_message(use.sentence)
    return uses


def _make_set_prefix(verdict: LoggedVerdict) -> str:
    return f"{PREFIX}{verdict.evaluation_set.digest[:_DIGITS]}."


def _make_tag(verdict: LoggedVerdict) -> str:
    return _make_set_prefix(verdict) + verdict.candidate.digest[:_DIGITS]


_NORMAL = NormalDist()


def assess_set_use(verdicts: Sequence[Verdict], n_candidates: int) -> SetUse:
    """Return the optimism of the best candidate among all that a set has judged.

    A set is spent if, by chance, the best candidate is expected to exceed the champion by the
    difference that the policy requires as proof.

    Parameters
    ----------
    verdicts : sequence of Verdict
        The verdicts of this evaluation on the set, at least one.
    n_candidates : int
        Distinct candidates that the set has judged, including these.
    """
    first = verdicts[0]
    # Candidates share most of the sampling error of the rows. The standard error of the difference
    # of two candidates is the root of 2 times the error that is a candidate's own.
    own_error = 1 / math.sqrt(2)
    selection, adaptive = (
        estimate_optimism(own_error, n_candidates, adaptive=is_adaptive)
        for is_adaptive in (False, True)
    )
    # The fewest standard errors that must lie between a proven number and its limit.
    bound = min(_NORMAL.inv_cdf(verdict.objective.confidence) for verdict in verdicts)
    spent_by: SpentBy | None = "adaptive use" if adaptive >= bound else None
    spent_by = "selection" if selection >= bound else spent_by
    errors = [error for error in map(_estimate_error, verdicts) if error]
    error = median(errors) if errors else None
    use = SetUse(
        name=first.evaluation_set.name,
        digest=first.evaluation_set.digest,
        n_candidates=n_candidates,
        n_tonight=len({verdict.candidate.digest for verdict in verdicts}),
        objective=first.objective.metric,
        flattered_by=None if error is None else selection * error,
        at_most=None if error is None else adaptive * error,
        spent_by=spent_by,
        sentence="",
    )
    return replace(use, sentence=_describe_use(use))


def _describe_use(use: SetUse) -> str:
    n = use.n_candidates
    text = f"{use.name} has judged {n:,} candidate{'' if n == 1 else 's'} so far."
    if use.flattered_by is not None and use.at_most is not None and n > 1:
        text += (
            f" The best of {n:,} equal candidates looks {use.flattered_by:.4f} better in "
            f"{use.objective} by chance; up to {use.at_most:.4f} better if earlier results "
            "guided later candidates."
        )
    if use.spent_by == "selection":
        text += (
            " The set is spent: chance makes the best candidate look better by as much as the "
            "policy requires as proof. Use new comments."
        )
    elif use.spent_by == "adaptive use":
        condition = "In that case" if use.at_most else "If earlier results guided later candidates"
        text += (
            f" {condition}, the set is spent: chance may make the last candidate look better by as "
            "much as the policy requires as proof. Then use new comments."
        )
    return text


def _estimate_error(verdict: Verdict) -> float | None:
    """Return the standard error of the objective's difference from the champion's."""
    objective = verdict.objective
    low, high = objective.low, objective.high
    if low is None or high is None:
        return None
    return (high - low) / 2 / _NORMAL.inv_cdf(objective.confidence)
