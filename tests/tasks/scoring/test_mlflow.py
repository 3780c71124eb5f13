"""Candidates from the registry: what is checked before loading, and what they may return."""

from contextlib import nullcontext
from types import SimpleNamespace

import mlflow.pyfunc
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema, TensorSpec
from support.comments import ODD, batch

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.model_answers import positive_scores
from biasgate.tasks.scoring.kinds.tfidf import EXAMPLE, Tfidf

TEXT = Schema([ColSpec("string", "comment")])


class Lengths(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        del context, params
        lengths = model_input["comment"].str.len().clip(upper=100) / 100
        return pd.DataFrame({"id": 0, "toxicity": lengths})


@pytest.fixture
def custom(tmp_path):
    """A folder with a custom pyfunc model of a given signature."""

    def custom(inputs=TEXT):
        folder = tmp_path / "custom"
        signature = None if inputs is None else ModelSignature(inputs=inputs)
        mlflow.pyfunc.save_model(
            folder, python_model=Lengths(), signature=signature, pip_requirements=[]
        )
        return folder

    return custom


def open_(folder, **options):
    settings = {"name": "own", "kind": "mlflow", "model": "models:/own/1", **options}
    gateway = SimpleNamespace(resolve=lambda uri: uri, downloaded=lambda _: nullcontext(folder))
    return CANDIDATES.validate_python(settings).open(SimpleNamespace(gateway=gateway))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_a_custom_model_that_is_trusted_scores_every_text(custom):
    with open_(custom(), trusted=True, output="toxicity") as scorer:
        scores = scorer.score(batch(ODD))
    assert scores.tolist() == [min(len(text), 100) / 100 for text in ODD]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_a_model_that_executes_code_on_load_must_be_trusted(custom):
    with pytest.raises(InputError, match="format that does not execute code on load"):
        open_(custom())


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (Schema([ColSpec("double", "x")]), r"must take one column of text.*x \(.*double"),
        (Schema([ColSpec("string", "a"), ColSpec("string", "b")]), "must take one column of text"),
        (Schema([TensorSpec(np.dtype("float32"), (-1, 3))]), "must take one column of text"),
    ],
)
def test_a_signature_that_takes_no_text_is_refused_before_loading(custom, inputs, message):
    folder = custom()
    description = yaml.safe_load((folder / "MLmodel").read_text())
    description["signature"] = ModelSignature(inputs=inputs).to_dict()
    (folder / "MLmodel").write_text(yaml.safe_dump(description))
    with pytest.raises(InputError, match=message):
        open_(folder, trusted=True)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_a_model_without_signature_is_refused(custom):
    folder = custom()
    description = yaml.safe_load((folder / "MLmodel").read_text())
    del description["signature"]
    (folder / "MLmodel").write_text(yaml.safe_dump(description))
    with pytest.raises(InputError, match=r"models:/own/1 must have a signature"):
        open_(folder, trusted=True)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    "signature",
    ["text", 5, ["a"], {"inputs": "not JSON"}, {"inputs": 5}, {"inputs": '[{"type": "odd"}]'}],
)
def test_a_signature_that_cannot_be_read_is_refused_with_what_to_do(custom, signature):
    folder = custom()
    described = yaml.safe_load((folder / "MLmodel").read_text("utf-8"))
    text = yaml.safe_dump({**described, "signature": signature})
    (folder / "MLmodel").write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"must have a signature as MLflow writes it.* Log the"):
        open_(folder, trusted=True)


def test_a_label_needs_a_model_that_knows_it(tmp_path):
    (tmp_path / "MLmodel").write_text("flavors: {}\n")
    with pytest.raises(InputError, match=r"one of the two labels.*got 'toxic' .known: none"):
        open_(tmp_path, trusted=True, label="toxic")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_trained_baseline_gives_odd_comments_a_score_through_both_doors(tmp_path):
    settings = {"name": "words", "kind": "tfidf", "model": "models:/words/1"}
    candidate = Tfidf.model_validate(settings)
    texts = [f"{word} {n}" for n in range(20) for word in ("kind words", "vile insult")]
    pipeline = candidate.pipeline().fit(texts, [0, 1] * 20)
    folder = tmp_path / "model"
    save_classifier(pipeline, folder, EXAMPLE)
    gateway = SimpleNamespace(
        resolve=lambda uri: SimpleNamespace(uri=uri), downloaded=lambda _: nullcontext(folder)
    )
    with candidate.open(SimpleNamespace(gateway=gateway)) as scorer:
        own = scorer.score(batch(ODD))
    with open_(folder) as scorer:
        through_pyfunc = scorer.score(batch(ODD))
    assert np.isfinite(own).all()
    np.testing.assert_allclose(through_pyfunc, own, rtol=0, atol=1e-12)


def test_of_a_winning_label_the_toxic_ones_score_is_taken():
    table = pd.DataFrame({"label": ["toxic", "fine"], "score": [0.75, 0.75]})
    assert positive_scores(table, "model m", label="toxic").tolist() == [0.75, 0.25]
    assert positive_scores(table, "model m", label="fine").tolist() == [0.25, 0.75]
