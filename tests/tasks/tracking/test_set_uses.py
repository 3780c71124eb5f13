"""Tags of the experiment record the candidates that a set has judged."""

from types import SimpleNamespace

import pytest
from support.made import candidate_of, verdict_of

from bias_metrics.gate.objective import Objective
from biasgate.tasks.records import JudgedSet
from biasgate.tasks.tracking.set_uses import count_set_uses


class Tags:
    """Fake gateway that keeps the tags of an experiment."""

    def __init__(self):
        self.tags = {"other": "x"}
        self.written = []

    def get_experiment_id(self, run_id):
        return f"experiment of {run_id}"

    def get_experiment_tags(self, experiment_id):
        assert experiment_id == "experiment of run"
        return self.tags

    def tag_experiment(self, _, tags):
        self.written.append(dict(tags))
        self.tags = self.tags | tags


@pytest.fixture
def gateway():
    return Tags()


def verdict(candidate, rows="a", name="comments"):
    return verdict_of(
        evaluation_set=JudgedSet(name=name, digest=rows * 64, required=True),
        candidate=candidate_of(digest=candidate * 64),
        objective=Objective(metric="auc", confidence=0.95, value=0.9, low=-0.01, high=0.01),
        decided_on="2026-11-22",
    )


def count_uses(gateway, *verdicts):
    run = SimpleNamespace(run_id="run", workplace=SimpleNamespace(gateway=gateway))
    return [(use.name, use.n_candidates) for use in count_set_uses.fn(verdicts, run)]


def test_each_candidate_counts_once_on_each_set(gateway):
    assert count_uses(gateway, verdict("1"), verdict("2")) == [("comments", 2)]
    assert count_uses(gateway, verdict("2"), verdict("3")) == [("comments", 3)]
    assert gateway.written[1] == {"biasgate.judged.aaaaaaaaaaaaaaaa.3333333333333333": "2026-11-22"}


def test_new_rows_are_another_set(gateway):
    count_uses(gateway, verdict("1"), verdict("2"))
    assert count_uses(gateway, verdict("1", rows="b")) == [("comments", 1)]


def test_several_sets_are_counted_apart(gateway):
    sets = verdict("1"), verdict("1", rows="b", name="other"), verdict("2")
    assert count_uses(gateway, *sets) == [("comments", 2), ("other", 1)]
