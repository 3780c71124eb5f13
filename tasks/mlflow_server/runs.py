"""Calls to MLflow's tracking server: runs.

Their files are in `run_files`, the models of experiments in `logged_models`, the registry in
`versions`; `model_folders` reads and writes models.

Everything uses `MlflowClient` with explicit run ids: the fluent API's active run belongs to one
thread. A run is searched by its key before it is created, so that tasks can be retried.
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
    database_file,
    follow_move,
    make_database,
    require_plain_file,
)
from biasgate.tasks.mlflow_server.logged_models import Judged, LoggedModels
from biasgate.tasks.mlflow_server.server import (
    REGISTRY,
    TRACKING,
    address_in,
    require_supported,
)
from biasgate.tasks.mlflow_server.versions import Registry

KEY, OWNER = "biasgate.key", "biasgate.owner"
_REQUEST = "biasgate.request"  # one call that creates a run
WORK = "work"  # the folder of a store for what is removed at the end
PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"  # Markdown that the run page shows
_METRICS_A_BATCH, _PARAMS_A_BATCH = 1000, 100
_PARAM_LENGTH = 6000


@dataclass(frozen=True)
class Experiment:
    """An experiment: its id and its tags."""

    experiment_id: str
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Running:
    """A run that has not ended."""

    run_id: str
    started: float
    """When it was created, in seconds since 1970."""
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Gateway(LoggedModels):
    """A tracking server and registry."""

    @classmethod
    def at(cls, uri: str, work: Path | None = None) -> Gateway:
        """Use a server or database, without user and password in its HTTP address.

        MLflow's own variables hold them from then on: errors and logs show the address.
        """
        if (file := database_file(uri)) is not None:
            require_plain_file(file.absolute())
        plain, registry = _without_user(uri, TRACKING), address_in(REGISTRY)
        registry = _without_user(registry, REGISTRY) if registry else None
        return cls(plain, work=work, registry=None if registry == plain else registry)

    @classmethod
    def of_store(cls, store: Path) -> Gateway:
        """Use `MLFLOW_TRACKING_URI` if it is set, else SQLite and a folder in the store.

        A new store gets its database first. If the store was moved or copied, its paths are
        updated first. `MLFLOW_REGISTRY_URI` may name another registry.
        """
        uri = address_in(TRACKING)
        work = store.resolve() / WORK
        if uri:
            return cls.at(uri, work)
        registry = address_in(REGISTRY)
        store = store.resolve()
        store.mkdir(parents=True, exist_ok=True)
        require_plain_file(store / DATABASE)
        make_database(store)
        follow_move(store)
        return cls(
            f"{LOCAL}{store / DATABASE}",
            (store / ARTIFACTS).as_uri(),
            work=work,
            registry=_without_user(registry, REGISTRY) if registry else None,
        )

    def require_answer(self) -> None:
        """Ask each server one small question, so that one that is gone shows before any work."""
        self.client.search_experiments(max_results=1)
        if self.registry is not None:
            Registry(self.registry).client.search_registered_models(max_results=1)

    def experiment(self, name: str) -> str:
        """Return the id of the experiment, creating it if missing."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        found = self.client.get_experiment_by_name(name)
        if found is not None and found.lifecycle_stage == "deleted":
            msg = (
                f"experiment {name!r} must not be deleted; it is. "
                f"Restore it (mlflow experiments restore -x {found.experiment_id}), or give the "
                "evaluation another `name`."
            )
            raise InputError(msg)
        if found is not None:
            return str(found.experiment_id)
        place = f"{self.artifacts}/{name}" if self.artifacts else None
        try:
            return str(self.client.create_experiment(name, artifact_location=place))
        except MlflowException:  # another process was faster
            found = self.client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)

    def experiments(self) -> dict[str, Experiment]:
        """Return the experiments that have runs, by name, newest first."""
        return {
            experiment.name: Experiment(str(experiment.experiment_id), dict(experiment.tags))
            for experiment in self.client.search_experiments()
            if self.client.search_runs([experiment.experiment_id], max_results=1)
        }

    def experiment_of(self, run_id: str) -> str:
        """Return the id of the experiment that a run belongs to."""
        return str(self.client.get_run(run_id).info.experiment_id)

    def experiment_tags(self, experiment_id: str) -> dict[str, str]:
        """Return the tags of an experiment."""
        return dict(self.client.get_experiment(experiment_id).tags)

    def tag_experiment(self, experiment_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on an experiment."""
        for key, value in tags.items():
            self.client.set_experiment_tag(experiment_id, key, value)

    def metric_keys_below(self, parent: str) -> set[str]:
        """Return the keys of the metrics that the runs below a run have."""
        found = self.client.search_runs(
            [self.experiment_of(parent)], f"tags.`{PARENT}` = '{parent}'"
        )
        return {key for one in found for key in one.data.metrics}

    def run(
        self,
        experiment_id: str,
        key: str,
        name: str,
        *,
        parent: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Return the id of the run with this key; if missing, create it RUNNING, with tags.

        This process owns it from then on.
        """
        found = self.find_run(experiment_id, key)
        if found is not None:
            self.client.set_tag(found, OWNER, describe_this_process())
            return found
        request = uuid.uuid4().hex
        known = {**(tags or {}), KEY: key, OWNER: describe_this_process(), _REQUEST: request}
        known |= {PARENT: parent} if parent else {}
        made = self.client.create_run(experiment_id, tags=known, run_name=name).info.run_id
        # MLflow's client asks again if an answer is lost, and the server then makes a second run.
        for run in self.client.search_runs([experiment_id], f"tags.`{_REQUEST}` = '{request}'"):
            if run.info.run_id != made:
                self.client.delete_run(run.info.run_id)
        return str(made)

    def run_tags(self, run_id: str) -> dict[str, str] | None:
        """Return the tags of a run; None if it does not exist."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            return dict(self.client.get_run(run_id).data.tags)
        except MlflowException as error:
            if error.error_code not in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}:
                raise
            return None

    def find_run(self, experiment_id: str, key: str) -> str | None:
        """Return the id of the run with this key, or None."""
        found = self.client.search_runs([experiment_id], f"tags.`{KEY}` = '{key}'", max_results=1)
        return str(found[0].info.run_id) if found else None

    def running(self, experiment_id: str) -> list[Running]:
        """Return the runs that are RUNNING, newest first."""
        found = self.client.search_runs([experiment_id], "attributes.status = 'RUNNING'")
        return [
            Running(one.info.run_id, one.info.start_time / 1000, dict(one.data.tags))
            for one in found
        ]

    def parent_of(self, run_id: str) -> str | None:
        """Return the id of a run's parent; None if it has none, or the run does not exist."""
        return (self.run_tags(run_id) or {}).get(PARENT)

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, object] | None = None,
        metrics: Mapping[str, float] | None = None,
        tags: Mapping[str, str] | None = None,
        step: int = 0,
        judged: Judged | None = None,
    ) -> None:
        """Log parameters, metrics (at a step) and tags, in batches that servers accept.

        With `judged`, they are also the metrics of a model on a set.
        """
        from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415

        now = int(time.time() * 1000)
        of_model = {} if judged is None else {**vars(judged), "run_id": run_id}
        values = [
            Metric(key, value, now, step, **of_model) for key, value in (metrics or {}).items()
        ]
        for start in range(0, len(values), _METRICS_A_BATCH):
            self.client.log_batch(run_id, metrics=values[start : start + _METRICS_A_BATCH])
        known = [Param(key, str(value)[:_PARAM_LENGTH]) for key, value in (params or {}).items()]
        for start in range(0, len(known), _PARAMS_A_BATCH):
            self.client.log_batch(run_id, params=known[start : start + _PARAMS_A_BATCH])
        if tags:
            self.client.log_batch(run_id, tags=[RunTag(k, str(v)) for k, v in tags.items()])

    def log_inputs(self, run_id: str, judged: Judged, *, source: str, profile: str) -> None:
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

    def finish(self, run_id: str, status: str = "FINISHED") -> None:
        """End a run: FINISHED, FAILED or KILLED."""
        self.client.set_terminated(run_id, status)

    def end_own_runs(self, status: str) -> None:
        """End the runs of this process, FAILED or KILLED, when it must end at once."""
        experiments = [experiment.experiment_id for experiment in self.client.search_experiments()]
        running = f"attributes.status = 'RUNNING' and tags.`{OWNER}` = '{describe_this_process()}'"
        for run in self.client.search_runs(experiments, running):
            self.finish(run.info.run_id, status)

    @contextmanager
    def failing(self, run_id: str) -> Iterator[None]:
        """End the run as FAILED if the body fails, so that it is not left RUNNING."""
        try:
            yield
        except BaseException:
            self.finish(run_id, "FAILED")
            raise


def _without_user(uri: str, variable: str) -> str:
    """Return an address without user and password, which MLflow's own variables hold from now."""
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


def source_tags(file: Path) -> dict[str, str]:
    """Return the tags of a run that name a file and the commit of its repository, if there is one.

    MLflow shows them as *Source* and *Version*. The address of the repository is left out: it may
    hold a password.
    """
    from mlflow.utils.git_utils import get_git_commit  # noqa: PLC0415

    tags = {"mlflow.source.name": file.name, "mlflow.source.type": "LOCAL"}
    commit = get_git_commit(str(file.absolute().parent))
    return tags if commit is None else tags | {"mlflow.source.git.commit": str(commit)}
