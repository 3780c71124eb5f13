"""The models of an experiment: what its tab *Models* and `search_logged_models` find.

MLflow calls them logged models. One stands for each candidate that was judged in the experiment,
whatever its kind. Its files stay where they are: in the run of a registered version, or outside.
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
from biasgate.tasks.mlflow_server.artifacts import files_at
from biasgate.tasks.mlflow_server.versions import ModelVersion, Registry


@dataclass(frozen=True)
class RunFiles(Registry):
    """A registry, and the files of its runs."""

    artifacts: str | None = None
    """Where a local store keeps artifacts; None if the server decides."""

    def log_folder(self, run_id: str, folder: Path, path: str | None = None) -> None:
        """Upload a folder's files; in a local store they survive a power cut."""
        self.artifacts_of(run_id)  # or refuse the host
        self.client.log_artifacts(run_id, str(folder), path)
        if self.artifacts is not None and any(folder.iterdir()):
            with self.run_files(run_id) as kept:
                flush_all(kept)

    def log_file(self, run_id: str, path: Path) -> None:
        """Upload one file; in a local store it survives a power cut."""
        self.artifacts_of(run_id)  # or refuse the host
        self.client.log_artifact(run_id, str(path))
        if self.artifacts is not None:
            with self.run_files(run_id) as kept:
                flush_all(kept)

    @contextmanager
    def run_files(self, run_id: str, names: Sequence[str] | None = None) -> Iterator[Path]:
        """Yield a folder with a run's artifacts, or with only some, to be read in the body."""
        with files_at(self.artifacts_of(run_id), self.uri, self.work, names) as folder:
            yield folder

    def artifacts_of(self, run_id: str) -> str:
        """Return the URI of a run's artifacts."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            uri = str(self.client.get_run(run_id).info.artifact_uri)
        except MlflowException as error:
            if error.error_code not in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}:
                raise
            msg = f"run {run_id!r} must exist at {self.uri}; it does not."
            raise InputError(msg) from error
        require_own_host(uri, self.uri)
        return uri

    def read_json(self, run_id: str, name: str) -> Any:
        """Read one JSON file of a run's artifacts.

        Without one, a local store raises FileNotFoundError, and a server InputError.
        """
        with self.run_files(run_id, [name]) as folder:
            return read_json(folder / name, f"{name} of run {run_id}")

    def log_table(self, run_id: str, rows: Mapping[str, Sequence[Any]], file: str) -> None:
        """Log a table for the run page."""
        self.artifacts_of(run_id)  # or refuse the host
        self.client.log_table(run_id, dict(rows), file)


_DIGEST_LENGTH = 36
_KEY = "biasgate.candidate_key"
_VERSIONS = "mlflow.modelVersions"  # the versions that MLflow's page of a model links
# Characters that MLflow refuses in the name of a model.
_REFUSED = str.maketrans(dict.fromkeys("/:.%\"'", "_"))


@dataclass(frozen=True)
class Judged:
    """A model and the set that its metrics are about."""

    model_id: str
    """Of the logged model."""
    dataset_name: str
    dataset_digest: str
    """Of the evaluation set, as in the run's inputs; the digest is shortened."""

    @classmethod
    def on(cls, model_id: str, name: str, digest: str) -> Judged:
        """Return the model on a set with this digest."""
        return cls(model_id, name, digest[:_DIGEST_LENGTH])


@dataclass(frozen=True)
class LoggedModels(RunFiles):
    """The models of experiments."""

    def logged_model(
        self,
        experiment_id: str,
        key: str,
        name: str,
        *,
        kind: str,
        tags: Mapping[str, str],
        version: ModelVersion | None = None,
    ) -> str:
        """Return the id of the model with this key in an experiment; create it if missing.

        `key`: what makes it this model and no other, in hexadecimal digits. `version`: the
        registered version that it is, which its page then links, with the run that made it.
        """
        found = self.client.search_logged_models(
            [experiment_id], filter_string=f"tags.`{_KEY}` = '{key}'", max_results=1
        )
        if found:
            model_id = str(found[0].model_id)
            self.client.set_logged_model_tags(model_id, dict(tags))
            return model_id
        known: dict[str, Any] = {**tags, _KEY: key}
        if version is not None:
            named = {"name": version.name, "version": version.version}
            known[_VERSIONS] = json.dumps([named])
        made = self.client.create_logged_model(
            experiment_id,
            name.translate(_REFUSED),
            source_run_id=None if version is None else version.run_id,
            tags=known,
            model_type=kind,
        )
        self.client.finalize_logged_model(made.model_id, "READY")
        return str(made.model_id)
