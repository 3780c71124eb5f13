"""Candidates from the registry: what is checked before loading, and what they may return."""

import mlflow.pyfunc
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema, TensorSpec
from support.comments import ODD, batch
from support.registered import workplace_of

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.model_answers import extract_scores

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

TEXT = Schema([ColSpec("string", "comment")])


class Lengths(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        del context, params
        lengths = model_input["comment"].str.len().clip(upper=100) / 100
        return pd.DataFrame({"id": 0, "toxicity": lengths})


@pytest.fixture
def save_custom(tmp_path):
    """Save a custom pyfunc model with a given signature; return its folder."""

    def save(inputs=TEXT):
        folder = tmp_path / "custom"
        signature = None if inputs is None else ModelSignature(inputs=inputs)
        mlflow.pyfunc.save_model(
            folder, python_model=Lengths(), signature=signature, pip_requirements=[]
        )
        return folder

    return save


def open_model(folder, **options):
    settings = {"name": "own", "kind": "mlflow", "model": "models:/own/1", **options}
    return CANDIDATES.validate_python(settings).open(workplace_of(folder))


def test_a_custom_model_that_is_trusted_scores_every_text(save_custom):
    with open_model(save_custom(), trusted=True, output="toxicity") as scorer:
        scores = scorer.score(batch(ODD))
    assert scores.tolist() == [min(len(text), 100) / 100 for text in ODD]


def test_a_model_that_executes_code_on_load_must_be_trusted(save_custom):
    with pytest.raises(InputError, match="format that does not execute code on load"):
        open_model(save_custom())


def make_signature(*columns):
    return ModelSignature(inputs=Schema(list(columns))).to_dict()


NO_TEXT = "must take one column of text"
UNREADABLE = r"must have a signature as MLflow writes it.* Log the"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (make_signature(ColSpec("double", "x")), rf"{NO_TEXT}.*x \(.*double"),
        (make_signature(ColSpec("string", "a"), ColSpec("string", "b")), NO_TEXT),
        (make_signature(TensorSpec(np.dtype("float32"), (-1, 3))), NO_TEXT),
        (None, r"models:/own/1 must have a signature"),
        ("text", UNREADABLE),
        (5, UNREADABLE),
        (["a"], UNREADABLE),
        ({"inputs": "not JSON"}, UNREADABLE),
        ({"inputs": 5}, UNREADABLE),
        ({"inputs": '[{"type": "odd"}]'}, UNREADABLE),
    ],
)
def test_a_signature_that_takes_no_text_is_refused_before_loading(save_custom, changed, message):
    folder = save_custom()
    description = yaml.safe_load((folder / "MLmodel").read_text())
    del description["signature"]
    description |= {"signature": changed} if changed else {}
    (folder / "MLmodel").write_text(yaml.safe_dump(description))
    with pytest.raises(InputError, match=message):
        open_model(folder, trusted=True)


def test_a_label_needs_a_model_that_knows_it(tmp_path):
    (tmp_path / "MLmodel").write_text("flavors: {}\n")
    with pytest.raises(InputError, match=r"one of the two labels.*got 'toxic' .known: none"):
        open_model(tmp_path, trusted=True, label="toxic")


def test_of_a_winning_label_the_toxic_ones_score_is_taken():
    table = pd.DataFrame({"label": ["toxic", "fine"], "score": [0.75, 0.75]})
    assert extract_scores(table, "model m", label="toxic").tolist() == [0.75, 0.25]
    assert extract_scores(table, "model m", label="fine").tolist() == [0.25, 0.75]
