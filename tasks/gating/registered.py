"""Whether a policy was registered before the scores were made that it judges."""

from __future__ import annotations

from dataclasses import replace

from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.records import Context
from biasgate.tasks.scoring.scored_set import ScoredSet


def with_scores(context: Context, measured: Measured) -> Context:
    """Return the context, which says whether the policy was registered before the scores were made.

    It is unknown for a file of scores, which was made elsewhere.
    """
    registered = context.registered_policy
    if registered is None or measured.candidate.kind == "scores":
        return context
    made = ScoredSet.open(measured.scores).record.made
    known = replace(registered, before_scores=registered.at <= made)
    return replace(context, registered_policy=known)
