"""A registry in memory: the gateway as it is, on a client that keeps what MLflow would keep.

For the logic of ledger, succession, pins and verification. Artifacts are files, as in a local
store. `tests/tasks/mlflow_server/test_memory.py` runs this and MLflow side by side.
"""

import contextlib
import copy
import re
import shutil
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from mlflow.exceptions import MlflowException
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils import validation

from biasgate.tasks.mlflow_server.local_store import ARTIFACTS, DATABASE, LOCAL
from biasgate.tasks.mlflow_server.runs import WORK, Gateway

_CONDITION = re.compile(r"(?:(tags)\.`([^`]+)`|attributes\.(status)|(name)) = '([^']*)'")
_STORES = {}  # the client of each store in memory, by its folder


@dataclass(frozen=True)
class MemoryGateway(Gateway):
    """A gateway to a store whose runs and registry are in this process alone."""

    @property
    def client(self):
        return _STORES[Path(self.uri.removeprefix(LOCAL)).parent]


def in_memory(store):
    """Return the gateway of a store in memory; a new one if there is none."""
    store = store.resolve()
    if store not in _STORES:
        store.mkdir(parents=True, exist_ok=True)
        (store / DATABASE).write_text("This store is in memory.", "utf-8")  # MLflow cannot open it
        _STORES[store] = MemoryClient((store / ARTIFACTS).as_uri())
    artifacts = (store / ARTIFACTS).as_uri()
    return MemoryGateway(f"{LOCAL}{store / DATABASE}", artifacts, work=store / WORK)


def copied(store, target):
    """Copy a store in memory, with its files; paths of artifacts follow."""
    shutil.copytree(store, target, dirs_exist_ok=True)
    store, target = store.resolve(), target.resolve()
    _STORES[target] = _STORES[store].moved(store.as_uri(), target.as_uri())
    return in_memory(target)


def forget(store):
    """Drop what is in memory of a store."""
    _STORES.pop(store.resolve(), None)


def gateway_of(store, otherwise=Gateway.from_store):
    """Return the gateway in memory of a store if it exists, else that of `Gateway.from_store`."""
    return in_memory(store) if store.resolve() in _STORES else otherwise(store)


@dataclass
class _Version:
    """A version of a model."""

    name: str
    version: str
    source: str
    run_id: str | None
    creation_timestamp: int
    tags: dict[str, str]
    description: str | None = None
    deleted: bool = False
    place: str = ""  # of a copy's files


@dataclass
class _Model:
    """A registered model."""

    name: str
    tags: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    versions: list[_Version] = field(default_factory=list)


