"""Scheduled evaluation: `evaluate` with a new folder for each run."""

from __future__ import annotations

from typing import Any

from prefect import flow

from biasgate.flows.evaluate import evaluate
from biasgate.flows.own_runs import apply_file_settings, record_own_run
from biasgate.flows.states import conclude, get_summary
from biasgate.tasks.common.own_folders import discard_if_empty
from biasgate.tasks.records import NightSummary, Summary
from biasgate.tasks.reporting.publish import create_run_folder
from biasgate.tasks.tracking.prefect_pages import show_summary


@flow(name="nightly", flow_run_name="nightly {config}", on_running=[record_own_run])
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
    - run `evaluate` with this folder. Unchanged sets and scores are reused. The champion is
      measured even if it is not a candidate, and the night is compared with earlier nights
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
        End in a state of type Failed, with the same name, if the outcome is not a pass.
    yes : bool, default=False
        As in `evaluate`.
    sample : int, optional
        As in `evaluate`.

    Returns
    -------
    NightSummary or State
        As in `evaluate`. Without `fail_when_blocked`, a block is a result and not a failure.
    """
    with apply_file_settings(config, store):
        folder = create_run_folder(output, store)
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
            summary: Summary = get_summary(state)
        show_summary(summary, folder)
        night = NightSummary(**vars(summary), output=folder)
        return conclude(night, fail_when_blocked=fail_when_blocked)
