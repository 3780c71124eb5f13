"""The MLflow database of a new store: made aside, and moved into place only when it is whole.

MLflow makes its tables in some forty steps. A process that is killed in between, or a second one
at the same time, would leave a database that MLflow can neither complete nor open.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import locked, whole_file
from biasgate.tasks.common.prefect_task import say
from biasgate.tasks.mlflow_server.moved_store import ARTIFACTS, DATABASE

# One of them has a row in every database that MLflow has finished, or that is used.
_TABLES = ("experiments", "runs", "registered_models")
# Files that SQLite would take for the rest of an unfinished change to the database beside them.
_BESIDE = ("-journal", "-wal", "-shm")
# An unfinished database may be in the making by another program, which changes it all the time.
UNTOUCHED_S = 10.0
_POLL_S = 0.5


def make_database(store: Path) -> None:
    """Make the MLflow database of a store, unless it has one.

    An unfinished one that holds nothing, which a killed or failed process left, is replaced.
    """
    if "?" in str(store):
        msg = (
            f"store {store} must not have `?` in its path: in the address of a database that "
            "begins its options. Name another folder."
        )
        raise InputError(msg)
    database = store / DATABASE
    if _is_finished(database):
        return
    with locked(database):
        while database.exists() and not _is_finished(database):
            if _untouched_for(database) > UNTOUCHED_S:
                database.unlink()
            else:
                time.sleep(_POLL_S)
        if not database.exists():
            say("creating the store's MLflow database, which takes up to half a minute")
            for ending in _BESIDE:
                database.with_name(f"{DATABASE}{ending}").unlink(missing_ok=True)
            with whole_file(database) as temporary:
                _create(temporary, store / ARTIFACTS)


def _is_finished(database: Path) -> bool:
    """Whether MLflow has finished a database; True as well for a file that is none."""
    if not database.exists():
        return False
    with closing(sqlite3.connect(database, timeout=UNTOUCHED_S)) as connection:
        return any(_has_rows(connection, table) for table in _TABLES)


def _has_rows(connection: sqlite3.Connection, table: str) -> bool:
    try:
        found = connection.execute(f"SELECT 1 FROM {table} LIMIT 1")  # noqa: S608 - our names
        return found.fetchone() is not None
    except sqlite3.OperationalError as error:
        # Otherwise it is locked, or not readable: somebody uses it.
        return "no such table" not in str(error)
    except sqlite3.DatabaseError:  # no database; `follow_move` says so
        return True


def _untouched_for(database: Path) -> float:
    """Return for how many seconds a database and the files of its last change are unchanged."""
    beside = [database.with_name(f"{DATABASE}{ending}") for ending in _BESIDE]
    times = [one.stat().st_mtime for one in (database, *beside) if one.exists()]
    return time.time() - max(times)


def _create(database: Path, artifacts: Path) -> None:
    """Let MLflow make its tables; the file is flushed by the caller, once instead of each time."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: PLC0415
    from sqlalchemy import event  # noqa: PLC0415
    from sqlalchemy.engine import Engine  # noqa: PLC0415

    connections: list[sqlite3.Connection] = []

    def quicken(connection: Any, _: Any) -> None:
        [(_, _, path), *_] = connection.execute("PRAGMA database_list").fetchall()
        if path and Path(path) == database:
            connection.execute("PRAGMA synchronous = OFF")
            connections.append(connection)

    event.listen(Engine, "connect", quicken)
    try:
        SqlAlchemyStore(f"sqlite:///{database}", artifacts.as_uri())
    finally:
        event.remove(Engine, "connect", quicken)
        for one in connections:
            one.close()
