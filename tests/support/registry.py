"""A store with two frozen sets: in memory, or on MLflow for a test that is marked `mlflow`."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import memory
from support.promoted import (
    LEDGER,
    MODEL,
    artifact,
    frozen_set,
    judge_version,
    judged_version,
    local,
    promote_one,
    registered_version,
    scores_of,
    set_folder,
    signing_key,
    tag_of_entry,
    trust,
)

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.entry import TAG
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.verify import verify_model
from biasgate.tasks.reporting.version_tags import build_tags


class Template:
    """A store that is made once in memory and, where a test asks for it, once in MLflow."""

    def __init__(self, make, tmp_path_factory):
        self.make, self.factory, self.made = make, tmp_path_factory, {}

    def copied(self, request, target):
        """Return a copy of it for one test."""
        real = request.node.get_closest_marker("mlflow") is not None
        if real not in self.made:
            folder = self.factory.mktemp("template")
            with pytest.MonkeyPatch.context() as patch:
                patch.delenv("MLFLOW_TRACKING_URI", raising=False)
                gateway = (local if real else memory.in_memory)(folder / "store")
                frozen_set(folder / "store")
                self.make(Registry(gateway, folder / "store", folder, patch))
            self.made[real] = folder / "store"
        copy = shutil.copytree if real else memory.copied
        copy(self.made[real], target)
        return target


def freeze_other(registry):
    frozen_set(registry.store, "other")
    assert registry.find_alias() is None


@pytest.fixture(scope="session")
def empty(tmp_path_factory):
    """A store with two sets frozen."""
    return Template(freeze_other, tmp_path_factory)


@pytest.fixture
def registries(monkeypatch):
    """Open a store in memory as such, whoever names its folder."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(Gateway, "from_store", staticmethod(memory.gateway_of))


@pytest.fixture
def store(request, tmp_path, empty, registries):
    del registries
    yield empty.copied(request, tmp_path / "store")
    memory.forget(tmp_path / "store")


@pytest.fixture
def gateway(store):
    return local(store)


@pytest.fixture
def key(monkeypatch, tmp_path):
    """This machine evaluates and signs, and trusts its key."""
    made = signing_key(monkeypatch, tmp_path / "secret")
    trust(monkeypatch, tmp_path / "trusted", evaluations=made)
    return made


@pytest.fixture
def attacker(monkeypatch, key, tmp_path):
    """Forge something without the private key; afterwards this machine evaluates again."""
    del key

    def forge(call, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.delenv("BIASGATE_PRIVATE_KEY")
            trust(patch, tmp_path / "nobody")
            return call(*arguments, **options)

    return forge


def run_together(call, *arguments):
    """Call a function in two threads; return the results, of which some are errors of input."""

    def catch(argument):
        try:
            return call(argument)
        except InputError as error:
            return error

    with ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(catch, arguments))


@pytest.fixture
def registry(gateway, store, tmp_path, monkeypatch):
    """A registry to judge, promote, tamper and verify in."""
    return Registry(gateway, store, tmp_path, monkeypatch)


@dataclass(frozen=True)
class Registry:
    """A store with its registry, as a test and an attacker see it.

    A judged version is a tuple of version, verdict and scores.
    """

    gateway: Gateway
    store: Path
    folder: Path
    """Folder for files of the test."""
    patch: pytest.MonkeyPatch
    champions: list = field(default_factory=list)

    @property
    def ledger(self):
        return Ledger(self.gateway, MODEL)

    def find_alias(self, name="champion", model=MODEL):
        """Return the number of the version under an alias; None if there is none."""
        version = self.gateway.get_alias(model, name)
        return version and version.version

    def get_version(self, number=None):
        """Return a version by number; default: the champion."""
        return self.gateway.resolve(f"models:/{MODEL}/{number or self.find_alias()}")

    def find_file(self, name, number=None):
        """Return the path of a file in a version's run."""
        return artifact(self.gateway, self.get_version(number), name)

    def find_files(self, number):
        """Return the folder of a version's own files."""
        place = self.gateway.find_files_uri(self.get_version(number))
        return Path(place.removeprefix("file://"))

    @property
    def rows(self):
        """The rows of the frozen set."""
        return set_folder(self.store) / "rows.parquet"

    # ------------------------------------------------------------------ versions

    def judge_next(self, **options):
        """Judge a new version; default: against the newest promoted version."""
        name = f"v{len(self.gateway.list_versions(MODEL))}"
        champion = self.champions[-1] if self.champions else None
        options = {"champion": champion} | options
        return judged_version(self.gateway, self.store, self.folder / name, **options)

    def promote(self, judged):
        """Promote a judged version, if its verdict and `promote: newer` allow it."""
        return promote_one([judged[1]], judged[0], self.gateway)

    def promote_next(self, **options):
        """Judge and promote a new version."""
        made = self.judge_next(**{"seed": len(self.champions)} | options)
        assert self.promote(made).promoted
        self.champions.append(made)
        return made

    def start_run(self, name):
        """Start a run for a further verdict on a version."""
        return self.gateway.ensure_run(self.gateway.ensure_experiment("judged"), name, name)

    def judge_sets(self, **options_by_set):
        """Judge a new version on several required sets; return it with its verdicts.

        The options of each set are those of `judge_version`, and `noise`.
        """
        version, verdicts = registered_version(self.gateway, self.folder, "two"), []
        for name, options in options_by_set.items():
            known = {"required_sets": tuple(options_by_set), "run_id": self.start_run(name)}
            known |= {"on": name} | options
            scores = scores_of(self.store, seed=0, noise=known.pop("noise", 1.6))
            place = self.gateway, self.store, self.folder / name
            verdicts.append(judge_version(*place, version, scores, **known))
        self.gateway.tag_version(version, build_tags(verdicts))
        return self.gateway.resolve(version.uri), verdicts

    def interrupt(self, name, call, *modules):
        """Call a function once, before the next call of another one, which modules import."""
        real, calls = getattr(modules[0], name), iter([call])

        def run(*arguments):
            next(calls, lambda: None)()
            return real(*arguments)

        for module in modules:
            self.patch.setattr(module, name, run)

    # ------------------------------------------------------------------ verification

    def find_failures(self, version=None, model=MODEL):
        """Return the failed findings of `verify` on a version; default: the champion."""
        findings = verify_model(model, version, self.gateway, self.store)
        return [finding for finding in findings if not finding.holds]

    @property
    def failed(self):
        """Names of the failed checks of the champion."""
        return {finding.what for finding in self.find_failures()}

    def describe_failures(self, version=None, model=MODEL):
        """Return the sentences of the failed findings."""
        return " ".join(finding.sentence for finding in self.find_failures(version, model))

    # ------------------------------------------------------------------ the ledger

    def read_entry(self, number):
        return self.ledger.read_entries()[number - 1]

    def edit_entry(self, entry, *, state=None, **changes):
        """Change the content of an entry, as any user with write access can."""
        entry = self.read_entry(entry) if isinstance(entry, int) else entry
        payload = entry.content.to_dict() | changes | {"state": state or entry.state}
        self.gateway.tag_version(entry.record, tag_of_entry(payload))

    def remove_entry(self, number):
        self.gateway.client.delete_model_version(LEDGER, str(number))

    def read_tag(self, number):
        """Return the tag of an entry."""
        return self.gateway.client.get_model_version(LEDGER, str(number)).tags[TAG]

    def put_tag(self, number, tag):
        self.gateway.client.set_model_version_tag(LEDGER, str(number), TAG, tag)
