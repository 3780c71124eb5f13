"""Registered scikit-learn models are scored by words, and kept scores know how they were made."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from support.comments import ODD, batch

from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.scoring.kinds import mlflow_model, tfidf
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.ngrams import answers, model

TEXTS = ["kind words here", "vile insult there"] * 10
TOXIC = [0, 1] * 10


@pytest.fixture(scope="module")
def pipeline():
    return make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, TOXIC)


@pytest.fixture(scope="module")
def folder(pipeline, tmp_path_factory):
    folder = tmp_path_factory.mktemp("registered") / "model"
    save_classifier(pipeline, folder, TEXTS[:2])
    return folder


def opened(kind, folder):
    settings = {"name": "own", "kind": kind, "model": "models:/own/1"}
    version = SimpleNamespace(uri="models:/own/1")
    gateway = SimpleNamespace(resolve=lambda _: version, downloaded=lambda _: nullcontext(folder))
    return CANDIDATES.validate_python(settings).open(SimpleNamespace(gateway=gateway))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["mlflow", "tfidf"])
def test_a_registered_model_is_scored_by_words(kind, folder, pipeline, monkeypatch):
    asked = []
    plain = model.NgramModel.answer

    def answer(self, method, texts):
        asked.append(method)
        return plain(self, method, texts)

    monkeypatch.setattr(model.NgramModel, "answer", answer)
    with opened(kind, folder) as scorer:
        scores = scorer.score(batch(ODD))
    np.testing.assert_allclose(scores, pipeline.predict_proba(ODD)[:, 1], rtol=0, atol=1e-12)
    assert asked == ["predict_proba"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_registered_model_of_another_shape_is_scored_by_scikit_learn(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(answers, "say", lambda line, **_: said.append(line))
    hashed = make_pipeline(HashingVectorizer(n_features=64), LogisticRegression())
    save_classifier(hashed.fit(TEXTS, TOXIC), tmp_path / "model", TEXTS[:2])
    with opened("mlflow", tmp_path / "model") as scorer:
        scores = scorer.score(batch(ODD))
    np.testing.assert_array_equal(scores, hashed.predict_proba(ODD)[:, 1])
    [line] = said
    assert line.startswith("model models:/own/1 is scored by scikit-learn itself")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("kind", "module"), [("mlflow", mlflow_model), ("tfidf", tfidf)])
def test_scores_of_another_way_to_compute_them_are_not_reused(kind, module, folder, monkeypatch):
    with opened(kind, folder) as scorer:
        digest = scorer.digest
    monkeypatch.setattr(module, "SCORED_BY", "another way")
    with opened(kind, folder) as scorer:
        assert scorer.digest != digest
