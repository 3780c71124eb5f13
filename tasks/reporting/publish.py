"""Publishing finished results: complete folders, or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from bias_metrics.gate.decide import worst
from biasgate.tasks.common.files import require_writable, whole_folder, write_json
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.records import Decided, Summary
from biasgate.tasks.reporting.junit import write_junit
from biasgate.tasks.reporting.report import write_submission
from biasgate.tasks.scoring.scored_set import ScoredSet

RESULTS = "results"


def make_folder(*parts: str) -> str:
    """Create a folder and return it."""
    folder = Path(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


@task(name="check places")
def check_places(output: str, store: str) -> None:
    """Refuse, before any work, an output or store that is not writable. Safe to retry."""
    require_writable(Path(output).absolute(), "output")
    require_writable(Path(store).absolute(), "store")


@task(name="summarise evaluation")
def summarise_evaluation(
    decided: Decided,
    run_id: str,
    output: str,
    *,
    evaluation: str,
    outcome_of: Sequence[str],
    report_only: bool,
) -> Summary:
    """Write every candidate's outcome to `summary.json` and, for CI, to `junit.xml`.

    The outcome of the evaluation is the worst of the candidates in `outcome_of` (default: all):
    error, else blocked, else not enough evidence, else passed. Safe to retry.
    """
    decisions = decided.decisions
    counted = outcome_of or [one["candidate"] for one in decisions]
    outcomes = [one["outcome"] for one in decisions if one["candidate"] in counted]
    summary: Summary = {
        "evaluation": evaluation,
        "outcome": worst(outcomes),
        "outcome_of": list(counted),
        "report_only": report_only,
        "run_id": run_id,
        "verdicts": decided.verdicts,
        "decisions": decisions,
        "sentences": [f"{one['candidate']}: {one['sentence']}" for one in decisions],
    }
    write_json(Path(output) / "summary.json", summary)
    write_junit(Path(output) / "junit.xml", summary)
    return summary


@task(name="write submission", task_run_name="write submission of {folder!m}")
def write_submission_file(scores: str, folder: str) -> None:
    """Write scores in the Kaggle submission format. Safe to retry."""
    write_submission(ScoredSet.open(scores), Path(folder) / "submission.csv")


@task(name="publish results")
def publish_results(measured: list[list[Measured]], output: str) -> None:
    """Copy the results to `output/<set>/<candidate>`, each folder atomically. Safe to retry."""
    for of_candidate in measured:
        for one in of_candidate:
            target = Path(output) / one.source.name / one.candidate.name
            with whole_folder(target) as temporary:
                shutil.copytree(one.folder, temporary, dirs_exist_ok=True)
