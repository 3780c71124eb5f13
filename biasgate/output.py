"""The output of commands: errors, steps, and results that are not about an evaluation.

Each library has its own words for full, read-only and failing disks, and most leave out the place:
here they are one sentence.
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
from contextlib import contextmanager
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
STEPS = "biasgate.steps"  # the logger with which `biasgate.tasks.common.prefect_task` reports steps


@contextmanager
def report_errors(
    *, verbose: bool | None = None, quiet: bool = False, places: Mapping[str, Path] | None = None
) -> Iterator[None]:
    """Report wrong input or a failed candidate in a sentence, a crash with traceback if `verbose`.

    `verbose` is None where a command has no such option.
    Steps are reported on standard error, unless `quiet`. `places` are the folders that are written
    to, by their purpose; an error of their disks is reported in one sentence.
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
        problem = disk_problem(error, places or {}) or describe_missing_module(error)
        if isinstance(error, CandidateError):  # its text is our own
            problem = f"{error} Finished scores are kept: run again to continue."
        elif isinstance(error, ServerError):
            problem = str(error)
        elif problem is None:
            more = "" if verbose is None else "\nRun again with --verbose for the traceback."
            problem = f"{type(error).__name__}: {error}{more}"
        print_error(problem)
        raise typer.Exit(CRASH) from error


def say(step: str) -> None:
    """Report a step that starts, on standard error, so that output precedes slow imports."""
    logging.getLogger(STEPS).info("%s ...", step)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on a terminal that the command works, and since when, if steps are printed."""
    from biasgate.tasks.common.progress import show_activity  # noqa: PLC0415

    if not logging.getLogger(STEPS).isEnabledFor(logging.INFO):
        yield
        return
    with show_activity(what):
        yield


def _set_up_logging(*, verbose: bool, quiet: bool) -> None:
    # Prefect and MLflow read these when imported: biasgate sends no telemetry.
    for name, value in {
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # A busy machine needs longer than Prefect's 20 seconds.
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_LOGGING_LEVEL": "INFO" if verbose else "CRITICAL",
        # The temporary server and its libraries (sqlalchemy) write tracebacks to standard error
        # when the server is ended at work.
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING" if verbose else "CRITICAL",
        "PREFECT_LOGGING_ROOT_LEVEL": "WARNING" if verbose else "CRITICAL",
        "MLFLOW_LOGGING_LEVEL": "INFO" if verbose else "CRITICAL",
        # A server's MLflow client prints a link to each run on standard output.
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }.items():
        os.environ.setdefault(name, value)
    # It warns of each call that is made again; `answered` says it once.
    logging.getLogger("urllib3.connectionpool").setLevel("INFO" if verbose else "ERROR")
    steps = logging.getLogger(STEPS)
    steps.setLevel(logging.CRITICAL if quiet else logging.INFO)
    steps.propagate = False
    steps.handlers = [_StepHandler()]


class _StepHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print a step, or why the run is ended."""
        (print_error if record.levelno >= logging.ERROR else print_step)(record.getMessage())


_MIB = 2**20
_FULL, _READ_ONLY, _FAILING = "is full", "is read-only", "cannot be read or written"
_BY_NUMBER = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EIO: _FAILING,
}
# Of SQLite, through which MLflow and Prefect keep their data.
_BY_TEXT = {
    "database or disk is full": _FULL,
    "No space left on device": _FULL,
    "attempt to write a readonly database": _READ_ONLY,
    "Read-only file system": _READ_ONLY,
    "unable to open database file": _FAILING,
    "disk I/O error": _FAILING,
}
_WHAT_TO_DO = {
    _FULL: "Free some space and run the command again; finished work is kept.",
    _READ_ONLY: "Make it writable, or name another place.",
    _FAILING: "Check that the disk is connected, has space and is writable.",
}


def disk_problem(error: BaseException, places: Mapping[str, Path]) -> str | None:
    """Return a sentence on the disk that caused an error; None if no disk did.

    `places`: folders that were written to, by their purpose, in case the error names none. The
    folder of temporary files is added.
    """
    for cause in _causes(error):
        kind = _BY_NUMBER.get(cause.errno or 0) if isinstance(cause, OSError) else None
        kind = kind or next((kind for text, kind in _BY_TEXT.items() if text in str(cause)), None)
        if kind is not None:
            where = _where(cause, kind, {**places, "temporary files": Path(tempfile.gettempdir())})
            return f"{where}. {_WHAT_TO_DO[kind]}"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    seen = set[int]()
    while found is not None and id(found) not in seen:
        yield found
        seen.add(id(found))
        found = found.__cause__ or found.__context__


