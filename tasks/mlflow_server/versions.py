"""The registry of MLflow's server: versions, their tags and aliases.

`runs` adds the runs, and is used by the rest of the package. MLflow takes seconds to import, so
both modules import it at the first call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from biasgate.tasks.common.command_lines import format_command, format_store_option
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.artifacts import (
    fetch,
    kept_files,
    listed_at,
    local_folder,
    manifest_at,
    work_folder,
)
from biasgate.tasks.mlflow_server.server import AnsweredClient
from biasgate.tasks.signing.manifest import Manifest

if TYPE_CHECKING:
    from mlflow import MlflowClient

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")  # on standard error
_VERSIONS_A_PAGE = 1000
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_URI = re.compile(r"models:/([^/:]+)/[1-9][0-9]{0,17}")
_NOT_A_NUMBER = "a version must be a whole number from 1, as MLflow shows it"
_OTHER_SCHEMA = re.compile(r"out-of-date database schema \(found version (\w+)")


@dataclass(frozen=True)
class ModelVersion:
    """A version in the registry."""

    name: str
    version: str
    run_id: str | None
    tags: Mapping[str, str]
    created: int = 0
    """When the registry created it, in milliseconds since 1970; 0 if unknown."""
    source: str = ""
    """What it was registered from: a place of files, or `models:/name/version` for a copy."""

    @property
    def is_copy(self) -> bool:
        """Whether MLflow copied it, with its tags, from a version of another model."""
        return model_of(self.source) not in {None, self.name}

    @property
    def uri(self) -> str:
        """`models:/name/version`."""
        return f"models:/{self.name}/{self.version}"


def model_of(uri: str | None) -> str | None:
    """Return the registered model in `models:/name/version`; None for any other text."""
    found = _URI.fullmatch(uri or "")
    return found[1] if found else None


@dataclass(frozen=True)
class Registry:
    """A registry of models."""

    uri: str
    """Tracking URI; `sqlite:///...` for a local store."""
    work: Path | None = field(default=None, kw_only=True)
    """The folder of a store for downloads. Default: the system's folder for temporary files."""
    registry: str | None = field(default=None, kw_only=True)
    """Address of the registry, if it is not the tracking URI."""

    def command(self, *words: str) -> str:
        """Return a command on this registry as it is typed in the current folder."""
        return format_command(
            *words, *format_store_option("" if self.work is None else self.work.parent)
        )

    @property
    def registry_uri(self) -> str:
        """The address of the registry."""
        return self.registry or self.uri

    @cached_property
    def client(self) -> MlflowClient:
        """The client, for tracking and registry."""
        from mlflow import MlflowClient  # noqa: PLC0415
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            made = MlflowClient(tracking_uri=self.uri, registry_uri=self.registry_uri)
        except MlflowException as error:
            found = _OTHER_SCHEMA.search(error.message)
            if found is None:
                raise
            raise InputError(_schema_problem(self.uri, found[1])) from error
        return cast("MlflowClient", AnsweredClient(made, self.uri))

    def register(
        self, name: str, run_id: str, artifact_path: str, tags: Mapping[str, str]
    ) -> ModelVersion:
        """Register a run's artifact folder as a new version."""
        self.create_model(name)
        source = f"{self.client.get_run(run_id).info.artifact_uri}/{artifact_path}"
        made = self.client.create_model_version(name, source, run_id=run_id, tags=dict(tags))
        return ModelVersion(name, str(made.version), run_id, tags)

    def register_once(
        self, name: str, run_id: str, artifact_path: str, tags: Mapping[str, str], tag: str
    ) -> ModelVersion:
        """Register a version, unless another process has just registered one with the same tag.

        The first stays. Later ones, of other processes and of calls whose answers were lost, are
        deleted.
        """
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        made = self.register(name, run_id, artifact_path, tags)
        first, *later = self._tagged(name, tag, tags[tag]) or [made]
        for model_version in later:
            try:
                self.client.delete_model_version(name, model_version.version)
            except MlflowException as error:  # deleted by another process, or the answer was lost
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
        return first

    def create_model(self, name: str) -> None:
        """Create a registered model; harmless if there is one."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            self.client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def record_version(
        self, name: str, run_id: str | None, tags: Mapping[str, str]
    ) -> ModelVersion:
        """Add a version that is a record, not a model; the server numbers it.

        Numbering is atomic: concurrent callers get different numbers.
        """
        self.create_model(name)
        source = "biasgate:/record"  # a server refuses a path that does not begin with a slash
        if run_id is not None:
            source = str(self.client.get_run(run_id).info.artifact_uri)
        made = self.client.create_model_version(name, source, run_id=run_id, tags=dict(tags))
        return ModelVersion(
            name, str(made.version), run_id, dict(tags), int(made.creation_timestamp or 0)
        )

    def versions(self, name: str) -> list[ModelVersion]:
        """Return every version of a registered model, oldest first; empty if there is none."""
        search = partial(
            self.client.search_model_versions, f"name = '{name}'", max_results=_VERSIONS_A_PAGE
        )
        return sorted(map(_version, _paged(search)), key=lambda version: int(version.version))

    def models(self) -> list[str]:
        """Return the names of the registered models."""
        return [str(model.name) for model in _paged(self.client.search_registered_models)]

    def find_version(self, name: str, tag: str, value: str) -> ModelVersion | None:
        """Return the first version with a tag, or None."""
        return next(iter(self._tagged(name, tag, value)), None)

    def _tagged(self, name: str, tag: str, value: str) -> list[ModelVersion]:
        found = self.client.search_model_versions(f"name = '{name}' and tags.`{tag}` = '{value}'")
        return sorted(map(_version, found), key=lambda version: int(version.version))

    def resolve(self, uri: str) -> ModelVersion:
        """Return the version that `models:/name/version` or `models:/name@alias` names."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        path = uri.removeprefix("models:/")
        try:
            if "@" in path:
                return _version(self.client.get_model_version_by_alias(*path.rsplit("@", 1)))
            return self._numbered(*path.rpartition("/")[::2])
        except MlflowException as error:
            if error.error_code not in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}:
                raise
            msg = (
                f"model {uri} must be in the registry at {self.registry_uri}; "
                f"{error.message.rstrip('.')}. Write models:/NAME/VERSION or models:/NAME@ALIAS."
            )
            if self.registry_uri.startswith("sqlite:"):
                msg += (
                    " If it was logged elsewhere, set MLFLOW_TRACKING_URI: to a server, or to "
                    "MLflow's default file, as in sqlite:///mlflow.db."
                )
            raise InputError(msg) from error

    def _numbered(self, name: str, version: str) -> ModelVersion:
        """Return a version by its number, which is written in one way."""
        from mlflow.exceptions import INVALID_PARAMETER_VALUE, MlflowException  # noqa: PLC0415

        if not _NUMBER.fullmatch(version):
            raise MlflowException(_NOT_A_NUMBER, INVALID_PARAMETER_VALUE)
        return _version(self.client.get_model_version(name, version))

    def alias(self, name: str, alias: str) -> ModelVersion | None:
        """Return the version that an alias names, or None."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            return _version(self.client.get_model_version_by_alias(name, alias))
        except MlflowException as error:
            if error.error_code in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}:
                return None
            raise

    def set_alias(self, name: str, alias: str, version: str) -> None:
        """Point an alias at a version; MLflow does this unconditionally."""
        self.client.set_registered_model_alias(name, alias, version)

    def delete_alias(self, name: str, alias: str) -> None:
        """Remove an alias; harmless if there is none."""
        self.client.delete_registered_model_alias(name, alias)

    def tag_model(self, name: str, tags: Mapping[str, str]) -> None:
        """Set tags on a registered model."""
        for key, value in tags.items():
            self.client.set_registered_model_tag(name, key, value)

    def model_tags(self, name: str) -> dict[str, str]:
        """Return the tags of a registered model."""
        return dict(self.client.get_registered_model(name).tags)

    def tag_version(self, model: ModelVersion, tags: Mapping[str, str]) -> None:
        """Set tags on a version."""
        for key, value in tags.items():
            self.client.set_model_version_tag(model.name, model.version, key, str(value))

    def describe_version(self, model: ModelVersion, description: str) -> None:
        """Set the Markdown description on the version's page."""
        self.client.update_model_version(model.name, model.version, description)

    def place_of(self, model: ModelVersion) -> str:
        """Return the URI of a version's files, where MLflow would load it from."""
        found = str(self.client.get_model_version_download_uri(model.name, model.version))
        if re.fullmatch(r"models:/m-[^/@]+", found):  # a logged model of MLflow 3
            found = str(
                self.client.get_logged_model(found.removeprefix("models:/")).artifact_location
            )
        elif run := re.fullmatch(r"runs:/([^/]+)/(.+)", found):
            found = f"{self.client.get_run(run[1]).info.artifact_uri}/{run[2]}"
        return found

    def fetch(self, model: ModelVersion, folder: Path) -> Path:
        """Copy a version's files to an empty folder; return where they are in it."""
        return fetch(self.place_of(model), self.uri, folder)

    @contextmanager
    def downloaded(self, model: ModelVersion) -> Iterator[Path]:
        """Yield a private copy of a version's files, only to be read.

        Of files on another machine it is kept in the store, for the next task and the next night;
        of files of this machine, and without a store, it is removed at the end.
        """
        place, work = self.place_of(model), self.work
        if work is not None and local_folder(place) is None and os.access(work.parent, os.W_OK):
            created = f"{model.uri} {model.created}"
            with kept_files(place, self.uri, created, work.parent) as folder:
                yield folder
            return
        with work_folder(work) as folder:
            yield self.fetch(model, folder)

    def sizes(self, model: ModelVersion) -> Mapping[str, int | None]:
        """Return the names and sizes of a version's files as they are now, without reading any."""
        return listed_at(self.place_of(model), self.uri)

    def manifest(self, model: ModelVersion) -> Manifest:
        """Return the manifest of a version's files as they are now."""
        return manifest_at(self.place_of(model), self.uri, self.work)


def _paged(search: Callable[..., Any]) -> Iterator[Any]:
    """Yield what MLflow finds, page by page."""
    token: str | None = None
    while True:
        page = search(page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _schema_problem(uri: str, revision: str) -> str:
    """Return what to do about a database that another version of MLflow created."""
    import mlflow  # noqa: PLC0415
    from mlflow.store import db_migrations  # noqa: PLC0415

    ours = Path(db_migrations.__path__[0]) / "versions"
    if list(ours.glob(f"{revision}_*.py")):
        return (
            f"{uri} must have the schema of MLflow {mlflow.__version__}; its schema is older. Make "
            f"a copy of the database, then run: mlflow db upgrade {uri}"
        )
    return (
        f"{uri} must have the schema of MLflow {mlflow.__version__} or older; a newer MLflow "
        "wrote it. Install the biasgate and MLflow that wrote it, or use another store: `--store`."
    )


def _version(found: Any) -> ModelVersion:
    return ModelVersion(
        found.name,
        str(found.version),
        found.run_id or None,
        dict(found.tags),
        int(found.creation_timestamp or 0),
        str(found.source or ""),
    )
