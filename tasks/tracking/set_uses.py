"""How often an evaluation set was used, and how far its best candidate may be flattered.

Which candidates it has judged is in tags of the evaluation's experiment: one tag for each set and
candidate, so that evaluations at the same time do not overwrite each other, and the same candidate
counts once.
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
    """Note which candidates the sets have judged; return how often each was used. Safe to retry."""
    gateway = run.workplace.gateway
    experiment_id = gateway.experiment_of(run.run_id)
    known = set(gateway.experiment_tags(experiment_id))
    new = {_tag(verdict): verdict.decided_on for verdict in verdicts if _tag(verdict) not in known}
    gateway.tag_experiment(experiment_id, new)
    by_set: dict[str, list[LoggedVerdict]] = {}
    for verdict in verdicts:
        by_set.setdefault(verdict.evaluation_set.name, []).append(verdict)
    found = [
        use_of(of_set, sum(tag.startswith(_of_set(of_set[0])) for tag in known | new.keys()))
        for of_set in by_set.values()
    ]
    for use in found:
        if use.spent_by is not None:
            log_message(use.sentence)
    return found


def _of_set(verdict: LoggedVerdict) -> str:
    return f"{PREFIX}{verdict.evaluation_set.digest[:_DIGITS]}."


def _tag(verdict: LoggedVerdict) -> str:
    return _of_set(verdict) + verdict.candidate.digest[:_DIGITS]


_NORMAL = NormalDist()


def use_of(verdicts: Sequence[Verdict], n_candidates: int) -> SetUse:
    """Return how far a set may flatter the best of all candidates that it has judged.

    A set is spent if chance alone is expected to make the best one look better than the champion
    by as much as the policy asks as proof.

    Parameters
    ----------
    verdicts : sequence of Verdict
        Those of this evaluation on the set, at least one.
    n_candidates : int
        Different candidates that the set has judged, these included.
    """
    first = verdicts[0]
    # Candidates share the errors of the set's rows; what is their own is that of a difference
    # over the root of 2.
    own = 1 / math.sqrt(2)
    chosen, adaptive = (estimate_optimism(own, n_candidates, adaptive=one) for one in (False, True))
    bound = min(_distance(verdict) for verdict in verdicts)
    spent_by: SpentBy | None = "adaptive use" if adaptive >= bound else None
    spent_by = "selection" if chosen >= bound else spent_by
    errors = [one for one in map(_error, verdicts) if one]
    error = median(errors) if errors else None
    use = SetUse(
        name=first.evaluation_set.name,
        digest=first.evaluation_set.digest,
        n_candidates=n_candidates,
        n_tonight=len({verdict.candidate.digest for verdict in verdicts}),
        objective=first.objective.metric,
        flattered_by=None if error is None else chosen * error,
        at_most=None if error is None else adaptive * error,
        spent_by=spent_by,
        sentence="",
    )
    return replace(use, sentence=_sentence(use))


def _sentence(use: SetUse) -> str:
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
        guided = "In that case" if use.at_most else "If earlier results guided later candidates"
        text += (
            f" {guided}, the set is spent: chance may make the last candidate look better by as "
            "much as the policy requires as proof. Then use new comments."
        )
    return text


def _distance(verdict: Verdict) -> float:
    """Return how many standard errors a proven number lies from the limit at least."""
    return _NORMAL.inv_cdf(verdict.objective.confidence)


def _error(verdict: Verdict) -> float | None:
    """Return the standard error of the objective's difference from the champion's."""
    objective = verdict.objective
    low, high = objective.low, objective.high
    if low is None or high is None:
        return None
    return (high - low) / 2 / _NORMAL.inv_cdf(objective.confidence)
