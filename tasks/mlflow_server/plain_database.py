"""A database of MLflow holds tables alone: nothing in it computes what is read from it.

Whoever may write to a store may write its database, too. A view in the place of a table can answer
one program differently from another, or never end; so can a column that is computed. Looked at
each time when a store is opened, before MLflow reads from it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from biasgate.tasks.common.errors import InputError

LOCAL = "sqlite:///"
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
            msg = f"{database} must answer within {limit:g} s; it did not. Who changed it?"
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
                f"MLflow's database must hold plain tables alone; it has a {told} named {name!r}. "
                "biasgate reads nothing from it: somebody may have changed what the registry says. "
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
                "MLflow's database must hold plain tables alone; column "
                f"{column!r} of table {table!r} is computed. Who changed it?"
            )
            raise InputError(msg)
    for table in {name for name, *_ in columns} & _KEYS.keys():
        key = {column for name, column, number, _ in columns if name == table and number}
        if not key or not key <= _KEYS[table]:  # MLflow without workspaces has shorter ones
            msg = (
                f"table {table!r} of MLflow's database must have the primary key "
                f"{', '.join(sorted(_KEYS[table]))}; it has not. Who changed it?"
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
