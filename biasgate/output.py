"""The output of commands: errors, steps, and results that are not about an evaluation.

Libraries describe full, read-only and failing disks differently, and most omit the place. This
module describes them uniformly, with the place.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from biasgate.tasks.common.command_lines import format_command
from biasgate.tasks.common.console import escape_text, make_console, print_text
from biasgate.tasks.common.errors import (
    CandidateError,
    InputError,
    ServerError,
    describe_missing_module,
)
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.secrets import mask_error, mask_secrets
from biasgate.tasks.outcomes import WORDS

if TYPE_CHECKING:
    from biasgate.tasks.ledger.entry import ListedEntry

CRASH, USAGE, BLOCKED = 1, 2, WORDS["fail"].exit_code
STEPS = "biasgate.steps"  # logger of `biasgate.tasks.common.prefect_task`


@contextmanager
def report_errors(
    *, verbose: bool | None = None, quiet: bool = False, places: Mapping[str, Path] | None = None
) -> Iterator[None]:
    """Report wrong input or a failed candidate in a sentence, and exit with the code of the error.

    Parameters
    ----------
    verbose : bool, optional
        Raise other errors, with their traceback. None if a command does not have this option.
    quiet : bool
        Do not print steps on standard error.
    places : mapping of str to Path, optional
        The folders that the command writes to, by their purpose, for errors of their disks.
    """
    _set_up_logging(verbose=bool(verbose), quiet=quiet)
    try:
        yield
    except InputError as error:
        print_error(str(error))
        raise typer.Exit(USAGE) from error
    except (typer.Exit, KeyboardInterrupt):
        raise
    except Exception as error:
        if verbose:
            mask_error(error)
            raise
        problem = describe_disk_error(error, places or {}) or describe_missing_module(error)
        if isinstance(error, CandidateError):
            problem = f"{error} Finished scores are kept: run again to continue."
        elif isinstance(error, ServerError):
            problem = str(error)
        elif problem is None:
            hint = "" if verbose is None else "\nRun again with --verbose for the traceback."
            problem = f"{type(error).__name__}: {error}{hint}"
        print_error(problem)
        raise typer.Exit(CRASH) from error


def report_step(step: str) -> None:
    """Report the start of a step on standard error, before slow imports."""
    logging.getLogger(STEPS).info("%s ...", step)


@contextmanager
def show_activity(description: str) -> Iterator[None]:
    """Show the elapsed time of the body on a terminal, unless steps are muted."""
    from biasgate.tasks.common import progress  # noqa: PLC0415

    is_shown = logging.getLogger(STEPS).isEnabledFor(logging.INFO)
    with progress.show_activity(description) if is_shown else nullcontext():
        yield


def _set_up_logging(*, verbose: bool, quiet: bool) -> None:
    # Prefect and MLflow read these variables when they are imported. biasgate sends no telemetry.
    for name, value in {
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # A busy machine needs longer than Prefect's 20 seconds.
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_LOGGING_LEVEL": "INFO" if verbose else "CRITICAL",
        # A temporary server that is stopped during a request writes tracebacks to standard error.
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING" if verbose else "CRITICAL",
        "PREFECT_LOGGING_ROOT_LEVEL": "WARNING" if verbose else "CRITICAL",
        "MLFLOW_LOGGING_LEVEL": "INFO" if verbose else "CRITICAL",
        # A server's MLflow client prints a link to each run on standard output.
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }.items():
        os.environ.setdefault(name, value)
    # It warns of each retried call; `retry_call` reports the failure once.
    logging.getLogger("urllib3.connectionpool").setLevel("INFO" if verbose else "ERROR")
    steps = logging.getLogger(STEPS)
    steps.setLevel(logging.CRITICAL if quiet else logging.INFO)
    steps.propagate = False
    steps.handlers = [_StepHandler()]


class _StepHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print a step, or the reason for which the run is ended."""
        text = record.getMessage()
        if record.levelno >= logging.ERROR:
            print_error(text)
        else:
            print_text(make_console(stderr=True), Text(f"  {escape_invisible(text)}", "dim"))


_MIB = 2**20
_FULL, _READ_ONLY, _FAILING = "is full", "is read-only", "cannot be read or written"
_PROBLEMS_BY_NUMBER = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EIO: _FAILING,
}
# Texts of SQLite, in which MLflow and Prefect store their data.
_PROBLEMS_BY_TEXT = {
    "database or disk is full": _FULL,
    "No space left on device": _FULL,
    "attempt to write a readonly database": _READ_ONLY,
    "Read-only file system": _READ_ONLY,
    "unable to open database file": _FAILING,
    "disk I/O error": _FAILING,
}
_REMEDIES = {
    _FULL: "Free some space and run the command again; finished work is kept.",
    _READ_ONLY: "Make it writable, or name another place.",
    _FAILING: "Check that the disk is connected, has space and is writable.",
}