def _where(error: BaseException, kind: str, places: Mapping[str, Path]) -> str:
    from biasgate.tasks.common.files import find_existing_folder  # noqa: PLC0415 - it imports numpy

    existing = {what: find_existing_folder(path) for what, path in places.items()}
    if kind == _FULL:
        left = {what: shutil.disk_usage(path).free // _MIB for what, path in existing.items()}
        listed = [f"{what} {places[what]} ({free:,} MiB left)" for what, free in left.items()]
        return f"a disk {kind}: {'; '.join(listed)}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)} {kind}"
    if kind == _READ_ONLY:
        closed = [what for what, path in existing.items() if not os.access(path, os.W_OK)]
        existing = {what: path for what, path in existing.items() if what in closed} or existing
    return f"one of these {kind}: {'; '.join(f'{what} {places[what]}' for what in existing)}"


def print_error(text: str) -> None:
    """Print an error on standard error, with secrets masked."""
    found = Text.assemble(
        ("error", "bold red"), ": ", escape_invisible(mask_secrets(text), keep="\n")
    )
    print_text(make_console(stderr=True), found)


def print_step(text: str) -> None:
    """Print a started or finished step on standard error."""
    print_text(make_console(stderr=True), Text(f"  {escape_invisible(text)}", "dim"))


def print_sentence(text: str, *, stderr: bool = False) -> None:
    """Print a result in words, which may name what others wrote."""
    print_text(make_console(stderr=stderr), Text(escape_invisible(text)))


def print_json(content: Any) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(convert_to_plain(content), indent=2) + "\n")


def print_history(model: str, entries: Sequence[ListedEntry], *, everything: bool) -> None:
    """Print what moved, or was to move, the champion of a model, latest first; or everything."""
    out = make_console()
    print_text(
        out, Text.assemble((f"champion of {escape_invisible(model)}", "bold"), " (times in UTC)")
    )
    listed = [one for one in entries if everything or one.action != "blocked" or one.by]
    if len(listed) < len(entries):
        left = len(entries) - len(listed)
        print_sentence(f"not shown: entries of blocked versions, {left:,} (--all)")
    for entry in listed:
        when = entry.opened[:19].replace("T", " ")
        action = "rejection" if entry.action == "blocked" and entry.by else entry.action
        moved = escape_invisible(f"  {when}  {action}: {_moved(entry)}")
        print_text(out, Text.assemble("\n", (str(entry.number), "bold"), moved))
        who = [f"by: {entry.by}"] if entry.by else []
        if entry.source is not None:
            who.insert(0, f"copy of: {entry.source.model} (files {entry.source.digest[:12]})")
        why = f"why: {entry.reason}"
        for what in (f"{entry.state}: {entry.note}", why, *who, entry.signed):
            print_text(out, Text(f"   {escape_invisible(what)}"), indent=0)


def _moved(entry: ListedEntry) -> str:
    """Return what an entry of the ledger is about."""
    if entry.action == "blocked":
        return f"version {', '.join(entry.blocked or ())}"
    if entry.action == "policy" and entry.policy is not None:
        return f"{entry.policy.name} {entry.policy.digest[:12]}"
    now = f"version {entry.version}" if entry.version else "no version"
    replaced = f"version {entry.replaces}" if entry.replaces else "none"
    return f"{now}, which replaced {replaced}"


def print_findings(findings: Sequence[Any]) -> None:
    """Print whether a verification succeeded, then each check."""
    out = make_console()
    failed = sum(not finding.holds for finding in findings)
    unchecked = sum(finding.holds and not finding.checked for finding in findings)
    n = f"{len(findings):,} checks"
    if failed:
        out.print(f"[bold red]NOT VERIFIED[/]: {failed:,} of {n} failed.")
    else:
        more = f", {unchecked:,} not possible here" if unchecked else ""
        out.print(f"[bold green]VERIFIED[/]: {len(findings) - unchecked:,} of {n} hold{more}.")
    for finding in findings:
        word = ("holds", "green") if finding.checked else ("not checked", "yellow")
        word = word if finding.holds else ("DOES NOT HOLD", "bold red")
        said = escape_invisible(f"  {finding.what}: {finding.sentence}")
        print_text(out, Text.assemble(word, said))


def print_next_steps(output: Path, store: Path) -> None:
    """Print the next steps after the demo; a command ends its line, so that it can be copied."""
    blocked = output / "templates" / "biased_labels"
    places = "--from", blocked, "--store", store, "--output", f"{output}-mitigated"
    steps = {
        "open the report in a browser": str(output / "report.html"),
        "compare the runs of `evaluate demo`": format_command("ui", "--store", store),
        "retrain against bias": format_command("mitigate", *places),
        "change the evaluation": format_command("evaluate", "demo", "--save", "my_demo.yaml"),
        "measure your own model": "docs/start.md in the repository",
    }
    out = make_console()
    out.print("\nMore to try:")
    for what, how in steps.items():
        out.print(f"  {what}: {escape_text(how)}", soft_wrap=True)
