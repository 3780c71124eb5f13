"""Objects on a server are created once despite lost responses and concurrent calls."""

from contextlib import suppress

import pytest
from mlflow.exceptions import MlflowException

from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.scoring.kinds.score_file import ScoreFile, register_scores


@pytest.fixture
def gateway(tmp_path):
    return Gateway.from_store(tmp_path / "store")


def statuses(gateway, experiment):
    return [run.info.status for run in gateway.client.search_runs([experiment])]


def test_a_run_whose_creation_is_asked_for_twice_is_there_once(gateway, monkeypatch):
    create, experiment = gateway.client.create_run, gateway.ensure_experiment("any")

    def lose_the_first_answer(*args, **options):
        create(*args, **options)
        return create(*args, **options)

    monkeypatch.setattr(gateway.client, "create_run", lose_the_first_answer)
    run = gateway.ensure_run(experiment, "key", "name")
    assert gateway.find_run(experiment, "key") == run
    gateway.end_run(run)
    assert statuses(gateway, experiment) == ["FINISHED"]


def test_scores_that_two_processes_register_at_once_are_one_version(tmp_path, gateway, monkeypatch):
    (tmp_path / "scores.csv").write_text("id,prediction\na,0.5\n", "utf-8")
    settings = ScoreFile(name="file", kind="scores", path=tmp_path / "scores.csv", register="m")
    find, register = gateway.find_version, gateway.register
    first = []

    def register_after_another(*args):
        first.append(register(*args))
        return register(*args)

    monkeypatch.setattr(type(gateway), "register", lambda _, *args: register_after_another(*args))
    found = register_scores(settings, "m", gateway)
    assert found.version == first[0].version
    assert [version.version for version in gateway.list_versions("m")] == [found.version]
    assert find("m", *next(iter(found.tags.items()))).version == found.version
    assert register_scores(settings, "m", gateway).version == found.version


def test_scores_whose_registration_and_deletion_lose_answers_are_one_version(
    tmp_path, gateway, monkeypatch
):
    (tmp_path / "scores.csv").write_text("id,prediction\na,0.5\n", "utf-8")
    settings = ScoreFile(name="file", kind="scores", path=tmp_path / "scores.csv", register="m")

    def losing(name):
        call = getattr(gateway.client, name)

        def lose_two_answers(*args, **options):
            """Make a call whose first two responses are lost."""
            with suppress(MlflowException):
                call(*args, **options)
                call(*args, **options)
            return call(*args, **options)

        return lose_two_answers

    for name in ("create_model_version", "delete_model_version"):
        monkeypatch.setattr(gateway.client, name, losing(name))
    found = register_scores(settings, "m", gateway)
    assert [version.version for version in gateway.list_versions("m")] == [found.version] == ["1"]
    assert statuses(gateway, gateway.ensure_experiment("m scores")) == ["FINISHED"]
