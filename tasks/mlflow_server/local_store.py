"""The MLflow database of a local store: creation, checks, and paths after a move.

- MLflow creates its tables in about forty steps. A process killed in between would leave a database
  that MLflow can neither complete nor open, so the database is created under a temporary name.
- MLflow stores absolute paths of artifacts, which are rewritten after a store was moved or copied.
- Anyone with write access to a store can add a view or a computed column to its database. A query
  may then return different rows to different programs, or never end. So the database is checked
  before MLflow reads it.
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
# Tables and columns with paths of artifacts.
_PATH_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)
_WAIT_S = 60


def find_database_file(uri: str) -> Path | None:
    """Return the file of an SQLite address, parsed as SQLAlchemy does; None for other addresses."""
    if not re.match(r"sqlite(\+\w+)?://", uri, re.IGNORECASE):
        return None
    from sqlalchemy.engine import make_url  # noqa: PLC0415

    file = make_url(uri).database
    return None if file is None else Path(file)


def require_store(store: Path, suffix: str = "") -> None:
    """Refuse a folder without runs of an evaluation, before a database is created in it.

    Parameters
    ----------
    store : Path
        Folder of the store.
    suffix : str, optional
        End of the error message.
    """
    if (store / DATABASE).exists():
        return
    problem = "it does not contain MLflow runs" if store.is_dir() else "it does not exist"
    nested = store / ".biasgate"
    hint = f" Did you mean {nested}?" if (nested / DATABASE).exists() else ""
    msg = (
        f"store {store} must be a folder that an evaluation wrote; {problem}.{hint} "
        f"Name the store, or the MLflow server in MLFLOW_TRACKING_URI.{suffix}"
    )
    raise InputError(msg)


def follow_move(store: Path) -> list[str]:
    """Update the artifact paths in the database of a store that was moved or copied.

    Idempotent, and one transaction. Artifacts outside this store keep their paths.

    Returns
    -------
    list of str
        The old places that were replaced; empty if all paths were up to date.

    Raises
    ------
    InputError
        If the file is not an MLflow database, or must be changed and is read-only.
    """
    database, artifacts = store / DATABASE, (store / ARTIFACTS).as_uri()
    if not database.exists():
        return []
    locations: list[str] = []  # artifact folders of the experiments
    with closing(sqlite3.connect(database, timeout=_WAIT_S)) as connection:
        try:
            if _has_column(connection, "experiments", "artifact_location"):
                rows = connection.execute("SELECT artifact_location FROM experiments").fetchall()
                locations = [str(location) for (location,) in rows]
        except sqlite3.OperationalError:  # such as a lock: a retry may succeed
            raise
        except sqlite3.DatabaseError as error:
            msg = f"file {database} must be the MLflow database of the store; got: {error}."
            raise InputError(msg) from error
        places = [location.rpartition(f"/{ARTIFACTS}/") for location in locations]
        # An old place is replaced only if artifacts of its experiments are in this store.
        moved = sorted(
            {
                f"{before}/{ARTIFACTS}"
                for before, cut, name in places
                if cut
                and f"{before}/{ARTIFACTS}" != artifacts
                and (store / ARTIFACTS / name).is_dir()
            }
        )
        if moved:
            _rewrite_paths(connection, moved, artifacts, database)
    for root in moved:
        log_message(f"updating paths of the store, which was moved from {root}")
    return moved


def _rewrite_paths(
    connection: sqlite3.Connection, moved: list[str], new: str, database: Path
) -> None:
    try:
        with connection:
            for table, column in _PATH_COLUMNS:
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


# Every complete or used database has a row in at least one of these tables.
_TABLES = ("experiments", "runs", "registered_models")
# Suffixes of files that SQLite reads as an unfinished transaction of the database next to them.
_JOURNAL_SUFFIXES = ("-journal", "-wal", "-shm")
# Time without a change. A shorter time may mean that another program is creating the database.
UNTOUCHED_S = 10.0
_POLL_S = 0.5


def make_database(store: Path) -> None:
    """Create the MLflow database of a store, unless it exists.

    The unfinished, empty database of a killed or failed process is replaced.

    Raises
    ------
    InputError
        If the path has a character with a meaning in database addresses.
    """
    # `?` starts the options of an address; SQLAlchemy 2.1 reads `%` as an escape.
    if wrong := next((character for character in "?%" if character in str(store)), None):
        msg = (
            f"store {store} must not have `{wrong}` in its path: it has a meaning in the address "
            "of a database. Name another folder."
        )
        raise InputError(msg)
    database = store / DATABASE
    if _is_finished(database):
        return
    journals = [database.with_name(f"{DATABASE}{suffix}") for suffix in _JOURNAL_SUFFIXES]
    with hold_lock(database):
        while database.exists() and not _is_finished(database):
            times = [path.stat().st_mtime for path in (database, *journals) if path.exists()]
            if time.time() - max(times) > UNTOUCHED_S:
                database.unlink()
            else:
                time.sleep(_POLL_S)
        if not database.exists():
            log_message("creating the store's MLflow database, which takes up to half a minute")
            for journal in journals:
                journal.unlink(missing_ok=True)
            with whole_file(database) as temporary:
                _create_tables(temporary, store / ARTIFACTS)


def _is_finished(database: Path) -> bool:
    """Return True if MLflow has completed a database, or if the file is not a database."""
    if not database.exists():
        return False
    with closing(sqlite3.connect(database, timeout=UNTOUCHED_S)) as connection:
        return any(_has_rows(connection, table) for table in _TABLES)


def _has_rows(connection: sqlite3.Connection, table: str) -> bool:
    try:
        rows = connection.execute(f"SELECT 1 FROM {table} LIMIT 1")  # noqa: S608 - our names
        return rows.fetchone() is not None
    except sqlite3.OperationalError as error:
        # Other errors mean that the database is locked or unreadable, so it is in use.
        return "no such table" not in str(error)
    except sqlite3.DatabaseError:  # not a database: `follow_move` raises the error
        return True


def _create_tables(database: Path, artifacts: Path) -> None:
    """Let MLflow create its tables, without flushing each step; the caller flushes the file."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: PLC0415
    from sqlalchemy import event  # noqa: PLC0415
    from sqlalchemy.engine import Engine  # noqa: PLC0415

    connections: list[sqlite3.Connection] = []

    def disable_flushing(connection: Any, _: Any) -> None:
        [(_, _, path), *_] = connection.execute("PRAGMA database_list").fetchall()
        if path and Path(path) == database:
            connection.execute("PRAGMA synchronous = OFF")
            connections.append(connection)

    event.listen(Engine, "connect", disable_flushing)
    try:
        SqlAlchemyStore(f"{LOCAL}{database}", artifacts.as_uri())
    finally:
        event.remove(Engine, "connect", disable_flushing)
        for connection in connections:
            connection.close()


