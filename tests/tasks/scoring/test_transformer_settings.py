"""The settings of a transformer are checked before anything is loaded; needs no torch."""

import json

import numpy as np
import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.kinds import hugging_face
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.transformer import ClassifierHead, choose_head

MULTI = {"problem_type": "multi_label_classification"}


def make_config(*labels):
    return {"id2label": {str(at): label for at, label in enumerate(labels)}}


@pytest.mark.parametrize(
    ("config", "label", "expected"),
    [
        (make_config("LABEL_0"), None, ClassifierHead(0, "sigmoid")),
        (make_config("toxic"), "toxic", ClassifierHead(0, "sigmoid")),
        (make_config("LABEL_0") | {"problem_type": "regression"}, None, ClassifierHead(0, "none")),
        ({}, None, ClassifierHead(1, "softmax")),
        (make_config("LABEL_0", "LABEL_1"), None, ClassifierHead(1, "softmax")),
        (make_config("toxic", "neutral"), "toxic", ClassifierHead(0, "softmax")),
        (make_config("neutral", "toxic"), "toxic", ClassifierHead(1, "softmax")),
        (make_config("obscene", "toxic", "insult") | MULTI, "toxic", ClassifierHead(1, "sigmoid")),
        (make_config("fine", "rude", "toxic"), "toxic", ClassifierHead(2, "softmax")),
        (
            {"id2label": {"10": "k", "2": "c", "1": "b", "0": "a"}},
            "k",
            ClassifierHead(3, "softmax"),
        ),
    ],
)
def test_the_toxic_output_is_found(config, label, expected):
    assert choose_head(config, "model m", label, None) == expected


@pytest.mark.parametrize(
    ("config", "label", "message"),
    [
        (make_config("neutral", "toxic"), None, "set `toxic_label` to one of 'neutral', 'toxic'"),
        (make_config("toxic", "insult") | MULTI, None, "set `toxic_label` to one of"),
        (make_config("LABEL_0", "LABEL_1") | MULTI, None, "set `toxic_label` to one of"),
        (make_config("a", "b", "c"), None, "set `toxic_label` to one of"),
        (
            make_config("neutral", "toxic"),
            "Toxic",
            "must be one of 'neutral', 'toxic'; got 'Toxic'",
        ),
        (make_config("score"), "toxic", "must be one of 'score'; got 'toxic'"),
        (make_config("toxic", "toxic"), "toxic", "must be one of"),
    ],
)
def test_a_label_that_is_not_evident_or_unknown_is_refused(config, label, message):
    with pytest.raises(InputError, match=message):
        choose_head(config, "model m", label, None)


def test_scores_are_what_the_activations_say():
    logits = np.array([[0.0, np.log(3)], [np.log(3), 0.0]], dtype=np.float32)
    assert ClassifierHead(1, "softmax").compute_scores(logits).tolist() == pytest.approx(
        [0.75, 0.25]
    )
    assert ClassifierHead(1, "sigmoid").compute_scores(logits).tolist() == pytest.approx(
        [0.75, 0.5]
    )
    assert ClassifierHead(1, "none").compute_scores(logits).tolist() == pytest.approx(
        [np.log(3), 0.0]
    )


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
def test_large_logits_keep_their_order(activation):
    logits = np.array([[0, 20], [0, 25], [0, 30]], dtype=np.float32)
    scores = ClassifierHead(1, activation).compute_scores(logits)
    assert (np.diff(scores) > 0).all()


@pytest.fixture(autouse=True)
def torch_is_installed(monkeypatch):
    monkeypatch.setattr(hugging_face, "find_spec", lambda name: name)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(make_config("neutral", "toxic")))
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def make_candidate(**options):
    settings = {"name": "encoder", "kind": "transformer", "toxic_label": "toxic"}
    return CANDIDATES.validate_python(settings | options)


def test_a_whole_folder_passes_the_check(folder):
    make_candidate(folder=folder).check()


@pytest.mark.parametrize("origin", ["folder", "hub", "registry"])
def test_without_torch_the_check_says_how_to_install_it(folder, origin, monkeypatch):
    monkeypatch.setattr(hugging_face, "find_spec", lambda name: None if name == "torch" else name)
    origins = {"folder": folder, "hub": "acme/tiny", "registry": "models:/m/1"}
    options = {"model" if origin == "registry" else origin: origins[origin]}
    with pytest.raises(InputError, match=r'need torch: pip install "\.\[text\]"'):
        make_candidate(**options).check()


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("model.safetensors", r"'encoder' must hold weights in \*.safetensors; it does not"),
        ("config.json", "must hold config.json"),
    ],
)
def test_a_folder_without_weights_or_configuration_is_refused(folder, lost, message):
    (folder / lost).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(InputError, match=message):
        make_candidate(folder=folder).check()


def test_an_unknown_label_is_refused_before_any_work(folder):
    with pytest.raises(InputError, match="model model of candidate 'encoder' must be one of"):
        make_candidate(folder=folder, toxic_label="hate").check()


def test_code_of_the_models_own_runs_only_when_its_name_is_repeated(folder):
    config = json.loads((folder / "config.json").read_text()) | {"auto_map": {"AutoModel": "a.B"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"contains its own code.*`trust_remote_code: model`"):
        make_candidate(folder=folder).check()
    with pytest.raises(ValueError, match="must repeat the model's own name, model"):
        make_candidate(folder=folder, trust_remote_code="true")
    make_candidate(folder=folder, trust_remote_code="model").check()


TRAINING = {"name": "t", "source": "templates", "part": "train"}


@pytest.mark.parametrize(
    "origin",
    [
        {},
        {"folder": "a", "hub": "b/c"},
        {"hub": "../c/d"},
        {"folder": "a", "model": "models:/m/1"},
        {"model": "models:/m/1", "train_on": TRAINING},
    ],
)
def test_a_model_has_one_origin(origin):
    with pytest.raises(ValueError, match=r"either `folder` or `hub`|match pattern"):
        make_candidate(**origin)


def test_an_encoder_needs_no_classifier_and_no_label_to_be_trained_here(folder):
    (folder / "config.json").write_text(json.dumps(make_config("a", "b", "c")))
    trained = make_candidate(folder=folder, toxic_label=None, train_on=TRAINING)
    trained.check()
    assert trained.training() is not None
    pinned = CANDIDATES.validate_python(
        trained.model_dump(mode="json", by_alias=True) | {"model": "models:/toxicity/3"}
    )
    assert pinned.training() is None
    assert pinned.opened_as()["toxic_label"] == "toxic"


def test_an_encoder_without_weights_is_refused(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"must hold weights in \*.safetensors"):
        make_candidate(folder=folder, train_on=TRAINING).check()


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_epochs": 0},
        {"learning_rate": 0},
        {"validation_fraction": 1},
        {"patience": 0},
        {"class_weight": "heavy"},
        {"epochs": 3},
    ],
)
def test_a_wrong_option_of_the_training_is_refused(folder, wrong):
    with pytest.raises(ValueError, match=f"fine_tuning.{next(iter(wrong))}"):
        make_candidate(folder=folder, train_on=TRAINING, fine_tuning=wrong)


def test_fine_tuning_without_a_training_set_is_refused(folder):
    with pytest.raises(ValueError, match="needs a training set: give it with `train_on`"):
        make_candidate(folder=folder, fine_tuning={"seed": 1})


def test_what_is_to_be_trained_is_not_opened(folder):
    with pytest.raises(InputError, match="'encoder' must be trained before it is opened"):
        make_candidate(folder=folder, train_on=TRAINING).open(None)
