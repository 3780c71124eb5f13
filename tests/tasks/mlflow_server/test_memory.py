"""The registry in memory returns the same results as MLflow's registry."""

import pytest
from mlflow.exceptions import MlflowException
from support.memory import copied, forget, in_memory
from support.promoted import local

from biasgate.tasks.common.errors import InputError

ODD = "it's a \x1b tag \u202e"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A gateway in memory and a gateway to MLflow's database, each with a folder of files."""
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        for open_store in (in_memory, local):
            folder = tmp_path_factory.mktemp("store")
            (folder / "model" / "inner").mkdir(parents=True)
            (folder / "model" / "weights").write_text("a")
            (folder / "model" / "inner" / "words").write_text("b")
            made.append((open_store(folder / "store"), folder))
    yield made
    forget(made[0][1] / "store")


def answer(call, gateway, folder):
    """Return the result or error of a call, without values that differ between runs."""
    try:
        found = call(gateway, folder)
    except (InputError, MlflowException) as error:
        code = getattr(error, "error_code", "")
        found = type(error).__name__, code, str(error)
    return neutral(found, gateway, folder)


def neutral(found, gateway, folder):
    text = repr(found).replace(str(folder), "FOLDER")
    runs = {
        run.info.run_id: f"RUN {run.data.tags['biasgate.key']}"
        for experiment in gateway.client.search_experiments()
        for run in gateway.client.search_runs([experiment.experiment_id])
    }
    for run_id, name in runs.items():
        text = text.replace(run_id, name)
    return text


def seen(version):
    """Return the fields of a version to compare."""
    if not version:
        return version
    source = version.source if version.is_copy else ""
    return version.name, version.version, version.run_id, dict(version.tags), source


def run(gateway, key="one", **options):
    return gateway.ensure_run(gateway.ensure_experiment("any"), key, "name", **options)


def registered(gateway, folder, name="m"):
    run_id = run(gateway)
    gateway.log_folder(run_id, folder / "model", "model")
    return gateway.register(name, run_id, "model", {"made": "1"})


