"""How commands report steps and errors.

Each library has its own words for full, read-only and failing disks, and most leave out the place:
here they are one sentence.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer

from biasgate.printing import print_error, print_step

# The exit codes of results are in `biasgate.tasks.outcomes`.
CRASH, USAGE = 1, 2
STEPS = "biasgate.steps"  # the logger with which `biasgate.tasks.common.prefect_task` reports steps


@contextmanager
def errors_told(
    *, verbose: bool | None = None, quiet: bool = False, places: Mapping[str, Path] | None = None
) -> Iterator[None]:
    """Report wrong input or a failed candidate in a sentence, a crash with traceback if `verbose`.

    `verbose` is None where a command has no such option.
    Steps are reported on standard error, unless `quiet`. `places` are the folders that are written
    to, by their purpose; an error of their disks is told in one sentence, too.
    """
    _set_up_logging(verbose=bool(verbose), quiet=quiet)
    from biasgate.tasks.common.errors import (  # noqa: PLC0415
        CandidateError,
        InputError,
        ServerError,
        lacking_module,
    )
    from biasgate.tasks.common.secrets import mask_error  # noqa: PLC0415

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
        if isinstance(error, CandidateError):  # its text is our own
            print_error(f"{error} Scores that were finished are kept: run again to go on.")
            raise typer.Exit(CRASH) from error
        if isinstance(error, ServerError):
            print_error(str(error))
            raise typer.Exit(CRASH) from error
        problem = disk_problem(error, places or {}) or lacking_module(error)
        if problem is not None:
            print_error(problem)
            raise typer.Exit(CRASH) from error
        more = "" if verbose is None else "\nRun again with --verbose for the traceback."
        print_error(f"{type(error).__name__}: {error}{more}")
        raise typer.Exit(CRASH) from error


def say(step: str) -> None:
    """Report a step that starts, on standard error, so that output precedes slow imports."""
    logging.getLogger(STEPS).info("%s ...", step)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on a terminal that the command works, and since when; not if steps are not told."""
    from biasgate.tasks.common.progress import working  # noqa: PLC0415

    if not logging.getLogger(STEPS).isEnabledFor(logging.INFO):
        yield
        return
    with working(what):
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
        # The temporary server writes to standard error, too, for example when it is ended at work.
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING" if verbose else "CRITICAL",
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
    _FULL: "Free some space and run the command again; what is finished is kept.",
    _READ_ONLY: "Make it writable, or name another place.",
    _FAILING: "Check that the disk is there, has space and can be written to.",
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
    existing = {what: _existing(path) for what, path in places.items()}
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


def _existing(path: Path) -> Path:
    """Return a path, or the closest folder above that exists."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.exists())
