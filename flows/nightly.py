"""The scheduled evaluation: the same as `evaluate`, with a new folder for each run."""

from __future__ import annotations

from typing import Any

from prefect import flow

from biasgate.flows.evaluate import evaluate
from biasgate.flows.own_runs import own_run, steps_of
from biasgate.flows.states import conclude, summary_of
from biasgate.tasks.common.own_folders import discard_if_empty
from biasgate.tasks.records import NightSummary, Summary
from biasgate.tasks.reporting.publish import folder_of_this_run
from biasgate.tasks.tracking.prefect_pages import show_summary


@flow(name="nightly", flow_run_name="nightly {config}", on_running=[own_run])
def nightly(
    config: str,
    output: str,
    store: str,
    *,
    outcome_of: list[str] | None = None,
    fail_when_blocked: bool = False,
    yes: bool = False,
    sample: int | None = None,
) -> Any:
    """Evaluate, and show the result on Prefect's pages.

    - create a folder named after the time of this run
    - run `evaluate` into it (sets and scores that did not change are reused); the champion is
      measured even if it is no candidate, and the night is compared with those before
    - publish the summary as a Prefect artifact

    Parameters
    ----------
    config : str
        As in `evaluate`; aliases such as `models:/toxicity@champion` are looked up again each
        night.
    store : str
        As in `evaluate`.
    outcome_of : list of str, optional
        As in `evaluate`.
    fail_when_blocked : bool, default=False
        End in a state of type Failed if the outcome is not a pass; its name is the same.
    yes : bool, default=False
        As in `evaluate`.
    sample : int, optional
        As in `evaluate`.

    Returns
    -------
    dict
        As `evaluate`. Without `fail_when_blocked` a block is a result, not a failure.
    """
    with steps_of(config, store):
        folder = folder_of_this_run(output, store)
        with discard_if_empty(folder):
            state: Any = evaluate(
                config,
                folder,
                store,
                outcome_of=outcome_of,
                yes=yes,
                night=True,
                sample=sample,
                return_state=True,
            )
            summary: Summary = summary_of(state)
        show_summary(summary, folder)
        night = NightSummary(**vars(summary), output=folder)
        return conclude(night, fail_when_blocked=fail_when_blocked)
