"""Retries and time limits of steps, as set in the evaluation file."""

import threading

import pytest
import yaml
from support.evaluations import write_inputs

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.secrets import mask_errors
from biasgate.tasks.common.steps import (
    StepSettings,
    apply_step_settings,
    get_step_settings,
    limit_duration,
)
from biasgate.tasks.reading_evaluation import read_evaluation, read_step_settings


@pytest.fixture
def file(tmp_path):
    """Write an evaluation file with these keys."""
    write_inputs(tmp_path)
    path = tmp_path / "file.yaml"
    before = yaml.safe_load(path.read_text("utf-8"))

    def write(**keys):
        path.write_text(yaml.safe_dump(before | keys), "utf-8")
        return path

    return write


def test_by_default_a_step_is_tried_three_times_without_a_limit(file):
    assert read_step_settings(str(file())) == StepSettings(retries=2, timeout_s=None)


def test_a_file_sets_retries_and_limit_of_every_step(file):
    settings = read_step_settings(str(file(step_retries=4, step_timeout_s=60)))
    assert settings == StepSettings(retries=4, timeout_s=60)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"step_retry": 1}, "step_retry: unknown key. Did you mean 'step_retries'?"),
        ({"step_retries": -1}, "step_retries: .* greater than or equal to 0; got -1"),
        ({"step_retries": 101}, "less than or equal to 100; got 101"),
        ({"step_timeout_s": 0.5}, "greater than or equal to 1; got 0.5"),
        ({"step_timeout_s": 1e9}, "less than or equal to 2592000; got"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_key(file, keys, message):
    path = file(**keys)
    with pytest.raises(InputError, match=message):
        read_evaluation(path)
    assert read_step_settings(str(path)) == StepSettings()  # until the file's own step refuses it


def test_an_evaluation_with_another_limit_is_the_same_evaluation(file):
    before = read_evaluation(file()).content()
    assert read_evaluation(file(step_timeout_s=60, step_retries=0)).content() == before


def test_a_setting_ends_with_its_run():
    with apply_step_settings(StepSettings(retries=7), print):
        assert get_step_settings() == StepSettings(retries=7)
    assert get_step_settings() is None


def test_a_step_that_outlasts_the_limit_ends_the_run_and_a_shorter_one_does_not():
    limits, ended = [], threading.Event()

    def end(limit):
        limits.append(limit)
        ended.set()

    with apply_step_settings(StepSettings(timeout_s=1), end):
        assert limit_duration(int)("5") == 5
        assert not ended.wait(1.5)  # the clock of the first step was stopped
        assert limit_duration(ended.wait)(60)
    assert limits == [1]


def test_a_step_can_be_sent_to_another_machine():
    """Dask workers receive a step by value, including all names in it."""
    cloudpickle = pytest.importorskip("cloudpickle")

    def doubled(number):
        return 2 * number

    sent = cloudpickle.loads(cloudpickle.dumps(limit_duration(mask_errors(doubled))))
    assert sent(21) == 42