DEADLINE_S = 60.0
_STEPS = 10_000  # of SQLite's virtual machine, between two checks of the time
# The settings of MLflow's connections; the last one changes the meaning of `LIKE`.
_PRAGMAS = ("foreign_keys = ON", "busy_timeout = 20000", "case_sensitive_like = true")
# MLflow's own triggers and their tables, which biasgate does not read.
_OWN_TRIGGERS = frozenset({("prevent_secrets_aad_mutation", "secrets")})
# MLflow's own computed columns.
_OWN_COMPUTED = frozenset({"spans"})
# Tables that identify versions, with their primary keys: without a key, a lookup is ambiguous.
_KEYS = {
    "registered_models": {"workspace", "name"},
    "registered_model_tags": {"workspace", "name", "key"},
    "registered_model_aliases": {"workspace", "name", "alias"},
    "model_versions": {"workspace", "name", "version"},
    "model_version_tags": {"workspace", "name", "version", "key"},
    "runs": {"run_uuid"},
}


@contextmanager
def open_read_only(database: Path) -> Iterator[sqlite3.Connection]:
    """Yield a read-only connection to a fixed state of the database, with MLflow's settings.

    `DEADLINE_S` limits the time of all queries.
    """
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        end = time.monotonic() + DEADLINE_S
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        connection.text_factory = lambda content: content.decode(errors="replace")
        connection.execute("BEGIN")
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if str(error) != "interrupted":
                raise
            msg = (
                f"{database} must answer within {DEADLINE_S:g} s; it did not. Was it tampered with?"
            )
            raise InputError(msg) from error


def require_plain(connection: sqlite3.Connection) -> None:
    """Refuse a database with views, triggers, computed columns or tables without their keys."""
    for kind, name, table, place in connection.execute(
        "SELECT type, name, tbl_name, rootpage FROM sqlite_master ORDER BY rowid"
    ).fetchall():
        if kind == "trigger" and (name, table) in _OWN_TRIGGERS:
            continue
        is_virtual = kind == "table" and not place
        if kind in {"view", "trigger"} or is_virtual:
            description = f"virtual {kind}" if is_virtual else kind
            msg = (
                f"MLflow's database must hold only plain tables; it has a {description} named "
                f"{name!r}. biasgate does not read it: it may change what the registry returns. "
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
        if not key or not key <= _KEYS[table]:  # keys are shorter in MLflow without workspaces
            msg = (
                f"table {table!r} of MLflow's database must have the primary key "
                f"{', '.join(sorted(_KEYS[table]))}; it does not. It may have been tampered with."
            )
            raise InputError(msg)


def require_plain_file(database: Path) -> None:
    """Apply `require_plain` to a local database before MLflow opens it.

    A missing or unreadable file is not an error here; MLflow reports it.
    """
    if not database.is_file():
        return
    try:
        with open_read_only(database) as connection:
            require_plain(connection)
    except sqlite3.DatabaseError:  # locked, unreadable or not a database: MLflow reports it
        return
