"""The MLflow database of a local store: made whole, checked, and moved with its store.

MLflow makes its tables in some forty steps, and a process that is killed in between would leave a
database that MLflow can neither complete nor open: so it is made aside. MLflow writes the whole
path of every artifact into it: these are rewritten when a store was moved or copied. And anyone
with write access to a store may put a view or a computed column into its database, which answers
one program differently from another, or never ends: so it is checked before MLflow reads from it.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import hold_lock, whole_file
from biasgate.tasks.common.prefect_task import log_message

DATABASE, ARTIFACTS = "mlflow.db", "mlartifacts"
LOCAL = "sqlite:///"
# Tables and columns in which MLflow keeps paths of artifacts.
_PATHS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)
_WAIT_S = 60


def database_file(uri: str) -> Path | None:
    """Return the SQLite file that SQLAlchemy opens at an address; None at any other."""
    if not re.match(r"sqlite(\+\w+)?://", uri, re.IGNORECASE):
        return None
    from sqlalchemy.engine import make_url  # noqa: PLC0415

    file = make_url(uri).database
    return None if file is None else Path(file)


def require_store(store: Path, nor: str = "") -> None:
    """Refuse a folder without runs of an evaluation, before a database is created in it.

    `nor`: the end of the error.
    """
    if (store / DATABASE).exists():
        return
    there = "it does not contain MLflow runs" if store.is_dir() else "it does not exist"
    below = store / ".biasgate"
    found = f" Did you mean {below}?" if (below / DATABASE).exists() else ""
    msg = (
        f"store {store} must be a folder that an evaluation wrote; {there}.{found} "
        f"Name the store, or the MLflow server in MLFLOW_TRACKING_URI.{nor}"
    )
    raise InputError(msg)


def follow_move(store: Path) -> list[str]:
    """Update the artifact paths in the database of a store that was moved or copied.

    Idempotent, and one transaction. Artifacts outside this store keep their paths.

    Returns the old places in the database; empty if nothing was changed.
    """
    database, here = store / DATABASE, (store / ARTIFACTS).as_uri()
    if not database.exists():
        return []
    locations: list[str] = []  # where experiments keep their artifacts
    with closing(sqlite3.connect(database, timeout=_WAIT_S)) as connection:
        try:
            if _has_column(connection, "experiments", "artifact_location"):
                rows = connection.execute("SELECT artifact_location FROM experiments").fetchall()
                locations = [str(location) for (location,) in rows]
        except sqlite3.OperationalError:  # for example locked: a retry may succeed
            raise
        except sqlite3.DatabaseError as error:
            msg = f"file {database} must be the MLflow database of the store; got: {error}."
            raise InputError(msg) from error
        places = [location.rpartition(f"/{ARTIFACTS}/") for location in locations]
        # An old place counts if artifacts of any of its experiments are in this store.
        moved = sorted(
            {
                f"{before}/{ARTIFACTS}"
                for before, cut, name in places
                if cut and f"{before}/{ARTIFACTS}" != here and (store / ARTIFACTS / name).is_dir()
            }
        )
        if moved:
            _rewrite(connection, moved, here, database)
    for root in moved:
        log_message(f"updating paths of the store, which was moved from {root}")
    return moved


def _rewrite(connection: sqlite3.Connection, moved: list[str], new: str, database: Path) -> None:
    try:
        with connection:
            for table, column in _PATHS:
                if not _has_column(connection, table, column):
                    continue
                for old in moved:
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?) "  # noqa: S608 - our names
                        f"WHERE substr({column}, 1, ?) = ?",
                        (new, len(old) + 1, len(old) + 1, f"{old}/"),
                    )
    except sqlite3.OperationalError as error:
        if "readonly" not in str(error):
            raise
        msg = (
            f"file {database} must be writable: its store was moved or copied, and the paths of "
            f"its artifacts still point to {moved[0]}. Make it writable, or use the store at its "
            "old place."
        )
        raise InputError(msg) from error


def _has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return column in {row[1] for row in rows}


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
    # The first starts the options of an address; SQLAlchemy 2.1 reads the second as an escape.
    if wrong := next((one for one in "?%" if one in str(store)), None):
        msg = (
            f"store {store} must not have `{wrong}` in its path: it has a meaning in the address "
            "of a database. Name another folder."
        )
        raise InputError(msg)
    database = store / DATABASE
    if _is_finished(database):
        return
    with hold_lock(database):
        while database.exists() and not _is_finished(database):
            if _untouched_for(database) > UNTOUCHED_S:
                database.unlink()
            else:
                time.sleep(_POLL_S)
        if not database.exists():
            log_message("creating the store's MLflow database, which takes up to half a minute")
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
    times = [path.stat().st_mtime for path in (database, *beside) if path.exists()]
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
        SqlAlchemyStore(f"{LOCAL}{database}", artifacts.as_uri())
    finally:
        event.remove(Engine, "connect", quicken)
        for one in connections:
            one.close()


DEADLINE_S = 60.0
_STEPS = 10_000  # of SQLite's machine, between two looks at the clock
# What MLflow sets on each connection; `LIKE` depends on the last one.
_PRAGMAS = ("foreign_keys = ON", "busy_timeout = 20000", "case_sensitive_like = true")
# MLflow's own triggers, and their tables, of which biasgate reads nothing.
_OWN_TRIGGERS = frozenset({("prevent_secrets_aad_mutation", "secrets")})
# MLflow's own computed columns.
_OWN_COMPUTED = frozenset({"spans"})
# The tables that say which version is what, and their keys: no two rows can answer one question.
_KEYS = {
    "registered_models": {"workspace", "name"},
    "registered_model_tags": {"workspace", "name", "key"},
    "registered_model_aliases": {"workspace", "name", "alias"},
    "model_versions": {"workspace", "name", "version"},
    "model_version_tags": {"workspace", "name", "version", "key"},
    "runs": {"run_uuid"},
}


@contextmanager
def reading(database: Path, *, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
    """Yield a connection that only reads, with MLflow's settings, for one state of the database."""
    limit = DEADLINE_S if seconds is None else seconds
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        for one in _PRAGMAS:
            connection.execute(f"PRAGMA {one}")
        end = time.monotonic() + limit
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        connection.text_factory = lambda content: content.decode(errors="replace")
        connection.execute("BEGIN")
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if str(error) != "interrupted":
                raise
            msg = f"{database} must answer within {limit:g} s; it did not. Was it tampered with?"
            raise InputError(msg) from error


