"""The files of runs, written to and read from a tracking server or a local store."""

from __future__ import annotations

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
from biasgate.tasks.mlflow_server.versions import Registry


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
        """Yield a folder with a run's artifacts, or with only some, to be read in the body.

        Raises
        ------
        InputError
            If there is no such run, or its files are missing.
        """
        with files_at(self.artifacts_of(run_id), self.uri, self.work, names) as folder:
            yield folder

    def artifacts_of(self, run_id: str) -> str:
        """Return the URI of a run's artifacts.

        Raises
        ------
        InputError
            If there is no such run, or that host must not get the server's credentials.
        """
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

        Raises
        ------
        FileNotFoundError
            If there is none in a local store.
        InputError
            If there is none on a server, or it is not plain JSON in a regular file.
        """
        with self.run_files(run_id, [name]) as folder:
            return read_json(folder / name, f"{name} of run {run_id}")

    def log_table(self, run_id: str, rows: Mapping[str, Sequence[Any]], file: str) -> None:
        """Log a table for the run page."""
        self.artifacts_of(run_id)  # or refuse the host
        self.client.log_table(run_id, dict(rows), file)