def describe_disk_error(error: BaseException, places: Mapping[str, Path]) -> str | None:
    """Return a sentence on the disk that caused an error, and the remedy; None for other errors.

    `places`: the folders that were written to, by their purpose, in case the error does not name a
    place. The folder of temporary files is added.
    """
    cause: BaseException | None = error
    seen_ids = set[int]()
    while cause is not None and id(cause) not in seen_ids:
        number = cause.errno or 0 if isinstance(cause, OSError) else 0
        kinds = (kind for text, kind in _PROBLEMS_BY_TEXT.items() if text in str(cause))
        kind = _PROBLEMS_BY_NUMBER.get(number) or next(kinds, None)
        if kind is not None:
            all_places = {**places, "temporary files": Path(tempfile.gettempdir())}
            return f"{_locate_disk(cause, kind, all_places)}. {_REMEDIES[kind]}"
        seen_ids.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def _locate_disk(error: BaseException, kind: str, places: Mapping[str, Path]) -> str:
    """Return the path or the folders that have a problem, and the problem."""
    from biasgate.tasks.common.files import find_existing_folder  # noqa: PLC0415 - it imports numpy

    existing = {use: find_existing_folder(path) for use, path in places.items()}
    if kind == _FULL:
        free = {use: shutil.disk_usage(path).free // _MIB for use, path in existing.items()}
        listed = [f"{use} {places[use]} ({n_mib:,} MiB left)" for use, n_mib in free.items()]
        return f"a disk {kind}: {'; '.join(listed)}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)} {kind}"
    uses = list(existing)
    if kind == _READ_ONLY:
        uses = [use for use in uses if not os.access(existing[use], os.W_OK)] or uses
    return f"one of these {kind}: {'; '.join(f'{use} {places[use]}' for use in uses)}"


def print_error(text: str) -> None:
    """Print an error on standard error, with secrets masked."""
    masked = escape_invisible(mask_secrets(text), keep="\n")
    print_text(make_console(stderr=True), Text.assemble(("error", "bold red"), ": ", masked))


def print_sentence(text: str, *, stderr: bool = False) -> None:
    """Print a sentence, which may contain foreign text."""
    print_text(make_console(stderr=stderr), Text(escape_invisible(text)))


def print_json(content: Any) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(convert_to_plain(content), indent=2) + "\n")


def print_history(model: str, entries: Sequence[ListedEntry], *, everything: bool) -> None:
    """Print the promotions and other moves of a champion, latest first.

    `everything`: also print the entries of blocked versions.
    """
    out = make_console()
    print_text(
        out, Text.assemble((f"champion of {escape_invisible(model)}", "bold"), " (times in UTC)")
    )
    listed = [each for each in entries if everything or each.action != "blocked" or each.by]
    if n_hidden := len(entries) - len(listed):
        print_sentence(f"not shown: entries of blocked versions, {n_hidden:,} (--all)")
    for entry in listed:
        time = entry.opened[:19].replace("T", " ")
        action = "rejection" if entry.action == "blocked" and entry.by else entry.action
        heading = escape_invisible(f"  {time}  {action}: {_describe_change(entry)}")
        print_text(out, Text.assemble("\n", (str(entry.number), "bold"), heading))
        lines = [f"{entry.state}: {entry.note}", f"why: {entry.reason}"]
        if entry.source is not None:
            lines.append(f"copy of: {entry.source.model} (files {entry.source.digest[:12]})")
        lines += [f"by: {entry.by}"] if entry.by else []
        for line in (*lines, entry.signed):
            print_text(out, Text(f"   {escape_invisible(line)}"), indent=0)


def _describe_change(entry: ListedEntry) -> str:
    if entry.action == "blocked":
        return f"version {', '.join(entry.blocked or ())}"
    if entry.action == "policy" and entry.policy is not None:
        return f"{entry.policy.name} {entry.policy.digest[:12]}"
    champion = f"version {entry.version}" if entry.version else "no version"
    replaced = f"version {entry.replaces}" if entry.replaces else "none"
    return f"{champion}, which replaced {replaced}"


def print_findings(findings: Sequence[Any]) -> None:
    """Print the outcome of a verification, and each check."""
    out = make_console()
    failed = sum(not finding.holds for finding in findings)
    unchecked = sum(finding.holds and not finding.checked for finding in findings)
    total = f"{len(findings):,} checks"
    if failed:
        out.print(f"[bold red]NOT VERIFIED[/]: {failed:,} of {total} failed.")
    else:
        note = f", {unchecked:,} not possible here" if unchecked else ""
        out.print(f"[bold green]VERIFIED[/]: {len(findings) - unchecked:,} of {total} hold{note}.")
    for finding in findings:
        word = ("holds", "green") if finding.checked else ("not checked", "yellow")
        word = word if finding.holds else ("DOES NOT HOLD", "bold red")
        text = escape_invisible(f"  {finding.what}: {finding.sentence}")
        print_text(out, Text.assemble(word, text))


def print_next_steps(output: Path, store: Path) -> None:
    """Print the next steps after the demo; each line ends with its command, ready to be copied."""
    blocked = output / "templates" / "biased_labels"
    options = "--from", blocked, "--store", store, "--output", f"{output}-mitigated"
    steps = {
        "open the report in a browser": str(output / "report.html"),
        "compare the runs of `evaluate demo`": format_command("ui", "--store", store),
        "retrain against bias": format_command("mitigate", *options),
        "change the evaluation": format_command("evaluate", "demo", "--save", "my_demo.yaml"),
        "measure your own model": "docs/start.md in the repository",
    }
    out = make_console()
    out.print("\nMore to try:")
    for description, command in steps.items():
        out.print(f"  {description}: {escape_text(command)}", soft_wrap=True)