def require_plain(connection: sqlite3.Connection) -> None:
    """Refuse a database with views, triggers, computed columns or tables without their keys."""
    for kind, name, table, place in connection.execute(
        "SELECT type, name, tbl_name, rootpage FROM sqlite_master ORDER BY rowid"
    ).fetchall():
        if kind == "trigger" and (name, table) in _OWN_TRIGGERS:
            continue
        virtual = kind == "table" and not place
        if kind in {"view", "trigger"} or virtual:
            told = f"virtual {kind}" if virtual else kind
            msg = (
                f"MLflow's database must hold only plain tables; it has a {told} named {name!r}. "
                "biasgate does not read it: it may change what the registry returns. "
                f'If it is yours, remove it: DROP {kind.upper()} "{name}";'
            )
            raise InputError(msg)
    columns = connection.execute(
        "SELECT m.name, c.name, c.pk, c.hidden FROM sqlite_master AS m, "
        "pragma_table_xinfo(m.name) AS c WHERE m.type = 'table'"
    ).fetchall()
    for table, column, _, hidden in columns:
        if hidden and table not in _OWN_COMPUTED:
            msg = (
                "MLflow's database must hold only plain tables; column "
                f"{column!r} of table {table!r} is computed. It may have been tampered with."
            )
            raise InputError(msg)
    for table in {name for name, *_ in columns} & _KEYS.keys():
        key = {column for name, column, number, _ in columns if name == table and number}
        if not key or not key <= _KEYS[table]:  # MLflow without workspaces has shorter ones
            msg = (
                f"table {table!r} of MLflow's database must have the primary key "
                f"{', '.join(sorted(_KEYS[table]))}; it does not. It may have been tampered with."
            )
            raise InputError(msg)


def require_plain_file(database: Path) -> None:
    """Refuse a local database that `require_plain` refuses, before MLflow opens it.

    One that cannot be read is left to the program that needs it.
    """
    if not database.is_file():
        return
    try:
        with reading(database) as connection:
            require_plain(connection)
    except sqlite3.DatabaseError:  # locked, not readable, or no database: MLflow says so
        return
