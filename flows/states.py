"""Final states of flows: a block is a result, not a crash."""

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
    """Error of a flow run that is Failed because its outcome is not a pass.

    Prefect raises the data of a Failed state, and logs it if a worker runs the flow.

    Attributes
    ----------
    summary : Summary
        The data of a Completed state.
    """

    def __init__(self, summary: Summary) -> None:
        super().__init__(summary)
        self.summary = summary

    def __str__(self) -> str:
        return f"{get_outcome_words(self.summary).text}. {_describe_summary(self.summary)}"


def conclude(summary: Summary, *, fail_when_blocked: bool = False) -> State[Any]:
    """Return the final state, with the outcome as name and the summary as data.

    The state is Completed. With `fail_when_blocked` it is Failed if the outcome is not a pass, with
    the summary in a `NotPassedError`.
    """
    name, message = get_outcome_words(summary).state, _describe_summary(summary)
    if runtime.flow_run.id:
        _concluded[UUID(runtime.flow_run.id)] = summary
    if fail_when_blocked and summary.outcome != "pass":
        return Failed(name=name, message=message, data=NotPassedError(summary))
    return Completed(name=name, message=message, data=summary)


def get_summary(state: State[Any]) -> Any:
    """Return the summary of a concluded flow run of this process.

    The data of a state is not stored on Prefect's server. If a state is set twice, as after a lost
    response, the server returns its own state without data. So summaries are kept in this process.

    Raises
    ------
    Exception
        The error of the run, if it did not end with `conclude`.
    """
    summary = _concluded.get(state.state_details.flow_run_id or UUID(int=0))
    if summary is not None and state.name == get_outcome_words(summary).state:
        return summary
    return state.result()


def _describe_summary(summary: Summary) -> str:
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
