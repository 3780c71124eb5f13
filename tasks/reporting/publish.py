"""Publication of finished results, in complete folders."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from bias_metrics.gate import find_worst_outcome
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import (
    measure_store,
    require_separate_folders,
    require_writable,
    whole_folder,
    write_json,
)
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.untrusted import read_record
from biasgate.tasks.included import format_argument
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.mlflow_server.server import REGISTRY, TRACKING, read_address
from biasgate.tasks.records import Decided, LoggedVerdict, SetUse, Summary
from biasgate.tasks.reporting.ci import write_junit
from biasgate.tasks.reporting.report import write_submission
from biasgate.tasks.reporting.results import REPORT, SUMMARY
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.store import Workplace

RESULTS = "results"


def make_folder(*parts: str) -> str:
    """Create a folder and return it."""
    folder = Path(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


@task(name="name folder")
def create_run_folder(output: str, store: str) -> str:
    """Create a new folder `output/<UTC date and time>` and return it.

    A run that starts in the same second gets `...-2`.
    """
    require_separate_folders(Path(output), Path(store))
    require_writable(Path(output).absolute(), "output")
    Path(output).mkdir(parents=True, exist_ok=True)
    name = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    for number in itertools.count(1):
        folder = Path(output) / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            break
    log_message(f"evaluating into {folder}")
    return str(folder)


@task(name="check places")
def check_places(output: str, store: str) -> None:
    """Refuse, before any work, places that overlap or are read-only, and a silent MLflow server.

    Safe to retry.
    """
    require_separate_folders(Path(output), Path(store))
    require_writable(Path(output).absolute(), "output")
    require_writable(Path(store).absolute(), "store")
    if read_address(TRACKING) or read_address(REGISTRY):
        Workplace(Path(store)).gateway.require_answer()


@task(name="check output")
def check_output(output: str, evaluation: str, *, overwrite: bool) -> None:
    """Refuse, before any work, to replace the results of another evaluation. Safe to retry."""
    require_own_output(Path(output), evaluation, overwrite=overwrite)


def require_own_output(output: Path, evaluation: str, *, overwrite: bool) -> None:
    """Refuse a folder with the results of another evaluation."""
    try:
        former = _read_former(output)
    except InputError as error:
        if overwrite:
            return
        msg = f"{error} Name another `--output`, or replace what is there with `--overwrite`."
        raise InputError(msg) from error
    if former is None or former.evaluation == evaluation or overwrite:
        return
    msg = (
        f"`--output` {output} must be new, or have results of evaluation {evaluation!r}; it has "
        f"those of {escape_invisible(former.evaluation)!r}. Name another folder, or replace them "
        "with `--overwrite`."
    )
    raise InputError(msg)


def _read_former(output: Path) -> Summary | None:
    """Return the summary in a folder of results, if there is a summary."""
    path = output / SUMMARY
    return read_record(path, Summary) if path.exists() else None


def _remove_former(output: Path, verdicts: Sequence[LoggedVerdict]) -> None:
    """Remove folders of candidates and sets of the former summary without a verdict.

    Other files in the folder, which may be the user's, are kept.
    """
    try:
        former = _read_former(output)
    except InputError:
        return
    kept = {_locate_verdict(output, verdict) for verdict in verdicts}
    for verdict in former.verdicts if former is not None else []:
        place = _locate_verdict(output, verdict)
        inside = place.resolve().parent.parent == output.resolve()
        if inside and place not in kept and (place / REPORT).is_file():
            shutil.rmtree(place)
            with suppress(OSError):  # it has other candidates
                place.parent.rmdir()


def _locate_verdict(output: Path, verdict: LoggedVerdict) -> Path:
    return output / verdict.evaluation_set.name / verdict.candidate.name


@task(name="summarise evaluation")
def summarise_evaluation(
    decided: Decided,
    run_id: str,
    output: str,
    *,
    evaluation: str,
    outcome_of: Sequence[str],
    report_only: bool,
    sets: Sequence[SetUse],
    store: str,
    config: str,
    sample: int | None = None,
    moved: Sequence[str] = (),
) -> Summary:
    """Write every candidate's outcome to `summary.json` and, for CI, to `junit.xml`.

    The outcome of the evaluation is the worst of the candidates in `outcome_of` (default: all):
    error, else blocked, else undecided, else passed. Folders that only the former evaluation has
    are removed. Safe to retry.
    """
    decisions = decided.decisions
    counted = outcome_of or [decision.candidate for decision in decisions]
    outcomes = [decision.outcome for decision in decisions if decision.candidate in counted]
    summary = Summary(
        evaluation=evaluation,
        outcome=find_worst_outcome(outcomes),
        outcome_of=list(counted),
        report_only=report_only,
        run_id=run_id,
        verdicts=decided.verdicts,
        decisions=decisions,
        sets=list(sets),
        store=measure_store(Path(store)),
        config=format_argument(config),
        sample=sample,
        store_path=store,
        moved=list(moved),
    )
    _remove_former(Path(output), decided.verdicts)
    write_json(Path(output) / SUMMARY, summary)
    write_junit(Path(output) / "junit.xml", summary)
    return summary


@task(name="write submission", task_run_name="write submission of {folder!m}")
def write_submission_file(scores: str, folder: str) -> None:
    """Write scores in the Kaggle submission format. Safe to retry."""
    write_submission(ScoredSet.open(scores), Path(folder) / "submission.csv")


@task(name="publish results")
def publish_results(measured: list[list[Measured]], output: str) -> None:
    """Copy the results to `output/<set>/<candidate>`, each folder atomically. Safe to retry."""
    for entry in itertools.chain(*measured):
        target = Path(output) / entry.source.name / entry.candidate.name
        with whole_folder(target) as temporary:
            shutil.copytree(entry.folder, temporary, dirs_exist_ok=True)
