"""How a flow ends: a block is a result, not a crash."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from prefect import runtime
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from biasgate.tasks.outcomes import get_outcome_words
from biasgate.tasks.records import Summary
from biasgate.tasks.wording import summarize_outcome

_concluded: dict[UUID, Summary] = {}


class NotPassedError(RuntimeError):
    """The result of a run that is Failed because its outcome is not a pass.

    Prefect raises what a Failed state carries, and logs it where a worker runs the flow.

    Attributes
    ----------
    summary : Summary
        The summary that a Completed state would carry.
    """

    def __init__(self, summary: Summary) -> None:
        super().__init__(summary)
        self.summary = summary

    def __str__(self) -> str:
        return f"{get_outcome_words(self.summary).text}. {_message(self.summary)}"


def conclude(summary: Summary, *, fail_when_blocked: bool = False) -> State[Any]:
    """Return the state that names the outcome and carries the summary.

    It is Completed. With `fail_when_blocked` it is Failed if the outcome is not a pass, and
    carries the summary in a `NotPassedError`.
    """
    name, message = get_outcome_words(summary).state, _message(summary)
    if runtime.flow_run.id:
        _concluded[UUID(runtime.flow_run.id)] = summary
    if fail_when_blocked and summary.outcome != "pass":
        return Failed(name=name, message=message, data=NotPassedError(summary))
    return Completed(name=name, message=message, data=summary)


def summary_of(state: State[Any]) -> Any:
    """Return the summary with which a flow run of this process ended, whether it passed or not.

    What a state carries does not come back from Prefect's server. It answers with a state of its
    own where it is told the same twice, as after a reply that was lost.

    Raises
    ------
    Exception
        What ended the run, if it did not end with `conclude`.
    """
    known = _concluded.get(state.state_details.flow_run_id or UUID(int=0))
    if known is not None and state.name == get_outcome_words(known).state:
        return known
    return state.result()


def _message(summary: Summary) -> str:
    decisions, verdicts = summary.decisions, summary.verdicts
    return " ".join(
        [
            *(
                f"{decision.candidate}: {summarize_outcome(decision, verdicts)}"
                for decision in decisions
            ),
            *summary.moved,
        ]
    )
