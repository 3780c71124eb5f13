"""The registry on MLflow's server: versions, their tags and aliases.

`runs` extends the registry by runs, for the rest of the package. MLflow takes seconds to import, so
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
    create_work_folder,
    fetch,
    find_local_folder,
    list_artifact_sizes,
    open_kept_copy,
    read_manifest,
)
from biasgate.tasks.mlflow_server.server import RetryingClient
from biasgate.tasks.signing.manifest import Manifest

if TYPE_CHECKING:
    from mlflow import MlflowClient

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")  # on standard error
MISSING_CODES = frozenset({"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"})
"""Error codes of MLflow for a run, version or alias that does not exist."""
_VERSIONS_PER_PAGE = 1000
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
    """Time of creation in the registry, in milliseconds since 1970; 0 if unknown."""
    source: str = ""
    """URI of the registered files, or `models:/name/version` for a copy."""

    @property
    def is_copy(self) -> bool:
        """True if MLflow copied it, with its tags, from a version of another model."""
        return parse_model_name(self.source) not in {None, self.name}

    @property
    def uri(self) -> str:
        """The address `models:/name/version`."""
        return f"models:/{self.name}/{self.version}"


def parse_model_name(uri: str | None) -> str | None:
    """Return the name of the model in `models:/name/version`; None for any other text."""
    match = _URI.fullmatch(uri or "")
    return match[1] if match else None


@dataclass(frozen=True)
class Registry:
    """A registry of models."""

    uri: str
    """Tracking URI; `sqlite:///...` for a local store."""
    work: Path | None = field(default=None, kw_only=True)
    """A store's folder for downloads. Default: the system's folder for temporary files."""
    registry: str | None = field(default=None, kw_only=True)
    """Address of the registry, if it is not the tracking URI."""

    def format_command(self, *words: str) -> str:
        """Return a command line of biasgate for this registry, to run in the current folder."""
        return format_command(
            *words, *format_store_option("" if self.work is None else self.work.parent)
        )

    @property
    def registry_uri(self) -> str:
        """The address of the registry."""
        return self.registry or self.uri

    @cached_property
    def client(self) -> MlflowClient:
        """MLflow's client for tracking and registry, with retries."""
        from mlflow import MlflowClient  # noqa: PLC0415
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            client = MlflowClient(tracking_uri=self.uri, registry_uri=self.registry_uri)
        except MlflowException as error:
            match = _OTHER_SCHEMA.search(error.message)
            if match is None:
                raise
            raise InputError(_explain_schema(self.uri, match[1])) from error
        return cast("MlflowClient", RetryingClient(client, self.uri))

    def register(
        self, name: str, run_id: str, artifact_path: str, tags: Mapping[str, str]
    ) -> ModelVersion:
        """Register a run's artifact folder as a new version."""
        self.create_model(name)
        source = f"{self.client.get_run(run_id).info.artifact_uri}/{artifact_path}"
        version = self.client.create_model_version(name, source, run_id=run_id, tags=dict(tags))
        return ModelVersion(name, str(version.version), run_id, tags)

    def register_once(
        self, name: str, run_id: str, artifact_path: str, tags: Mapping[str, str], tag: str
    ) -> ModelVersion:
        """Register a version, and keep only the oldest version with the same value of `tag`.

        Returns the oldest version. Later versions, by other processes or by calls with a lost
        response, are deleted.
        """
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        registered = self.register(name, run_id, artifact_path, tags)
        first, *later = self._find_tagged(name, tag, tags[tag]) or [registered]
        for model_version in later:
            try:
                self.client.delete_model_version(name, model_version.version)
            except MlflowException as error:  # deleted by another process or a lost call
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
        return first

    def create_model(self, name: str) -> None:
        """Create a registered model, unless it exists."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            self.client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def record_version(
        self, name: str, run_id: str | None, tags: Mapping[str, str]
    ) -> ModelVersion:
        """Add a version that is a record, not a model; the server assigns its number.

        The assignment is atomic: concurrent callers get different numbers.
        """
        self.create_model(name)
        source = "biasgate:/record"  # a server refuses a path that does not begin with a slash
        if run_id is not None:
            source = str(self.client.get_run(run_id).info.artifact_uri)
        version = self.client.create_model_version(name, source, run_id=run_id, tags=dict(tags))
        return ModelVersion(
            name, str(version.version), run_id, dict(tags), int(version.creation_timestamp or 0)
        )

    def list_versions(self, name: str) -> list[ModelVersion]:
        """Return all versions of a registered model, oldest first; empty if it does not exist."""
        search = partial(
            self.client.search_model_versions, f"name = '{name}'", max_results=_VERSIONS_PER_PAGE
        )
        return sorted(
            map(_convert_version, _iterate_pages(search)), key=lambda version: int(version.version)
        )

    def list_models(self) -> list[str]:
        """Return the names of the registered models."""
        return [str(model.name) for model in _iterate_pages(self.client.search_registered_models)]

    def find_version(self, name: str, tag: str, value: str) -> ModelVersion | None:
        """Return the oldest version with a value of a tag, or None."""
        return next(iter(self._find_tagged(name, tag, value)), None)

    def _find_tagged(self, name: str, tag: str, value: str) -> list[ModelVersion]:
        matches = self.client.search_model_versions(f"name = '{name}' and tags.`{tag}` = '{value}'")
        return sorted(map(_convert_version, matches), key=lambda version: int(version.version))

    def resolve(self, uri: str) -> ModelVersion:
        """Return the version at `models:/name/version` or `models:/name@alias`.

        Raises
        ------
        InputError
            If the version does not exist.
        """
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        path = uri.removeprefix("models:/")
        try:
            if "@" in path:
                return _convert_version(
                    self.client.get_model_version_by_alias(*path.rsplit("@", 1))
                )
            return self._get_numbered(*path.rpartition("/")[::2])
        except MlflowException as error:
            if error.error_code not in MISSING_CODES:
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

    def _get_numbered(self, name: str, version: str) -> ModelVersion:
        """Return a version by its number; forms such as `01` are refused."""
        from mlflow.exceptions import INVALID_PARAMETER_VALUE, MlflowException  # noqa: PLC0415

        if not _NUMBER.fullmatch(version):
            raise MlflowException(_NOT_A_NUMBER, INVALID_PARAMETER_VALUE)
        return _convert_version(self.client.get_model_version(name, version))

    def get_alias(self, name: str, alias: str) -> ModelVersion | None:
        """Return the version of an alias, or None."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            return _convert_version(self.client.get_model_version_by_alias(name, alias))
        except MlflowException as error:
            if error.error_code in MISSING_CODES:
                return None
            raise

    def set_alias(self, name: str, alias: str, version: str) -> None:
        """Point an alias at a version, without a check of its current version."""
        self.client.set_registered_model_alias(name, alias, version)

    def delete_alias(self, name: str, alias: str) -> None:
        """Remove an alias, if it exists."""
        self.client.delete_registered_model_alias(name, alias)

    def tag_model(self, name: str, tags: Mapping[str, str]) -> None:
        """Set tags on a registered model."""
        for key, value in tags.items():
            self.client.set_registered_model_tag(name, key, value)

    def get_model_tags(self, name: str) -> dict[str, str]:
        """Return the tags of a registered model."""
        return dict(self.client.get_registered_model(name).tags)

    def tag_version(self, model: ModelVersion, tags: Mapping[str, str]) -> None:
        """Set tags on a version."""
        for key, value in tags.items():
            self.client.set_model_version_tag(model.name, model.version, key, str(value))

    def describe_version(self, model: ModelVersion, description: str) -> None:
        """Set the Markdown description of a version."""
        self.client.update_model_version(model.name, model.version, description)

    def find_files_uri(self, model: ModelVersion) -> str:
        """Return the URI of a version's files, from which MLflow would load it."""
        uri = str(self.client.get_model_version_download_uri(model.name, model.version))
        if re.fullmatch(r"models:/m-[^/@]+", uri):  # a logged model of MLflow 3
            uri = str(self.client.get_logged_model(uri.removeprefix("models:/")).artifact_location)
        elif run := re.fullmatch(r"runs:/([^/]+)/(.+)", uri):
            uri = f"{self.client.get_run(run[1]).info.artifact_uri}/{run[2]}"
        return uri

    def fetch(self, model: ModelVersion, folder: Path) -> Path:
        """Copy a version's files to an empty folder; return their path in it."""
        return fetch(self.find_files_uri(model), self.uri, folder)

    @contextmanager
    def open_download(self, model: ModelVersion) -> Iterator[Path]:
        """Yield a private copy of a version's files, only to be read.

        A copy from another machine is kept in the store for later tasks and nights. A copy from
        this machine, or without a writable store, is removed at the end.
        """
        place, work = self.find_files_uri(model), self.work
        if (
            work is not None
            and find_local_folder(place) is None
            and os.access(work.parent, os.W_OK)
        ):
            key = f"{model.uri} {model.created}"
            with open_kept_copy(place, self.uri, key, work.parent) as folder:
                yield folder
            return
        with create_work_folder(work) as folder:
            yield self.fetch(model, folder)

    def list_file_sizes(self, model: ModelVersion) -> Mapping[str, int | None]:
        """Return the current names and sizes of a version's files, without reading them."""
        return list_artifact_sizes(self.find_files_uri(model), self.uri)

    def read_manifest(self, model: ModelVersion) -> Manifest:
        """Return the manifest of the current files of a version."""
        return read_manifest(self.find_files_uri(model), self.uri, self.work)


def _iterate_pages(search: Callable[..., Any]) -> Iterator[Any]:
    """Yield the results of all pages of a search."""
    token: str | None = None
    while True:
        page = search(page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _explain_schema(uri: str, revision: str) -> str:
    """Explain how to use a database that another version of MLflow created."""
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


def _convert_version(version: Any) -> ModelVersion:
    return ModelVersion(
        version.name,
        str(version.version),
        version.run_id or None,
        dict(version.tags),
        int(version.creation_timestamp or 0),
        str(version.source or ""),
    )
