"""The registry of a local store, read without MLflow, whose import takes longer than most checks.

`biasgate verify` and the checks for deploy scripts read a few rows and some files. Importing MLflow
and connecting to its database takes some seven seconds of CPU time for that, so these rows are
read from SQLite directly, if the database has the schema that is known here. Everything else,
every change and what is not found, is left to MLflow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biasgate.tasks.mlflow_server.plain_database import LOCAL, reading, require_plain
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion

# The revision of MLflow's tables whose meaning is known; a test compares it with MLflow's own.
REVISION = "dc11669786a5"
_DELETED = "Deleted_Internal"
_LOGGED_MODEL = "models:/m-"
# The tables that are read, and their primary keys: no two rows can answer one question.
_TABLES = {
    "registered_models": ("workspace", "name"),
    "registered_model_tags": ("workspace", "name", "key"),
    "registered_model_aliases": ("workspace", "name", "alias"),
    "model_versions": ("workspace", "name", "version"),
    "model_version_tags": ("workspace", "name", "version", "key"),
    "runs": ("run_uuid",),
}


@dataclass(frozen=True)
class LocalReads(Gateway):
    """A gateway that reads versions, tags, aliases and places of files without MLflow."""

    def models(self) -> list[str]:
        """Return the names of the registered models."""
        query = "SELECT name FROM registered_models WHERE workspace = 'default' ORDER BY name"
        return [str(name) for (name,) in self._rows(query)]

    def versions(self, name: str) -> list[ModelVersion]:
        """Return every version of a registered model, oldest first; empty if there is none."""
        query = (
            "SELECT version, run_id, creation_time FROM model_versions WHERE name = ? AND "
            "current_stage != ? AND workspace = 'default' ORDER BY version"
        )
        tags: dict[int, dict[str, str]] = {}
        for number, key, value in self._rows(
            "SELECT version, key, value FROM model_version_tags WHERE name = ? AND "
            "workspace = 'default'",
            name,
        ):
            tags.setdefault(number, {})[str(key)] = str(value)
        return [
            _version(name, number, run_id, created, tags.get(number, {}))
            for number, run_id, created in self._rows(query, name, _DELETED)
        ]

    def resolve(self, uri: str) -> ModelVersion:
        """Return the version that `models:/name/version` or `models:/name@alias` names."""
        path = uri.removeprefix("models:/")
        if "@" in path:
            found = self.alias(*path.rsplit("@", 1))
        else:
            name, _, number = path.rpartition("/")
            found = self._version(name, number)
        return super().resolve(uri) if found is None else found

    def alias(self, name: str, alias: str) -> ModelVersion | None:
        """Return the version that an alias names, or None."""
        query = (
            "SELECT version FROM registered_model_aliases WHERE name = ? AND alias = ? AND "
            "workspace = 'default'"
        )
        for (number,) in self._rows(query, name, alias):
            return self._version(name, str(number))
        return None

    def model_tags(self, name: str) -> dict[str, str]:
        """Return the tags of a registered model."""
        query = (
            "SELECT key, value FROM registered_model_tags WHERE name = ? AND workspace = 'default'"
        )
        return {str(key): str(value) for key, value in self._rows(query, name)}

    def place_of(self, model: ModelVersion) -> str:
        """Return the URI of a version's files, where MLflow would load it from."""
        query = (
            "SELECT coalesce(nullif(storage_location, ''), source) FROM model_versions WHERE "
            "name = ? AND version = ? AND current_stage != ? AND workspace = 'default'"
        )
        for (place,) in self._rows(query, model.name, int(model.version), _DELETED):
            if place and not str(place).startswith(_LOGGED_MODEL):
                return str(place)
        return super().place_of(model)

    def artifacts_of(self, run_id: str) -> str:
        """Return the URI of a run's artifacts."""
        query = "SELECT artifact_uri FROM runs WHERE run_uuid = ?"
        for (place,) in self._rows(query, run_id):
            if place:
                return str(place)
        return super().artifacts_of(run_id)

    def _version(self, name: str, number: str) -> ModelVersion | None:
        return next((one for one in self.versions(name) if one.version == number), None)

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with reading(Path(self.uri.removeprefix(LOCAL))) as connection:
            require_plain(connection, _TABLES)
            return connection.execute(query, values).fetchall()


def for_reading(gateway: Gateway) -> Gateway:
    """Return a gateway that reads without MLflow, if its database is a local one of known form.

    Raises
    ------
    InputError
        If the database is not made of plain tables.
    """
    database = Path(gateway.uri.removeprefix(LOCAL))
    if gateway.registry or not gateway.uri.startswith(LOCAL) or not database.is_file():
        return gateway
    try:
        with reading(database) as connection:
            require_plain(connection, {})
            found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.DatabaseError:  # MLflow says what is wrong
        return gateway
    if found != [(REVISION,)]:
        return gateway
    return LocalReads(gateway.uri, gateway.artifacts, work=gateway.work)


def _version(
    name: str, number: object, run_id: object, created: object, tags: Mapping[str, str]
) -> ModelVersion:
    time = created if isinstance(created, int) else 0
    return ModelVersion(name, str(number), str(run_id) if run_id else None, tags, time)
