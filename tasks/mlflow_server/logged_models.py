"""Logged models: the models on the tab *Models* of an experiment.

Each candidate that was judged in the experiment has a logged model, whatever its kind. The files
of the model are not copied: they are in the run of a registered version, or outside of MLflow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import flush_all
from biasgate.tasks.common.untrusted import read_json
from biasgate.tasks.mlflow_server.artifact_hosts import require_own_host
from biasgate.tasks.mlflow_server.artifacts import open_artifacts
from biasgate.tasks.mlflow_server.versions import MISSING_CODES, ModelVersion, Registry

_DIGEST_LENGTH = 36
_KEY = "biasgate.candidate_key"
_VERSIONS_TAG = "mlflow.modelVersions"  # versions to link on MLflow's page of a model
# Characters that MLflow refuses in names of models.
_REFUSED_CHARACTERS = str.maketrans(dict.fromkeys("/:.%\"'", "_"))


@dataclass(frozen=True)
class ModelOnSet:
    """A model and the evaluation set of its metrics."""

    model_id: str
    """Id of the logged model."""
    dataset_name: str
    dataset_digest: str
    """Digest of the evaluation set, shortened as in the inputs of the run."""

    @classmethod
    def from_digest(cls, model_id: str, name: str, digest: str) -> ModelOnSet:
        """Return the model on a set with a digest of full length."""
        return cls(model_id, name, digest[:_DIGEST_LENGTH])


@dataclass(frozen=True)
class LoggedModels(Registry):
    """A registry, the files of its runs, and the models of its experiments."""

    artifacts: str | None = None
    """Address of the artifacts of a local store; None if the server decides."""

    def log_folder(self, run_id: str, folder: Path, path: str | None = None) -> None:
        """Upload the files of a folder; in a local store, flush them to disk."""
        self.get_artifact_uri(run_id)  # checks the host
        self.client.log_artifacts(run_id, str(folder), path)
        if self.artifacts is not None and any(folder.iterdir()):
            with self.open_run_files(run_id) as artifacts:
                flush_all(artifacts)

    def log_file(self, run_id: str, path: Path) -> None:
        """Upload a file; in a local store, flush it to disk."""
        self.get_artifact_uri(run_id)  # checks the host
        self.client.log_artifact(run_id, str(path))
        if self.artifacts is not None:
            with self.open_run_files(run_id) as artifacts:
                flush_all(artifacts)

    @contextmanager
    def open_run_files(self, run_id: str, names: Sequence[str] | None = None) -> Iterator[Path]:
        """Yield a folder with the artifacts of a run, only to be read.

        `names`: the required files. Default: all.
        """
        with open_artifacts(self.get_artifact_uri(run_id), self.uri, self.work, names) as folder:
            yield folder

    def get_artifact_uri(self, run_id: str) -> str:
        """Return the URI of the artifacts of a run, after a check of its host.

        Raises
        ------
        InputError
            If the run does not exist, or its host is not allowed.
        """
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            uri = str(self.client.get_run(run_id).info.artifact_uri)
        except MlflowException as error:
            if error.error_code not in MISSING_CODES:
                raise
            msg = f"run {run_id!r} must exist at {self.uri}; it does not."
            raise InputError(msg) from error
        require_own_host(uri, self.uri)
        return uri

    def read_json(self, run_id: str, name: str) -> Any:
        """Read a JSON file of a run's artifacts.

        Raises
        ------
        FileNotFoundError
            If the file does not exist in a local store.
        InputError
            If the file does not exist on a server.
        """
        with self.open_run_files(run_id, [name]) as folder:
            return read_json(folder / name, f"{name} of run {run_id}")

    def log_table(self, run_id: str, rows: Mapping[str, Sequence[Any]], file: str) -> None:
        """Log a table, which MLflow shows on the page of the run."""
        self.get_artifact_uri(run_id)  # checks the host
        self.client.log_table(run_id, dict(rows), file)

    def ensure_logged_model(
        self,
        experiment_id: str,
        key: str,
        name: str,
        *,
        kind: str,
        tags: Mapping[str, str],
        version: ModelVersion | None,
    ) -> str:
        """Return the id of the model with a key in an experiment; create it if missing.

        Parameters
        ----------
        experiment_id : str
            The experiment.
        key : str
            Digest that identifies the model, in hexadecimal digits.
        name : str
            Name to show.
        kind : str
            Type of the model, as MLflow shows it.
        tags : mapping of str to str
            Tags to set, also on an existing model.
        version : ModelVersion or None
            The registered version of the model, if any. Its page links this version and its run.
        """
        matches = self.client.search_logged_models(
            [experiment_id], filter_string=f"tags.`{_KEY}` = '{key}'", max_results=1
        )
        if matches:
            model_id = str(matches[0].model_id)
            self.client.set_logged_model_tags(model_id, dict(tags))
            return model_id
        all_tags: dict[str, Any] = {**tags, _KEY: key}
        if version is not None:
            link = {"name": version.name, "version": version.version}
            all_tags[_VERSIONS_TAG] = json.dumps([link])
        model = self.client.create_logged_model(
            experiment_id,
            name.translate(_REFUSED_CHARACTERS),
            source_run_id=None if version is None else version.run_id,
            tags=all_tags,
            model_type=kind,
        )
        self.client.finalize_logged_model(model.model_id, "READY")
        return str(model.model_id)
