"""A local registry read without MLflow says what MLflow says of it."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from support.promoted import MODEL, frozen_set, judged_version, local, promote_one

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.local_reads import REVISION, LocalReads, for_reading

# What the check of a deployment must not wait for.
HEAVY = ["mlflow", "prefect", "pandas.core", "polars", "sklearn", "torch", "matplotlib", "scipy"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a store # with % odd [name]")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        gateway = local(folder / "store")
        frozen_set(folder / "store")
        first = judged_version(gateway, folder / "store", folder / "first")
        assert promote_one([first[1]], first[0], gateway)["promoted"]
        judged_version(gateway, folder / "store", folder / "second", champion=first, seed=1)

        run = first[0].run_id
        gateway.record_version("gone", run, {})
        gateway.tag_model("gone", {"a": "b"})
        gateway.record_version("gone", run, {"a": "ä"})
        gateway.client.delete_model_version("gone", "1")
        logged = gateway.client.create_logged_model(gateway.experiment("judged"), name="logged")
        patch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", gateway.uri)
        gateway.client.create_model_version("gone", f"models:/{logged.model_id}")
    return gateway, folder / "store"


@pytest.fixture
def reads(made):
    found = for_reading(made[0])
    assert isinstance(found, LocalReads)
    return found


@pytest.mark.parametrize("name", [MODEL, f"{MODEL}-promotions", "gone", "none"])
def test_versions_are_the_ones_that_mlflow_lists(made, reads, name):
    assert reads.versions(name) == made[0].versions(name)


def test_models_tags_aliases_and_places_are_the_ones_of_mlflow(made, reads):
    gateway = made[0]
    assert sorted(reads.models()) == sorted(gateway.models())
    assert reads.model_tags("gone") == gateway.model_tags("gone") == {"a": "b"}
    assert reads.alias(MODEL, "champion") == gateway.alias(MODEL, "champion")
    assert reads.alias(MODEL, "none") is None
    assert reads.alias("none", "champion") is None
    for uri in (f"models:/{MODEL}/2", f"models:/{MODEL}@champion", "models:/gone/3"):
        found = reads.resolve(uri)
        assert found == gateway.resolve(uri)
        assert reads.place_of(found) == gateway.place_of(found)
    run = gateway.alias(MODEL, "champion").run_id
    assert reads.artifacts_of(run) == gateway.artifacts_of(run)


def test_what_is_not_there_is_told_as_mlflow_tells_it(reads):
    with pytest.raises(InputError, match="must be in the registry"):
        reads.resolve("models:/gone/1")
    with pytest.raises(InputError, match="run 'none' must exist"):
        reads.artifacts_of("none")


def test_the_known_revision_is_the_one_of_the_installed_mlflow(made):
    with closing(sqlite3.connect(made[1] / "mlflow.db")) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
            (REVISION,)
        ]


def test_a_database_of_another_revision_or_a_server_is_left_to_mlflow(made, tmp_path, monkeypatch):
    gateway = made[0]
    monkeypatch.setattr("biasgate.tasks.mlflow_server.local_reads.REVISION", "another")
    assert for_reading(gateway) is gateway
    (tmp_path / "mlflow.db").write_bytes(b"no database" * 1000)
    broken = LocalReads(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert for_reading(broken) is broken
    server = LocalReads("http://localhost:1")
    assert for_reading(server) is server


def test_values_of_other_types_in_the_database_are_texts(made, tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_bytes((made[1] / "mlflow.db").read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE model_version_tags SET value = x'ff00'")
        connection.execute("UPDATE model_versions SET creation_time = 'never'")
    found = LocalReads(f"sqlite:///{path}").versions(MODEL)
    assert all(isinstance(one, str) for version in found for one in version.tags.values())
    assert {one.created for one in found} == {0}


@pytest.mark.parametrize("command", ["verify", "history"])
def test_the_commands_that_only_read_import_nothing_heavy(made, command):
    code = (
        "import sys\n"
        "from biasgate.__main__ import main\n"
        f"sys.argv = ['biasgate', {command!r}, {MODEL!r}, '--store', {str(made[1])!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    print(end.code)\n"
        f"print(*[one for one in {HEAVY!r} if one in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *_, code, heavy = run.stdout.split("\n")[:-1]
    assert (code, heavy) == ("0", ""), run.stdout
