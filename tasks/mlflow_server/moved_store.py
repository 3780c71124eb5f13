"""The MLflow database of a local store, and the paths that MLflow writes to it.

MLflow writes the whole path of every artifact into its database. When a store is moved or
copied, these paths still point to the old place, so they are rewritten when it is opened.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from biasgate.tasks.common.errors import InputError

DATABASE, ARTIFACTS = "mlflow.db", "mlartifacts"
# Tables and columns in which MLflow keeps paths of artifacts.
_PATHS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)
_WAIT_S = 60

_log = logging.getLogger("biasgate.steps")


def require_store(store: Path) -> None:
    """Refuse a folder without runs of an evaluation, before a database is created in it."""
    if (store / DATABASE).exists():
        return
    there = "it has no runs in MLflow" if store.is_dir() else "there is none"
    below = store / ".biasgate"
    found = f" Did you mean {below}?" if (below / DATABASE).exists() else ""
    msg = (
        f"store {store} must be a folder that an evaluation wrote; {there}.{found} "
        "Name the store, or the MLflow server in MLFLOW_TRACKING_URI."
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
    with closing(sqlite3.connect(database, timeout=_WAIT_S)) as connection:
        try:
            locations = _locations(connection)
        except sqlite3.OperationalError:  # for example locked: a retry may succeed
            raise
        except sqlite3.DatabaseError as error:
            msg = f"file {database} must be the MLflow database of the store; got: {error}."
            raise InputError(msg) from error
        moved = [
            root for root in _roots(locations) if root != here and _is_here(root, locations, store)
        ]
        if moved:
            _rewrite(connection, moved, here, database)
    for root in moved:
        _log.info("updating paths of the store, which was moved from %s", root)
    return moved


def _locations(connection: sqlite3.Connection) -> list[str]:
    """Return where experiments keep their artifacts."""
    if not _has_column(connection, "experiments", "artifact_location"):
        return []
    found = connection.execute("SELECT artifact_location FROM experiments").fetchall()
    return [str(location) for (location,) in found]


def _roots(locations: list[str]) -> list[str]:
    """Return the folders `.../mlartifacts` that contain the locations."""
    parts = [location.rpartition(f"/{ARTIFACTS}/") for location in locations]
    return sorted({f"{before}/{ARTIFACTS}" for before, cut, _ in parts if cut})


def _is_here(root: str, locations: list[str], store: Path) -> bool:
    """Whether the artifacts of any experiment below `root` are in this store."""
    names = [
        location.removeprefix(f"{root}/")
        for location in locations
        if location.startswith(f"{root}/")
    ]
    return any((store / ARTIFACTS / name).is_dir() for name in names)


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
