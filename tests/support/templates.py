"""Databases that are made once for all processes of a test run, and copied from then on."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

NOWHERE = Path("/artifacts-of-the-template")


@pytest.fixture(scope="session", autouse=True)
def _mlflow_tables(tmp_path_factory):
    """Let MLflow make its tables once; every new store in these processes gets a copy."""
    try:
        from biasgate.tasks.mlflow_server import local_store  # noqa: PLC0415 - needs the extra
    except ImportError:
        yield
        return
    make = local_store._create_tables

    def copy(database, artifacts):
        template = _once(tmp_path_factory, "mlflow", lambda path: make(path, NOWHERE))
        shutil.copyfile(template, database)
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute(
                "UPDATE experiments SET artifact_location = replace(artifact_location, ?, ?)",
                (NOWHERE.as_uri(), artifacts.as_uri()),
            )

    copy.make = make
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_store, "_create_tables", copy)
        yield


@pytest.fixture(scope="session", name="prefect_home")
def _prefect_home(tmp_path_factory):
    """Function that makes a folder a home of Prefect, with the tables, and returns it.

    A server takes six seconds to make them where there are none.
    """

    def copy(folder):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_once(tmp_path_factory, "prefect", _prefect), folder / "prefect.db")
        return folder

    return copy


def _prefect(path):
    import httpx  # noqa: PLC0415 - where it is, the extra is
    from prefect import settings  # noqa: PLC0415

    from biasgate.deployments import temporary_server  # noqa: PLC0415

    home = path.with_suffix(".home")
    with settings.temporary_settings({settings.PREFECT_HOME: home}):
        server, url = temporary_server.launch_server()
    try:
        httpx.get(f"{url}/health", timeout=300, trust_env=False).raise_for_status()
    finally:
        temporary_server.stop_server(server)
    with (
        closing(sqlite3.connect(home / "prefect.db")) as made,
        closing(sqlite3.connect(path)) as template,
    ):
        made.backup(template)  # with what is in its log only
    shutil.rmtree(home)


def _once(tmp_path_factory, name, make):
    """Return the file that `make` writes for the first process that asks."""
    from biasgate.tasks.common.files import hold_lock, whole_file  # noqa: PLC0415 - needs the extra

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    template = shared / f"{name}-template.db"
    with hold_lock(template):
        if not template.exists():
            with whole_file(template) as temporary:
                make(temporary)
    return template