def read(gateway, run_id):
    with gateway.open_run_files(run_id) as folder:
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# In this order, each on what the ones before left: what is asked, under the words that say it.
CALLS = {
    "an unknown run": lambda g, _: g.get_run_tags("f" * 32),
    "files of an unknown run": lambda g, _: read(g, "f" * 32),
    "a run id that is none": lambda g, _: g.get_run_tags("no such/run"),
    "an alias of an unknown model": lambda g, _: g.get_alias("m", "champion"),
    "no models": lambda g, _: g.list_models(),
    "no versions": lambda g, _: g.list_versions("m"),
    "a version of an unknown model": lambda g, _: g.resolve("models:/m/1"),
    "an unknown alias of an unknown model": lambda g, _: g.resolve("models:/m@champion"),
    "a version that is no number": lambda g, _: g.resolve("models:/m/x"),
    "tags of an unknown model": lambda g, _: g.get_model_tags("m"),
    "an unknown model deleted": lambda g, _: g.client.delete_registered_model("m"),
    "a model": lambda g, _: g.create_model("m"),
    "a model again": lambda g, _: g.create_model("m"),
    "a name that is none": lambda g, _: g.create_model("a/b"),
    "a version": lambda g, folder: seen(registered(g, folder)),
    "a second version": lambda g, folder: seen(registered(g, folder)),
    "all versions": lambda g, _: [seen(version) for version in g.list_versions("m")],
    "its place": lambda g, _: g.find_files_uri(g.resolve("models:/m/1")),
    "its files": lambda g, _: g.read_manifest(g.resolve("models:/m/1")),
    "their sizes": lambda g, _: dict(g.list_file_sizes(g.resolve("models:/m/1"))),
    "the files of its run": lambda g, _: read(g, run(g)),
    "a record of no run": lambda g, _: seen(g.record_version("m", None, {"of": "nobody"})),
    "a record of a run": lambda g, _: seen(g.record_version("m", run(g), {})),
    "the place of a record": lambda g, _: g.find_files_uri(g.resolve("models:/m/3")),
    "an alias set": lambda g, _: g.set_alias("m", "champion", "2"),
    "an alias read": lambda g, _: seen(g.get_alias("m", "champion")),
    "an alias resolved": lambda g, _: seen(g.resolve("models:/m@champion")),
    "an unknown alias": lambda g, _: seen(g.get_alias("m", "other")),
    "an unknown alias resolved": lambda g, _: seen(g.resolve("models:/m@other")),
    "an alias moved": lambda g, _: (
        g.set_alias("m", "champion", "1"),
        seen(g.get_alias("m", "champion")),
    ),
    "an alias of no version": lambda g, _: g.set_alias("m", "champion", "9"),
    "an alias that is a number": lambda g, _: g.set_alias("m", "v1", "1"),
    "an alias deleted": lambda g, _: (
        g.delete_alias("m", "champion"),
        g.get_alias("m", "champion"),
    ),
    "an alias deleted again": lambda g, _: g.delete_alias("m", "champion"),
    "tags of a version": lambda g, _: (
        g.tag_version(g.resolve("models:/m/1"), {"a": ODD, "b": 2, "c": ""}),
        seen(g.resolve("models:/m/1")),
    ),
    "a tag too long": lambda g, _: g.tag_version(g.resolve("models:/m/1"), {"k" * 300: "v"}),
    "a version found by its tag": lambda g, _: seen(g.find_version("m", "b", "2")),
    "no version with that tag": lambda g, _: seen(g.find_version("m", "b", "3")),
    "the first of several with a tag": lambda g, _: seen(g.find_version("m", "made", "1")),
    "a tag deleted": lambda g, _: (
        g.client.delete_model_version_tag("m", "1", "b"),
        seen(g.resolve("models:/m/1")),
    ),
    "tags of a model": lambda g, _: (g.tag_model("m", {"p": "q"}), g.get_model_tags("m")),
    "a copy": lambda g, _: g.client.copy_model_version("models:/m/1", "copy.m").name,
    "a copy of a copy": lambda g, _: g.client.copy_model_version("models:/copy.m/1", "c").name,
    "the copies": lambda g, _: [seen(*g.list_versions(name)) for name in ("copy.m", "c")],
    "the place of a copy": lambda g, _: g.find_files_uri(g.resolve("models:/c/1")),
    "the copies deleted": lambda g, _: [
        g.client.delete_registered_model(name) for name in ("copy.m", "c")
    ],
    "a version deleted with its alias": lambda g, _: (
        g.set_alias("m", "old", "4"),
        g.client.delete_model_version("m", "4"),
        g.get_alias("m", "old"),
    ),
    "a deleted version": lambda g, _: g.resolve("models:/m/4"),
    "a deleted version deleted": lambda g, _: g.client.delete_model_version("m", "4"),
    "what is left": lambda g, _: [seen(version) for version in g.list_versions("m")],
    "its number is not used again": lambda g, _: seen(g.record_version("m", None, {})),
    "registered once": lambda g, _: seen(g.register_once("m", run(g), "model", {"t": "1"}, "t")),
    "registered once, again": lambda g, _: seen(
        g.register_once("m", run(g), "model", {"t": "1"}, "t")
    ),
    "a description": lambda g, _: (
        g.describe_version(g.resolve("models:/m/1"), "# Card"),
        g.client.get_model_version("m", "1").description,
    ),
    "a model deleted": lambda g, _: (
        g.create_model("n"),
        g.client.delete_registered_model("n"),
        g.list_models(),
    ),
    "the same run": lambda g, _: run(g) == run(g),
    "another run": lambda g, _: run(g, "two", parent=run(g), tags={"x": "y"}) == run(g, "two"),
    "its parent": lambda g, _: g.get_parent_id(run(g, "two")),
    "its tags": lambda g, _: {
        key: value
        for key, value in g.get_run_tags(run(g, "two")).items()
        if key in {"x", "biasgate.key", "mlflow.runName"}
    },
    "no run with that key": lambda g, _: g.find_run(g.ensure_experiment("any"), "three"),
    "the runs that have not ended": lambda g, _: [
        run.run_id for run in g.list_unfinished(g.ensure_experiment("any"))
    ],
    "a run ended": lambda g, _: (
        g.end_run(run(g)),
        [run.run_id for run in g.list_unfinished(g.ensure_experiment("any"))],
    ),
    "values logged": lambda g, _: (
        g.log(run(g), params={"p": 1}, metrics={"m": 0.5}, tags={"t": 1}),
        g.client.get_run(run(g)).data.metrics,
        g.client.get_run(run(g)).data.params,
        [(point.value, point.step) for point in g.client.get_metric_history(run(g), "m")],
        g.get_run_tags(run(g))["t"],
    ),
    "the experiment": lambda g, _: g.get_experiment_id(run(g)) == g.ensure_experiment("any"),
    "tags of the experiment": lambda g, _: (
        g.tag_experiment(g.ensure_experiment("any"), {"e": "f"}),
        g.get_experiment_tags(g.ensure_experiment("any"))["e"],
    ),
    "keys of metrics below a run": lambda g, _: (
        g.log(run(g, "two"), metrics={"auc": 1.0}),
        g.list_child_metrics(run(g)),
    ),
    "a file logged": lambda g, folder: (
        g.log_file(run(g), folder / "model" / "weights"),
        read(g, run(g)),
    ),
    "JSON that is missing": lambda g, _: g.read_json(run(g), "weights"),
}


def test_every_call_has_the_same_answer(both):
    different = {}
    for words, call in CALLS.items():
        memory, real = (answer(call, *arguments) for arguments in both)
        if memory != real:
            different[words] = memory, real
    assert different == {}


def test_pages_of_versions_are_read_to_the_end(both, monkeypatch):
    monkeypatch.setattr("biasgate.tasks.mlflow_server.versions._VERSIONS_PER_PAGE", 2)
    for gateway, _ in both:
        for _ in range(5):
            gateway.record_version("paged", None, {})
        assert [version.version for version in gateway.list_versions("paged")] == list("12345")


def test_what_it_does_not_know_is_an_error_and_not_an_empty_answer(tmp_path):
    client = in_memory(tmp_path).client
    with pytest.raises(NotImplementedError, match="knows no such filter"):
        client.search_model_versions("run_id = 'x'")
    with pytest.raises(AttributeError):
        client.search_traces([])


def test_a_copy_has_its_own_files_and_versions(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("a")
    gateway = in_memory(tmp_path / "one")
    run_id = gateway.ensure_run(gateway.ensure_experiment("any"), "one", "name")
    gateway.log_folder(run_id, tmp_path / "model", "model")
    version = gateway.register("m", run_id, "model", {})
    other = copied(tmp_path / "one", tmp_path / "two")
    place = other.find_files_uri(version)
    assert place.startswith((tmp_path / "two").as_uri())
    other.tag_version(version, {"a": "b"})
    assert gateway.resolve(version.uri).tags == {}
