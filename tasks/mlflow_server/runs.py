"""Experiments and runs on MLflow's tracking server.

Files of runs and models of experiments are in `logged_models`, the registry is in `versions`, and
`model_folders` reads and writes models.

All calls use `MlflowClient` with explicit run ids, since the active run of the fluent API belongs
to a single thread. A run is searched by its key before it is created, so tasks can be retried.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.processes import describe_this_process
from biasgate.tasks.mlflow_server.local_store import (
    ARTIFACTS,
    DATABASE,
    LOCAL,
    find_database_file,
    follow_move,
    make_database,
    require_plain_file,
)
from biasgate.tasks.mlflow_server.logged_models import LoggedModels, ModelOnSet
from biasgate.tasks.mlflow_server.server import (
    REGISTRY,
    TRACKING,
    read_address,
    require_supported,
)
from biasgate.tasks.mlflow_server.versions import MISSING_CODES, Registry

KEY, OWNER = "biasgate.key", "biasgate.owner"
_REQUEST = "biasgate.request"  # id of the call that creates a run
WORK = "work"  # a store's folder for temporary files
PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"  # Markdown on the page of a run
_METRICS_PER_BATCH, _PARAMS_PER_BATCH = 1000, 100
_MAX_PARAM_LENGTH = 6000


@dataclass(frozen=True)
class Experiment:
    """Id and tags of an experiment."""

    experiment_id: str
    tags: Mapping[str, str]


@dataclass(frozen=True)
class UnfinishedRun:
    """A run that has not ended."""

    run_id: str
    started: float
    """Time of creation, in seconds since 1970."""
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Gateway(LoggedModels):
    """A tracking server and registry."""

    @classmethod
    def from_uri(cls, uri: str, work: Path | None = None) -> Gateway:
        """Return the gateway to a server or database.

        User and password of an HTTP address are moved to MLflow's environment variables, since
        errors and logs show the address.
        """
        if (file := find_database_file(uri)) is not None:
            require_plain_file(file.absolute())
        plain, registry = _move_password(uri, TRACKING), read_address(REGISTRY)
        registry = _move_password(registry, REGISTRY) if registry else None
        return cls(plain, work=work, registry=None if registry == plain else registry)

    @classmethod
    def from_store(cls, store: Path) -> Gateway:
        """Return the gateway to `MLFLOW_TRACKING_URI` if it is set, else to the store.

        A store has an SQLite database and a folder of artifacts. The database is created if it is
        missing, and its paths are updated if the store was moved or copied. `MLFLOW_REGISTRY_URI`
        may name another registry.
        """
        uri = read_address(TRACKING)
        work = store.resolve() / WORK
        if uri:
            return cls.from_uri(uri, work)
        registry = read_address(REGISTRY)
        store = store.resolve()
        store.mkdir(parents=True, exist_ok=True)
        require_plain_file(store / DATABASE)
        make_database(store)
        follow_move(store)
        return cls(
            f"{LOCAL}{store / DATABASE}",
            (store / ARTIFACTS).as_uri(),
            work=work,
            registry=_move_password(registry, REGISTRY) if registry else None,
        )

    def require_answer(self) -> None:
        """Send a small request to each server, to report an unavailable server before any work."""
        self.client.search_experiments(max_results=1)
        if self.registry is not None:
            Registry(self.registry).client.search_registered_models(max_results=1)

    def ensure_experiment(self, name: str) -> str:
        """Return the id of the experiment with a name; create it if missing.

        Raises
        ------
        InputError
            If the experiment was deleted.
        """
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        experiment = self.client.get_experiment_by_name(name)
        if experiment is not None and experiment.lifecycle_stage == "deleted":
            msg = (
                f"experiment {name!r} must not be deleted; it is. "
                f"Restore it (mlflow experiments restore -x {experiment.experiment_id}), or give "
                "the evaluation another `name`."
            )
            raise InputError(msg)
        if experiment is not None:
            return str(experiment.experiment_id)
        location = f"{self.artifacts}/{name}" if self.artifacts else None
        try:
            return str(self.client.create_experiment(name, artifact_location=location))
        except MlflowException:  # another process was faster
            experiment = self.client.get_experiment_by_name(name)
            if experiment is None:
                raise
            return str(experiment.experiment_id)

    def list_experiments(self) -> dict[str, Experiment]:
        """Return the experiments that have runs, by name, newest first."""
        return {
            experiment.name: Experiment(str(experiment.experiment_id), dict(experiment.tags))
            for experiment in self.client.search_experiments()
            if self.client.search_runs([experiment.experiment_id], max_results=1)
        }

    def get_experiment_id(self, run_id: str) -> str:
        """Return the id of the experiment of a run."""
        return str(self.client.get_run(run_id).info.experiment_id)

    def get_experiment_tags(self, experiment_id: str) -> dict[str, str]:
        """Return the tags of an experiment."""
        return dict(self.client.get_experiment(experiment_id).tags)

    def tag_experiment(self, experiment_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on an experiment."""
        for key, value in tags.items():
            self.client.set_experiment_tag(experiment_id, key, value)

    def list_child_metrics(self, parent: str) -> set[str]:
        """Return the keys of all metrics of the children of a run."""
        children = self.client.search_runs(
            [self.get_experiment_id(parent)], f"tags.`{PARENT}` = '{parent}'"
        )
        return {key for child in children for key in child.data.metrics}

    def ensure_run(
        self,
        experiment_id: str,
        key: str,
        name: str,
        *,
        parent: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Return the id of the run with a key; if missing, create it RUNNING, with tags.

        This process becomes the owner of the run.
        """
        existing = self.find_run(experiment_id, key)
        if existing is not None:
            self.client.set_tag(existing, OWNER, describe_this_process())
            return existing
        request = uuid.uuid4().hex
        all_tags = {**(tags or {}), KEY: key, OWNER: describe_this_process(), _REQUEST: request}
        all_tags |= {PARENT: parent} if parent else {}
        run_id = self.client.create_run(experiment_id, tags=all_tags, run_name=name).info.run_id
        # After a lost response MLflow's client sends the request again, which creates a second run.
        for run in self.client.search_runs([experiment_id], f"tags.`{_REQUEST}` = '{request}'"):
            if run.info.run_id != run_id:
                self.client.delete_run(run.info.run_id)
        return str(run_id)

    def get_run_tags(self, run_id: str) -> dict[str, str] | None:
        """Return the tags of a run; None if it does not exist."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            return dict(self.client.get_run(run_id).data.tags)
        except MlflowException as error:
            if error.error_code not in MISSING_CODES:
                raise
            return None

    def find_run(self, experiment_id: str, key: str) -> str | None:
        """Return the id of the run with a key, or None."""
        matches = self.client.search_runs([experiment_id], f"tags.`{KEY}` = '{key}'", max_results=1)
        return str(matches[0].info.run_id) if matches else None

    def list_unfinished(self, experiment_id: str) -> list[UnfinishedRun]:
        """Return the runs with status RUNNING, newest first."""
        runs = self.client.search_runs([experiment_id], "attributes.status = 'RUNNING'")
        return [
            UnfinishedRun(run.info.run_id, run.info.start_time / 1000, dict(run.data.tags))
            for run in runs
        ]

    def get_parent_id(self, run_id: str) -> str | None:
        """Return the id of a run's parent; None if the run or its parent does not exist."""
        return (self.get_run_tags(run_id) or {}).get(PARENT)

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, object] | None = None,
        metrics: Mapping[str, float] | None = None,
        tags: Mapping[str, str] | None = None,
        step: int = 0,
        judged: ModelOnSet | None = None,
    ) -> None:
        """Log parameters, metrics (at a step) and tags, in batches that servers accept.

        With `judged`, the metrics are also linked to the model and the set.
        """
        from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415

        now = int(time.time() * 1000)
        model_fields = {} if judged is None else {**vars(judged), "run_id": run_id}
        values = [
            Metric(key, value, now, step, **model_fields) for key, value in (metrics or {}).items()
        ]
        for start in range(0, len(values), _METRICS_PER_BATCH):
            self.client.log_batch(run_id, metrics=values[start : start + _METRICS_PER_BATCH])
        entries = [
            Param(key, str(value)[:_MAX_PARAM_LENGTH]) for key, value in (params or {}).items()
        ]
        for start in range(0, len(entries), _PARAMS_PER_BATCH):
            self.client.log_batch(run_id, params=entries[start : start + _PARAMS_PER_BATCH])
        if tags:
            self.client.log_batch(run_id, tags=[RunTag(k, str(v)) for k, v in tags.items()])

    def log_inputs(self, run_id: str, judged: ModelOnSet, *, source: str, profile: str) -> None:
        """Log the evaluation set and the model as the run's inputs."""
        from mlflow.entities import (  # noqa: PLC0415
            Dataset,
            DatasetInput,
            InputTag,
            LoggedModelInput,
        )

        dataset = Dataset(
            name=judged.dataset_name,
            digest=judged.dataset_digest,
            source_type="local",
            source=source,
            profile=profile,
        )
        tag = InputTag("mlflow.data.context", "evaluation")
        self.client.log_inputs(
            run_id,
            datasets=[DatasetInput(dataset, [tag])],
            models=[LoggedModelInput(judged.model_id)],
        )

    def end_run(self, run_id: str, status: str = "FINISHED") -> None:
        """End a run with status FINISHED, FAILED or KILLED."""
        self.client.set_terminated(run_id, status)

    def end_own_runs(self, status: str) -> None:
        """End the runs of this process as FAILED or KILLED, before the process ends."""
        experiments = [experiment.experiment_id for experiment in self.client.search_experiments()]
        running = f"attributes.status = 'RUNNING' and tags.`{OWNER}` = '{describe_this_process()}'"
        for run in self.client.search_runs(experiments, running):
            self.end_run(run.info.run_id, status)

    @contextmanager
    def fail_on_error(self, run_id: str) -> Iterator[None]:
        """End the run as FAILED if the body raises an error, so that it does not stay RUNNING."""
        try:
            yield
        except BaseException:
            self.end_run(run_id, "FAILED")
            raise


def _move_password(uri: str, variable: str) -> str:
    """Move user and password of an address to MLflow's variables; return the rest."""
    require_supported(uri, variable)
    parts = urlsplit(uri)
    user, _, host = parts.netloc.rpartition("@")
    if not user or parts.scheme not in {"http", "https"}:
        return uri
    plain = urlunsplit(parts._replace(netloc=host))
    name, _, password = user.partition(":")
    os.environ["MLFLOW_TRACKING_USERNAME"] = unquote(name)
    os.environ["MLFLOW_TRACKING_PASSWORD"] = unquote(password)
    if os.environ.get(variable) == uri:
        os.environ[variable] = plain
    return plain


def make_source_tags(file: Path) -> dict[str, str]:
    """Return the tags of a run with the name of a file and the commit of its repository.

    MLflow shows them as *Source* and *Version*. The address of the repository is left out, since it
    may contain a password.
    """
    from mlflow.utils.git_utils import get_git_commit  # noqa: PLC0415

    tags = {"mlflow.source.name": file.name, "mlflow.source.type": "LOCAL"}
    commit = get_git_commit(str(file.absolute().parent))
    return tags if commit is None else tags | {"mlflow.source.git.commit": str(commit)}
