"""One model gives the same scores through every entry point."""

import numpy as np
import pandas as pd
import pytest
from served import served
from support.comments import ODD, batch
from support.registered import workplace_of

from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.tfidf import EXAMPLE, Tfidf
from biasgate.tasks.scoring.outcomes import PartlyScored

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]

TEXTS = [f"{word} {n}" for n in range(100) for word in ("kind words", "vile insult", "a house")]
MODEL = "models:/words/1"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    settings = Tfidf(name="words", kind="tfidf", model=MODEL)
    toxic = ["vile" in text for text in TEXTS]
    save_classifier(settings.pipeline().fit(TEXTS, toxic), folder, EXAMPLE)
    return folder


@pytest.fixture(scope="module")
def url(model, tmp_path_factory):
    with served(str(model), tmp_path_factory.mktemp("log") / "served.log") as address:
        yield address


@pytest.fixture(scope="module")
def real_texts(real_data):
    """A random sample of comments, comments with disagreeing raters, generated phrases."""
    texts = pd.read_csv(real_data / "civil_comments_natural_2000.csv")["comment_text"]
    rated = pd.read_parquet(real_data / "civil_comments_text.parquet")["comment_text"]
    phrases = pd.read_csv(real_data / "bias_madlibs_77k.csv.gz")["Text"]
    return [*texts, *rated[::8], *phrases[::40]]


def score_by_door(model, url, texts):
    doors = [
        {"kind": "tfidf", "model": MODEL},
        {"kind": "mlflow", "model": MODEL},
        {"kind": "http", "url": url, "version": "1", "batch_size": 50},
    ]
    scores = []
    for door in doors:
        candidate = CANDIDATES.validate_python(door | {"name": "words"})
        with candidate.open(workplace_of(model)) as scorer:
            scored = scorer.score(batch(texts))
            scores.append(scored.scores if isinstance(scored, PartlyScored) else scored)
    return scores


def test_the_baseline_scores_the_same_through_every_door(model, url):
    own, *others = score_by_door(model, url, TEXTS + ODD)
    assert np.ptp(own) > 0.5
    for other in others:
        np.testing.assert_allclose(other, own, rtol=0, atol=1e-12)


def test_real_comments_score_the_same_through_every_door(model, url, real_texts):
    own, *others = score_by_door(model, url, real_texts)
    assert len(np.unique(own)) > 100
    for other in others:
        np.testing.assert_allclose(other, own, rtol=0, atol=1e-6)