@dataclass
class MemoryClient:
    """What the gateway calls of `MlflowClient`, with its errors."""

    artifacts: str
    models: dict[str, _Model] = field(default_factory=dict)
    known_experiments: list[SimpleNamespace] = field(default_factory=list)
    known_runs: dict[str, SimpleNamespace] = field(default_factory=dict)

    def moved(self, old, new):
        """Return a copy whose artifacts are below another address."""
        made = copy.deepcopy(self)
        made.artifacts = made.artifacts.replace(old, new, 1)
        for experiment in made.known_experiments:
            place = experiment.artifact_location
            experiment.artifact_location = place and place.replace(old, new, 1)
        for run in made.known_runs.values():
            run.info.artifact_uri = run.info.artifact_uri.replace(old, new, 1)
        for version in (one for model in made.models.values() for one in model.versions):
            version.source = version.source.replace(old, new, 1)
            version.place = version.place.replace(old, new, 1)
        return made

    # ------------------------------------------------------------------ models and versions

    def _model(self, name):
        validation._validate_model_name(name)
        if name not in self.models:
            raise _missing(text=f"Registered Model with name={name} not found")
        return self.models[name]

    def _version(self, name, version):
        validation._validate_model_name(name)
        number = validation._validate_model_version(version)
        model = self.models.get(name, _Model(name))
        for one in model.versions:
            if int(one.version) == number and not one.deleted:
                return one
        raise _missing(text=f"Model Version (name={name}, version={number}) not found")

    def create_registered_model(self, name):
        validation._validate_model_name(name)
        if name in self.models:
            msg = f"Registered Model (name={name}) already exists."
            raise MlflowException(msg, error_code=_code("RESOURCE_ALREADY_EXISTS"))
        self.models[name] = _Model(name)

    def get_registered_model(self, name):
        return copy.deepcopy(self._model(name))

    def delete_registered_model(self, name):
        del self.models[self._model(name).name]

    def search_registered_models(self, page_token=None):
        del page_token
        return PagedList([copy.deepcopy(self.models[name]) for name in sorted(self.models)], None)

    def set_registered_model_tag(self, name, key, value):
        validation._validate_registered_model_tag(key, value)
        self._model(name).tags[key] = str(value)

    def create_model_version(self, name, source, run_id=None, tags=None):
        for key, value in (tags or {}).items():
            validation._validate_model_version_tag(key, value)
        model = self._model(name)
        number = str(len(model.versions) + 1)  # a deleted version keeps its number
        known = {key: str(value) for key, value in (tags or {}).items()}
        model.versions.append(_Version(name, number, source, run_id, _now(), known))
        return copy.deepcopy(model.versions[-1])

    def get_model_version(self, name, version):
        return copy.deepcopy(self._version(name, version))

    def delete_model_version(self, name, version):
        found = self._version(name, version)
        aliases = self._model(name).aliases
        for alias in [key for key, named in aliases.items() if named == found.version]:
            del aliases[alias]
        found.deleted = True

    def search_model_versions(self, filter_string, max_results=10_000, page_token=None):
        first = int(page_token or 0)
        conditions = _conditions(filter_string)
        found = [
            version
            for model in self.models.values()
            for version in model.versions
            if not version.deleted
            and all(
                (version.name if kind == "name" else version.tags.get(key)) == value
                for kind, key, value in conditions
            )
        ]
        page = found[first : first + max_results]
        more = first + max_results < len(found)
        return PagedList(copy.deepcopy(page), str(first + max_results) if more else None)

    def set_model_version_tag(self, name, version, key, value):
        validation._validate_model_version_tag(key, value)
        self._version(name, version).tags[key] = str(value)

    def delete_model_version_tag(self, name, version, key):
        self._version(name, version).tags.pop(key, None)

    def update_model_version(self, name, version, description):
        self._version(name, version).description = description

    def copy_model_version(self, src_model_uri, dst_name):
        """Copy a version with its tags; its files stay where they are."""
        source = self._version(*src_model_uri.removeprefix("models:/").split("/"))
        with contextlib.suppress(MlflowException):
            self.create_registered_model(dst_name)
        made = self.create_model_version(dst_name, src_model_uri, source.run_id, source.tags)
        self._version(dst_name, made.version).place = source.place or source.source
        return made

    def get_model_version_download_uri(self, name, version):
        found = self._version(name, version)
        return found.place or found.source

    def set_registered_model_alias(self, name, alias, version):
        validation._validate_model_alias_name(alias)
        validation._validate_model_alias_name_reserved(alias)
        self._model(name).aliases[alias] = self._version(name, version).version

    def delete_registered_model_alias(self, name, alias):
        self._model(name).aliases.pop(alias, None)

    def get_model_version_by_alias(self, name, alias):
        validation._validate_model_alias_name(alias)
        named = self._model(name).aliases.get(alias)
        if named is None:
            msg = f"Registered model alias {alias} not found."
            raise MlflowException(msg, error_code=_code("INVALID_PARAMETER_VALUE"))
        return copy.deepcopy(self._version(name, named))

    # ------------------------------------------------------------------ experiments and runs

    def create_experiment(self, name, artifact_location=None):
        number = str(len(self.known_experiments) + 1)
        place = artifact_location or f"{self.artifacts}/{number}"
        made = {"experiment_id": number, "name": name, "artifact_location": place, "tags": {}}
        self.known_experiments.append(SimpleNamespace(**made, lifecycle_stage="active"))
        return number

    def search_experiments(self):
        return PagedList(copy.deepcopy(self.known_experiments[::-1]), None)

    def get_experiment(self, experiment_id):
        for one in self.known_experiments:
            if one.experiment_id == experiment_id:
                return copy.deepcopy(one)
        raise _missing(text=f"No Experiment with id={experiment_id} exists")

    def get_experiment_by_name(self, name):
        found = [one for one in self.known_experiments if one.name == name]
        return copy.deepcopy(found[0]) if found else None

    def set_experiment_tag(self, experiment_id, key, value):
        [found] = [one for one in self.known_experiments if one.experiment_id == experiment_id]
        found.tags[key] = str(value)

    def create_run(self, experiment_id, tags=None, run_name=None):
        run_id = uuid.uuid4().hex
        place = f"{self.get_experiment(experiment_id).artifact_location}/{run_id}/artifacts"
        info = SimpleNamespace(
            run_id=run_id,
            experiment_id=experiment_id,
            run_name=run_name,
            status="RUNNING",
            start_time=_now(),
            artifact_uri=place,
            lifecycle_stage="active",
        )
        known = {key: str(value) for key, value in (tags or {}).items()}
        known["mlflow.runName"] = run_name
        data = SimpleNamespace(tags=known, params={}, metrics={}, history=[])
        self.known_runs[run_id] = SimpleNamespace(info=info, data=data)
        return copy.deepcopy(self.known_runs[run_id])

    def _run(self, run_id):
        validation._validate_run_id(run_id)
        if run_id not in self.known_runs:
            raise _missing(text=f"Run with id={run_id} not found")
        return self.known_runs[run_id]

    def get_run(self, run_id):
        return copy.deepcopy(self._run(run_id))

    def delete_run(self, run_id):
        self._run(run_id).info.lifecycle_stage = "deleted"

    def search_runs(self, experiment_ids, filter_string="", max_results=1000):
        conditions = _conditions(filter_string)
        found = [
            run
            for run in reversed(self.known_runs.values())
            if run.info.experiment_id in experiment_ids
            and run.info.lifecycle_stage == "active"
            and all(
                (run.info.status if kind == "status" else run.data.tags.get(key)) == value
                for kind, key, value in conditions
            )
        ]
        return PagedList(copy.deepcopy(found[:max_results]), None)

    def set_tag(self, run_id, key, value):
        self._run(run_id).data.tags[key] = str(value)

    def log_batch(self, run_id, metrics=(), params=(), tags=()):
        data = self._run(run_id).data
        data.metrics |= {one.key: one.value for one in metrics}
        data.history += metrics
        data.params |= {one.key: one.value for one in params}
        data.tags |= {one.key: one.value for one in tags}

    def get_metric_history(self, run_id, key):
        return [one for one in self._run(run_id).data.history if one.key == key]

    def log_metric(self, run_id, key, value):
        self._run(run_id).data.metrics[key] = value

    def set_terminated(self, run_id, status=None):
        self._run(run_id).info.status = status or "FINISHED"

    def log_artifacts(self, run_id, local_dir, artifact_path=None):
        target = self._artifacts(run_id, artifact_path)
        shutil.copytree(local_dir, target, dirs_exist_ok=True)

    def log_artifact(self, run_id, local_path):
        shutil.copy(local_path, self._artifacts(run_id, None))

    def _artifacts(self, run_id, path):
        place = Path(self._run(run_id).info.artifact_uri.removeprefix("file://")) / (path or "")
        place.mkdir(parents=True, exist_ok=True)
        return place


def _conditions(text):
    """Return kind, key and value of each condition of a filter; refuse any other filter."""
    parts = text.split(" and ") if text else []
    found = [_CONDITION.fullmatch(part) for part in parts]
    if None in found:
        msg = f"the registry in memory knows no such filter: {text}"
        raise NotImplementedError(msg)
    return [(one[1] or one[3] or one[4], one[2], one[5]) for one in found]


def _missing(*, text):
    return MlflowException(text, error_code=_code("RESOURCE_DOES_NOT_EXIST"))


def _code(name):
    from mlflow.protos import databricks_pb2  # noqa: PLC0415 - generated names

    return getattr(databricks_pb2, name)


def _now():
    return int(time.time() * 1000)
