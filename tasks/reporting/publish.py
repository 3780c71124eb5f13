"""Where finished results go: whole folders, or nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from bias_metrics.gate.decide import worst
from biasgate.tasks.common.files import require_writable, whole_folder, write_json
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.reporting.junit import write_junit
from biasgate.tasks.reporting.report import write_submission
from biasgate.tasks.scoring.scored import ScoredSet

RESULTS = "results"


def make_folder(*parts: str) -> str:
    """Create a folder and return it."""
    folder = Path(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


@task(name="check places")
def check_places(output: str, store: str) -> None:
    """Refuse, before any work, an output or a store that cannot be written. Safe to retry."""
    require_writable(Path(output).absolute(), "output")
    require_writable(Path(store).absolute(), "store")


@task(name="summarise evaluation")
def summarise_evaluation(
    evaluation: dict[str, Any],
    verdicts: list[list[dict[str, Any]]],
    decisions: list[dict[str, Any]],
    run_id: str,
    output: str,
) -> dict[str, Any]:
    """Write every candidate's outcome to `summary.json`, and for CI to `junit.xml`.

    The outcome of the evaluation is the worst among the candidates in `outcome_of`, by default
    all: error, else blocked, else not enough evidence, else passed. Safe to retry.
    """
    counted = evaluation["outcome_of"] or [one["candidate"] for one in decisions]
    outcomes = [one["outcome"] for one in decisions if one["candidate"] in counted]
    summary = {
        "evaluation": evaluation["name"],
        "outcome": worst(outcomes),
        "outcome_of": list(counted),
        "report_only": evaluation["policy"]["report_only"],
        "run_id": run_id,
        "verdicts": [one for of_candidate in verdicts for one in of_candidate],
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
def publish_results(candidates: list[dict[str, Any]], work: str, output: str) -> None:
    """Copy the `<set>/<candidate>` folders to the output, each whole. Safe to retry."""
    results = Path(work) / RESULTS
    for candidate in candidates:
        for finished in sorted(results.glob(f"*/{candidate['name']}/")):
            with whole_folder(Path(output) / finished.relative_to(results)) as temporary:
                shutil.copytree(finished, temporary, dirs_exist_ok=True)
