"""How often steps are tried and how long they may take, as the evaluation file says."""

import ast
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from support.evaluations import write_inputs

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.steps import StepSettings, limited, settings_now, stage_of, steps_as
from biasgate.tasks.reading_evaluation import read_evaluation, read_step_settings

TASKS = Path(__file__).parents[3] / "tasks"


@pytest.fixture
def file(tmp_path):
    """Write an evaluation file with these settings of steps."""
    write_inputs(tmp_path)
    path = tmp_path / "file.yaml"

    def write(**steps):
        content = yaml.safe_load(path.read_text("utf-8"))
        path.write_text(yaml.safe_dump(content | {"steps": steps}), "utf-8")
        return path

    return write


def has_step(file):
    functions = [one for one in ast.walk(ast.parse(file.read_text())) if hasattr(one, "name")]
    made = [ast.unparse(one) for each in functions for one in getattr(each, "decorator_list", [])]
    return any(one.startswith("task(") for one in made)


def test_each_room_that_has_steps_belongs_to_a_stage_that_a_file_can_name():
    rooms = {file.relative_to(TASKS).parts[0] for file in TASKS.glob("*/**/*.py") if has_step(file)}
    places = [SimpleNamespace(__module__=f"biasgate.tasks.{room}.steps") for room in rooms]
    assert {"every", *map(stage_of, places)} == set(StepSettings.model_fields)


def test_a_step_belongs_to_the_stage_of_its_room():
    from biasgate.tasks.reading_evaluation import read_evaluation_file  # noqa: PLC0415
    from biasgate.tasks.scoring.scored import score_candidate  # noqa: PLC0415

    assert stage_of(score_candidate.fn) == "scoring"
    assert stage_of(read_evaluation_file.fn) is None
    assert stage_of(has_step) is None


def test_without_settings_a_step_is_tried_three_times_without_a_limit(file):
    for stage in [*StepSettings.model_fields, None]:
        if stage != "every":
            found = StepSettings().of(stage)
            assert (found.retries, found.retry_delay_s, found.time_limit_s) == (2, (1, 5), None)
    assert read_evaluation(file()).steps == StepSettings()


def test_a_stage_takes_from_every_what_it_does_not_say(file):
    steps = read_evaluation(
        file(
            every={"retries": 4, "time_limit_s": 60},
            scoring={"retry_delay_s": 30, "time_limit_s": 7200},
        )
    ).steps
    scoring, data = steps.of("scoring"), steps.of("data")
    assert (scoring.retries, scoring.retry_delay_s, scoring.time_limit_s) == (4, (30,), 7200)
    assert (data.retries, data.retry_delay_s, data.time_limit_s) == (4, (1, 5), 60)
    assert steps.of(None) == data
    assert steps.key_of_limit("scoring") == "steps.scoring.time_limit_s"
    assert steps.key_of_limit("data") == steps.key_of_limit(None) == "steps.every.time_limit_s"


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ({"scorin": {}}, "steps.scorin: unknown key. Did you mean 'scoring'?"),
        ({"data": {"retry": 1}}, "steps.data.retry: unknown key. Did you mean 'retries'?"),
        ({"data": {"retries": -1}}, "steps.data.retries: .* greater than or equal to 0; got -1"),
        ({"data": {"retries": 101}}, "less than or equal to 100; got 101"),
        ({"data": {"retry_delay_s": -1}}, "retry_delay_s.*greater than or equal to 0; got -1"),
        ({"data": {"retry_delay_s": []}}, "at least 1 item"),
        ({"data": {"retry_delay_s": [1] * 51}}, "at most 50 items"),
        ({"data": {"retry_delay_s": "soon"}}, r"must be a list of seconds, as in \[1, 5\]"),
        ({"data": {"time_limit_s": 0.5}}, "greater than or equal to 1; got 0.5"),
        ({"data": {"time_limit_s": 1e9}}, "less than or equal to 2592000; got"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_key(file, steps, told):
    path = file(**steps)
    with pytest.raises(InputError, match=told):
        read_evaluation(path)
    assert read_step_settings(str(path)) == StepSettings()  # until the file's own step refuses it


def test_an_evaluation_with_another_limit_is_the_same_evaluation(file):
    before = read_evaluation(file()).content()
    assert read_evaluation(file(scoring={"time_limit_s": 60})).content() == before


def test_a_setting_ends_with_its_run():
    with steps_as(StepSettings.model_validate({"every": {"retries": 7}}), print):
        assert settings_now("data").retries == 7
    assert settings_now("data").retries == 2


def test_a_step_that_outlasts_its_limit_ends_the_run_and_a_shorter_one_does_not():
    told, ended = [], threading.Event()

    def end(stage, limit):
        told.append((stage, limit))
        ended.set()

    settings = StepSettings.model_validate({"scoring": {"time_limit_s": 1}})
    with steps_as(settings, end):
        assert limited(int, "scoring")("5") == 5
        limited(ended.wait, "data")(1.5)  # no limit, and that of the first step is over
        assert told == []
        assert limited(ended.wait, "scoring")(60)
    assert told == [("scoring", 1)]
