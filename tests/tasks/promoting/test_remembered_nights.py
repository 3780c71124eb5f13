"""Nights in MLflow: steps of a run per model and set, read with their intervals."""

import json

import pytest
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.records.trend import Night
from biasgate.tasks.remembering.memory import FOLDER, Memory


def night(number, *values):
    models = [
        {
            "candidate": f"c{at}",
            "model": f"models:/toxicity/{at}",
            "evaluation_set": "news",
            "run_id": "r",
            "outcome": "pass",
            "digests": dict.fromkeys(("model", "data", "options", "policy", "code"), "0"),
            "joint": {},
            "reasons": {},
            "numbers": {"auc/overall": [value, 0.1, 0.9], "bpsn_auc/a&b \u202e": [None] * 3},
        }
        for at, value in enumerate(values)
    ]
    known = {"schema_version": 1, "evaluation": "e", "number": number, "at": "2026-11-22T02:00:00"}
    known |= {
        "run_id": f"run-{number}",
        "joint_confidence": 0.95,
        "models": models,
        "news": [f"night \x1b{number}"],
    }
    return Night.from_dict(known)


@pytest.fixture
def memory(gateway):
    found = Memory(gateway, "e")
    for number in range(1, 5):
        found.add(night(number, 0.5 + number / 10, 0.5))
    return found


def test_the_nights_of_a_model_are_steps_of_one_run(memory):
    client = memory.gateway.client
    experiment = client.get_experiment_by_name("e").experiment_id
    runs = {run.info.run_name: run for run in client.search_runs([experiment])}
    assert runs.keys() == {"nights of e", *(f"nights of toxicity/{at} on news" for at in (0, 1))}
    history = client.get_metric_history(
        runs["nights of toxicity/0 on news"].info.run_id, "auc/overall"
    )
    assert {item.step: item.value for item in history} == pytest.approx(
        {1: 0.6, 2: 0.7, 3: 0.8, 4: 0.9}
    )
    assert {run.info.status for run in runs.values()} == {"FINISHED"}


def test_the_last_nights_are_read_oldest_first(memory):
    assert memory.read_nights(2) == [night(3, 0.8, 0.5), night(4, 0.9, 0.5)]
    assert [one.number for one in memory.read_nights(99)] == [1, 2, 3, 4]


def test_a_night_that_is_logged_again_replaces_itself(memory):
    memory.add(night(4, 0.1))
    assert memory.read_nights(1) == [night(4, 0.1)]


def test_an_evaluation_without_nights_has_none(gateway):
    assert Memory(gateway, "other").read_nights(3) == []


def test_a_forged_night_is_refused(memory):
    run_id = memory._find_run()
    with memory.gateway.open_run_files(run_id) as folder:
        wrong = night(4, 0.9).to_dict() | {"models": "none"}
        (folder / FOLDER / "000004.json").write_text(json.dumps(wrong))
    with pytest.raises(InputError, match=r"000004\.json"):
        memory.read_nights(1)


def trend(store, *arguments):
    return CliRunner().invoke(app, ["trend", *arguments, "--store", str(store)])


@pytest.mark.usefixtures("memory")
def test_trend_prints_news_and_numbers(store):
    result = trend(store, "e", "--nights", "3", "--metric", "auc")
    assert result.exit_code == 0, result.stderr
    assert "night 4, 2026-11-22\n  night \\x1b4" in result.stdout
    assert "0.700 0.800" in result.stdout
    assert "[0.100, 0.900]" in result.stdout
    assert "bpsn_auc" not in result.stdout
    assert "\u202e" not in trend(store, "e").stdout
    assert len(json.loads(trend(store, "e", "--json").stdout)) == 4


@pytest.mark.usefixtures("memory")
def test_trend_refuses_what_it_does_not_know(store):
    wrong = trend(store, "e", "--metric", "auk")
    assert (wrong.exit_code, "`--metric` must be one of auc, bpsn_auc" in wrong.stderr) == (2, True)
    nobody = trend(store, "nobody")
    assert nobody.exit_code == 2
    assert "'nobody' must have been run by `biasgate nightly`" in nobody.stderr
