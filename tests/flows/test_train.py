"""Candidates are trained if they have a training set and no version."""

from types import SimpleNamespace

import pytest

from biasgate.flows import score
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

TRAINING = {"name": "training", "source": "templates"}
WORDS = {"name": "words", "kind": "tfidf", "train_on": TRAINING}
NAMED = {"model": "models:/toxicity/3"}


@pytest.fixture
def steps(monkeypatch):
    """Names of the steps, which are recorded instead of run."""
    done = []

    def step(name):
        def call(candidate, *_):
            done.append((name, candidate.name))
            return candidate

        monkeypatch.setattr(score, name, call)

    for name in ("freeze_evaluation_set", "train_candidate", "pin_candidate", "check_training_set"):
        step(name)
    return done


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            WORDS,
            [
                ("freeze_evaluation_set", "training"),
                ("check_training_set", "words"),
                ("train_candidate", "words"),
            ],
        ),
        (WORDS | NAMED, [("pin_candidate", "words")]),
        ({"name": "words", "kind": "mlflow"} | NAMED, [("pin_candidate", "words")]),
    ],
)
def test_only_a_candidate_without_a_version_is_trained(steps, settings, expected):
    candidate = CANDIDATES.validate_python(settings)
    evaluation = SimpleNamespace(candidates=[candidate], name="e", registered_model="toxicity")
    assert score.prepare_candidates(evaluation, None, []) == [candidate]
    assert steps == expected
