"""Prefect's handling of typed values between steps: pydantic models, frozen dataclasses.

The steps of this project pass such objects without conversion. Prefect must not copy or change
them, neither in threads nor through Dask.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prefect import flow, unmapped
from prefect.context import TaskRunContext
from prefect.exceptions import PrefectException
from prefect.utilities import engine
from prefect_dask import DaskTaskRunner

from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.common.settings import Settings

pytestmark = pytest.mark.usefixtures("prefect_server")


class Rule(Settings):
    metric: str
    floor: float = 0.8


class Rules(Settings):
    name: str
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Measured:
    identity: str
    rules: Rules
    folder: Path
    counts: dict[str, int] = field(default_factory=dict)


RULES = Rules(name="mine", rules=(Rule(metric="auc"), Rule(metric="bpsn_auc", floor=0.7)))
MEASURED = Measured("gay", RULES, Path("work"), {"n": 3})


@task(name="hand back")
def hand_back(value: object) -> object:
    return value


@task(name="name both", task_run_name="name {identity}")
def name_both(identity: str, rules: Rules) -> str:
    assert isinstance(rules, Rules)
    return f"{identity} {rules.name}"


@pytest.mark.parametrize("value", [RULES, MEASURED], ids=["model", "dataclass"])
@pytest.mark.parametrize(
    "wrap", [lambda value: value, lambda value: [value], lambda value: {"key": value}]
)
def test_a_task_gets_and_returns_the_very_object_also_from_within_a_list_or_dict(value, wrap):
    def unwrap(value: object) -> object:
        return next(iter(value.values() if isinstance(value, dict) else value))

    @flow
    def hand_over() -> None:
        # Looked at inside the flow: what a flow itself returns may be copied.
        passed = hand_back(wrap(value))
        assert (passed if wrap(0) == 0 else unwrap(passed)) is value

    hand_over()


@pytest.mark.parametrize("wrap", [dict, lambda value: [value], lambda value: [[value]]])
def test_prefect_does_not_search_the_values_that_a_step_gets(wrap, monkeypatch):
    searched = []
    search = engine.get_state_for_result
    monkeypatch.setattr(
        engine, "get_state_for_result", lambda value: searched.append(value) or search(value)
    )

    @flow
    def hand_over() -> object:
        return hand_back(wrap({"of a report": "with thousands of numbers"}))

    hand_over()
    assert searched
    assert "with thousands of numbers" not in searched


def test_prefect_sees_from_which_step_a_value_came():
    @task(name="make")
    def make() -> dict[str, int]:
        return {"n": 3}

    @task(name="take")
    def take(made: list[dict[str, int]]) -> list[str]:
        context = TaskRunContext.get()
        assert context is not None
        assert made == [{"n": 3}]
        return [str(task_input.id) for task_input in context.task_run.task_inputs["made"]]

    @flow
    def chain() -> list[str]:
        return take([make()])

    assert len(chain()) == 1


def test_a_result_of_one_task_reaches_the_next_unchanged():
    @flow
    def chain() -> None:
        first = hand_back.submit(MEASURED)
        second = hand_back.submit(first)
        assert second.result() is MEASURED

    chain()


def test_a_mapped_task_needs_unmapped_around_a_model():
    @flow
    def over_identities() -> list[str]:
        return name_both.map(["gay", "muslim"], unmapped(RULES)).result()

    @flow
    def without_unmapped() -> list[str]:
        return name_both.map(["gay", "muslim"], RULES).result()

    assert over_identities() == ["gay mine", "muslim mine"]
    with pytest.raises((PrefectException, AssertionError)):  # the model is taken for a list
        without_unmapped()


@pytest.mark.slow
def test_a_worker_of_dask_gets_an_equal_object_of_the_same_class():
    @flow(
        task_runner=DaskTaskRunner(
            cluster_kwargs={"n_workers": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
        )
    )
    def on_a_cluster() -> None:
        back = hand_back.submit(MEASURED).result()
        assert back == MEASURED
        assert type(back.rules) is Rules
        assert type(back.rules.rules[1]) is Rule

    on_a_cluster()


def test_the_name_of_a_task_run_may_use_only_parameters_that_the_task_has():
    with pytest.raises(
        TypeError, match=r"must use parameters of hand_over; got \['candidate.name'\]"
    ):

        @task(name="hand over", task_run_name="hand over {candidate.name}")
        def hand_over(candidates: list[str]) -> list[str]:
            return candidates


@pytest.mark.parametrize(
    ("kind", "known", "unknown"), [(Rules, "name", "nam"), (Measured, "identity", "identities")]
)
def test_the_name_of_a_task_run_may_use_only_attributes_that_a_parameter_has(kind, known, unknown):
    def hand_over(value):
        return value

    hand_over.__annotations__["value"] = kind
    task(name="hand over", task_run_name=f"hand over {{value.{known}}}")(hand_over)
    with pytest.raises(
        TypeError, match=rf"must use parameters of hand_over; got \['value.{unknown}"
    ):
        task(name="hand over", task_run_name=f"hand over {{value.{unknown}}}")(hand_over)


@pytest.mark.usefixtures("prefect_server")
def test_the_name_of_a_task_run_has_the_value_of_the_attribute():
    @task(name="name it", task_run_name="name {rules.name}")
    def name_it(rules: Rules) -> str:
        context = TaskRunContext.get()
        assert context is not None
        assert rules is RULES
        return context.task_run.name

    @flow
    def names() -> str:
        return name_it(RULES)

    assert names() == "name mine"
