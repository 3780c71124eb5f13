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
    from biasgate.tasks.common.files import locked, whole_file  # noqa: PLC0415 - the same

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    template, make = shared / "mlflow-template.db", local_store._create

    def copy(database, artifacts):
        with locked(template):
            if not template.exists():
                with whole_file(template) as temporary:
                    make(temporary, NOWHERE)
        shutil.copyfile(template, database)
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute(
                "UPDATE experiments SET artifact_location = replace(artifact_location, ?, ?)",
                (NOWHERE.as_uri(), artifacts.as_uri()),
            )

    copy.make = make
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_store, "_create", copy)
        yield
