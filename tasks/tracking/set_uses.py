"""Which candidates each evaluation set has judged: tags of the evaluation's experiment.

One tag for each set and candidate, so that evaluations at the same time do not overwrite each
other, and the same candidate counts once.
"""

from __future__ import annotations

from collections.abc import Sequence

from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.gating.set_use import use_of
from biasgate.tasks.records import LoggedVerdict, SetUse
from biasgate.tasks.tracking.resume import EvaluationRun

PREFIX = "biasgate.judged."
_DIGITS = 16


@task(name="count uses of sets")
def count_set_uses(verdicts: Sequence[LoggedVerdict], run: EvaluationRun) -> list[SetUse]:
    """Note which candidates the sets have judged; return how often each was used. Safe to retry."""
    gateway = run.workplace.gateway
    experiment_id = gateway.experiment_of(run.run_id)
    known = set(gateway.experiment_tags(experiment_id))
    new = {_tag(one): one.decided_on for one in verdicts if _tag(one) not in known}
    gateway.tag_experiment(experiment_id, new)
    by_set: dict[str, list[LoggedVerdict]] = {}
    for one in verdicts:
        by_set.setdefault(one.evaluation_set.name, []).append(one)
    found = [
        use_of(of_set, sum(tag.startswith(_of_set(of_set[0])) for tag in known | new.keys()))
        for of_set in by_set.values()
    ]
    for use in found:
        if use.spent_by is not None:
            say(use.sentence)
    return found


def _of_set(verdict: LoggedVerdict) -> str:
    return f"{PREFIX}{verdict.evaluation_set.digest[:_DIGITS]}."


def _tag(verdict: LoggedVerdict) -> str:
    return _of_set(verdict) + verdict.candidate.digest[:_DIGITS]
