"""A fine-tuned transformer learns, stops early, and loads unchanged from the registry."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support.comments import ODD, batch
from support.registered import workplace_of

from bias_metrics import roc_auc
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import freeze_source
from biasgate.tasks.gating.policy import read_policy
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.rivals import find_rivals
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.transformer import FineTuning
from biasgate.tasks.scoring.training import OPENED_AS, TRAINING_KEY, train_and_register
from biasgate.tasks.store import Workplace

torch = pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")
transformers = pytest.importorskip("transformers", reason="needs the extra `text`")

from support.encoders import WORDS, save  # noqa: E402 - needs torch

from biasgate.tasks.scoring.kinds.transformer_training import FineTuner, TrainingLoss  # noqa: E402 - needs torch

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

MODEL = "tiny"
QUICK = {"max_epochs": 12, "learning_rate": 0.003, "validation_fraction": 0.25}


def make_comments(n_rows, seed):
    """Return comments that are toxic if and only if they contain the word `vile`."""
    rng = np.random.default_rng(seed)
    toxic = rng.random(n_rows) < 0.3
    plain = [word for word in WORDS if word != "vile"]
    texts = []
    for number, is_toxic in enumerate(toxic):
        words = list(rng.choice(plain, rng.integers(3, 12)))
        words.insert(rng.integers(len(words)), "vile" if is_toxic else "kind")
        texts.append(f"{' '.join(words)} {number}")
    return pd.DataFrame({"id": [f"{seed}-{n}" for n in range(n_rows)], "comment": texts}).assign(
        label=toxic.astype(int)
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Training rows, an encoder without a classifier, a store."""
    folder = tmp_path_factory.mktemp("fine_tuning")
    make_comments(400, 1).to_csv(folder / "train.csv", index=False)
    encoder = save(folder / "encoder", {0: "a", 1: "b"}, initializer_range=0.05)
    transformers.AutoModel.from_pretrained(encoder).save_pretrained(encoder)
    return folder


def make_candidate(place, *, path="train.csv", fine_tuning=(), **options):
    source = {"name": "training", "source": "table", "path": place / path, "text": "comment"}
    source |= {"terms": ["you"]}
    settings = {"name": "tiny", "kind": "transformer", "folder": place / "encoder"}
    settings |= {"train_on": source, "fine_tuning": QUICK | dict(fine_tuning)}
    return CANDIDATES.validate_python(settings | options)


def train_model(place, store, **options):
    settings = make_candidate(place, **options)
    gateway = Gateway.from_store(place / store)
    frozen = freeze_source(settings.train_on, place / store)
    version = train_and_register(settings, frozen, gateway, experiment="e", registered_model=MODEL)
    return SimpleNamespace(version=version, gateway=gateway, settings=settings, store=place / store)


def fit_model(place, tmp_path, **options):
    """Fit without a registry; return the folder, and the logged metrics by epoch."""
    settings, epochs = make_candidate(place, **options), []
    frozen = freeze_source(settings.train_on, tmp_path / "store")
    settings.fit(frozen, tmp_path / "model", lambda metrics, epoch: epochs.append((epoch, metrics)))
    return tmp_path / "model", epochs


def load_weights(folder):
    from safetensors.numpy import load_file  # noqa: PLC0415 - an extra

    return load_file(folder / "model" / "model.safetensors")


@pytest.fixture(scope="module")
def model(place):
    return train_model(place, "store")


def read_history(training, key):
    metrics = training.gateway.client.get_metric_history(training.version.run_id, key)
    return {metric.step: metric.value for metric in metrics}


def score_texts(training, texts, **options):
    pinned = training.settings.model_copy(update={"model": training.version.uri} | options)
    with pinned.open(Workplace(training.store)) as scorer:
        return scorer.score(batch(texts)).scores


def test_it_learns_a_word_and_scores_unseen_comments_by_it(model):
    unseen = make_comments(200, 2)
    found = score_texts(model, unseen["comment"].tolist())
    assert roc_auc(unseen["label"] == 1, found).value > 0.99


def test_each_epoch_is_logged_and_training_stops_when_nothing_improves(model):
    auc = read_history(model, "auc/validation")
    assert len(auc) >= 3
    assert list(auc) == list(range(1, len(auc) + 1))
    best = max(auc, key=lambda epoch: (auc[epoch], -epoch))
    assert auc[best] > 0.99
    assert len(auc) == min(best + 2, QUICK["max_epochs"])
    for part in ("training", "validation"):
        loss = read_history(model, f"loss/{part}")
        assert list(loss) == list(auc)
        assert loss[best] < 0.5, "the rate of 30 % alone gives 0.61"


def test_the_version_holds_safetensors_and_hashes_of_the_training_rows_but_no_pickle(
    place, model, tmp_path
):
    folder = model.gateway.fetch(model.version, tmp_path)
    assert str(place / "encoder") not in (folder / "MLmodel").read_text()
    names = {file.name for file in folder.rglob("*") if file.is_file()}
    assert {"MLmodel", "model.safetensors", "tokenizer.json", "training_rows.parquet"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pkl", ".pt", ".pickle"))]
    config = json.loads((folder / "model" / "config.json").read_text())
    assert config["id2label"] == {"0": "not toxic", "1": "toxic"}


def test_rows_that_it_was_trained_on_are_refused(model):
    pinned = model.settings.model_copy(update={"model": model.version.uri})
    frozen = freeze_source(model.settings.train_on, model.store)
    message = "'tiny' was trained on rows of evaluation set"
    scorer = pinned.open(Workplace(model.store))
    with pytest.raises(InputError, match=message):
        pinned.refuse_unfit(frozen, scorer.files)


def test_the_same_training_is_found_again_and_another_one_is_not(place, model):
    again = train_model(place, "store")
    assert again.version.uri == model.version.uri
    key = model.version.tags[TRAINING_KEY]
    frozen = freeze_source(model.settings.train_on, model.store)
    others = [{"fine_tuning": {"seed": 1}}, {"max_tokens": 32}, {"toxic_label": "hate"}]
    for change in others:
        assert make_candidate(place, **change).training_key(frozen) != key


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(place, tmp_path):
    few = {"max_epochs": 1}
    one, same = (load_weights(fit_model(place, tmp_path / n, fine_tuning=few)[0]) for n in "ab")
    other = load_weights(fit_model(place, tmp_path / "c", fine_tuning=few | {"seed": 1})[0])
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert any(not np.array_equal(one[name], other[name]) for name in one)


def test_training_leaves_torchs_own_random_numbers_alone(place):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tuner = FineTuner(place / "encoder", "tiny", ("a", "b"), FineTuning(max_steps=1), max_tokens=64)
    training = make_comments(100, 1)
    tuner.fit([training["comment"].tolist()], training["label"].to_numpy() == 1, lambda *_: None)
    assert torch.equal(torch.rand(3), expected)


def test_steps_are_bounded(place, tmp_path):
    _, epochs = fit_model(place, tmp_path, fine_tuning={"max_steps": 1, "max_epochs": 5})
    assert [epoch for epoch, _ in epochs] == [1]


def test_balanced_classes_raise_the_scores_of_the_rare_one(place, tmp_path):
    unseen = make_comments(100, 3)["comment"].tolist()
    means = []
    for weight in (None, "balanced"):
        change = {"class_weight": weight, "max_steps": 12}
        folder, _ = fit_model(place, tmp_path / str(weight), fine_tuning=change)
        settings = make_candidate(place, model="models:/tiny/1")
        with settings.open(workplace_of(folder)) as scorer:
            means.append(scorer.score(batch(unseen)).scores.mean())
    assert means[1] > means[0] + 0.02


@pytest.mark.parametrize("balanced", [False, True])
def test_without_weights_the_loss_is_torchs_own(balanced):
    rng = np.random.default_rng(3)
    positive, logits = rng.random(60) < 0.2, torch.tensor(rng.normal(size=(60, 2)))
    training, batch = np.arange(50), np.array([4, 17, 52, 59])
    share = positive[training].mean()
    of_class = torch.tensor([1 / (2 * (1 - share)), 1 / (2 * share)]) if balanced else None
    expected = torch.nn.CrossEntropyLoss(of_class)(
        logits[batch], torch.tensor(positive[batch], dtype=torch.long)
    )
    loss = TrainingLoss(positive, np.full(60, 3.0), training, balanced=balanced)
    torch.testing.assert_close(loss(logits[batch], batch), expected)


@pytest.mark.parametrize("balanced", [False, True])
def test_a_row_of_weight_2_counts_as_two_rows(balanced):
    rng = np.random.default_rng(4)
    positive, logits = rng.random(40) < 0.4, torch.tensor(rng.normal(size=(40, 2)))
    weights = rng.integers(0, 4, 40).astype(float)
    repeated = np.repeat(np.arange(40), weights.astype(int))
    alone = TrainingLoss(positive, weights, np.arange(40), balanced=balanced)
    all_rows = np.arange(len(repeated))
    many = TrainingLoss(positive[repeated], np.ones(len(repeated)), all_rows, balanced=balanced)

    def compute_gradient(loss, rows, of):
        given = logits.clone().requires_grad_()
        loss(given[of], rows).backward()
        return given.grad

    found = compute_gradient(alone, np.arange(40), torch.arange(40))
    expected = compute_gradient(many, all_rows, torch.tensor(repeated))
    ratio = found[weights > 0] / expected[weights > 0]
    torch.testing.assert_close(ratio, ratio[:1, :1].expand_as(ratio))
    assert not found[weights == 0].any()


def test_weights_decide_which_of_two_contradicting_labels_is_learned(place):
    rows = make_comments(300, 8)
    wrong = rows.assign(id=rows["id"] + "w", comment="so " + rows["comment"], label=1 - rows.label)
    both = pd.concat([rows, wrong]).to_dict("list")
    unseen = make_comments(200, 9)
    for heavy, expected in ((1, 1.0), (-1, 0.0)):
        tuner = FineTuner(
            place / "encoder", "tiny", ("no", "yes"), FineTuning(**QUICK), max_tokens=64
        )
        weights = np.repeat([9.0, 1.0][::heavy], len(rows))
        tuner.fit([both["comment"]], np.array(both["label"], dtype=bool), lambda *_: None, weights)
        given = tuner.tokenizer(unseen["comment"].tolist(), padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = tuner.model(**given).logits.numpy()
        auc = roc_auc(unseen["label"], logits[:, 1] - logits[:, 0]).value
        assert auc == pytest.approx(expected, abs=0.1)


def test_a_version_scores_the_same_as_transformer_and_as_any_model_of_mlflow(model):
    texts = [*make_comments(20, 4)["comment"], "", "w1 " * 500]
    settings = {"name": "m", "kind": "mlflow", "model": model.version.uri, "label": "toxic"}
    pyfunc = CANDIDATES.validate_python(settings | {"trusted": True})
    settings = {"name": "t", "kind": "transformer", "model": model.version.uri}
    alone = CANDIDATES.validate_python(settings | {"toxic_label": "toxic"})
    workplace = Workplace(model.store)
    with pyfunc.open(workplace) as one, alone.open(workplace) as other:
        found = [one.score(batch(texts)), other.score(batch(texts)).scores]
    assert np.ptp(found[0]) > 0.5
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(score_texts(model, texts), found[1])


def test_as_champion_it_is_opened_as_a_transformer_without_trust(model):
    model.gateway.set_alias(MODEL, "champion", model.version.version)
    policy = read_policy("default", Path())
    with pytest.raises(InputError, match="must have a verdict that records how it was opened"):
        find_rivals({}, MODEL, policy, [], model.gateway)
    tagged = json.loads(model.gateway.resolve(model.version.uri).tags[OPENED_AS])
    named = {"name": "champion", "model": f"models:/{MODEL}@champion", **tagged}
    rivals = {"champion": CANDIDATES.validate_python(named)}
    rival = find_rivals(rivals, MODEL, policy, [], model.gateway)["champion"]
    texts = make_comments(20, 5)["comment"].tolist()
    with rival.open(Workplace(model.store)) as scorer:
        np.testing.assert_array_equal(scorer.score(batch(texts)).scores, score_texts(model, texts))


def test_one_class_among_the_held_out_rows_is_told(place, tmp_path):
    make_comments(400, 1).query("label == 0 or id == '1-2' or id == '1-5'").to_csv(
        place / "rare.csv", index=False
    )
    few = {"validation_fraction": 0.01}
    with pytest.raises(InputError, match=r"held-out rows of model encoder .* must have both clas"):
        fit_model(place, tmp_path, path="rare.csv", fine_tuning=few)


def test_a_loss_that_explodes_is_told(place, tmp_path):
    with pytest.raises(InputError, match=r"must stay finite; it does not. Lower `learning_rate`"):
        fit_model(place, tmp_path, fine_tuning={"learning_rate": 1e30, "max_gradient_norm": 1e30})


def test_a_batch_that_does_not_fit_is_told(place, tmp_path, monkeypatch):
    def run_out(*_, **__):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(transformers.BertForSequenceClassification, "forward", run_out)
    with pytest.raises(InputError, match=r"must fit into memory; it does not. Lower `batch_size`"):
        fit_model(place, tmp_path)


def test_an_encoder_that_lacks_weights_is_refused(place, tmp_path):
    from safetensors.numpy import load_file, save_file  # noqa: PLC0415 - an extra

    other = save(tmp_path / "encoder", {0: "a", 1: "b"})
    kept = load_file(other / "model.safetensors")
    short = {name: value for name, value in kept.items() if "layer.1" not in name}
    save_file(short, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"must hold all weights of an encoder; it lacks bert\."):
        fit_model(place, tmp_path, folder=other)


def test_a_version_of_another_flavour_is_refused(tmp_path):
    (tmp_path / "MLmodel").write_text("flavors: {sklearn: {}, python_function: {}}")
    settings = {"name": "t", "kind": "transformer", "model": "models:/words/1"}
    with pytest.raises(InputError, match=r"logged with `mlflow.transformers`; it is of another"):
        CANDIDATES.validate_python(settings).open(workplace_of(tmp_path))


def test_a_version_without_weights_is_refused(place, tmp_path):
    folder, _ = fit_model(place, tmp_path, fine_tuning={"max_steps": 1})
    (folder / "model" / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"must hold weights in \*.safetensors; it does not"):
        make_candidate(place, model="models:/tiny/1").open(workplace_of(folder))


def test_odd_comments_can_be_trained_on(place):
    tuner = FineTuner(place / "encoder", "tiny", ("a", "b"), FineTuning(max_steps=4), max_tokens=64)
    training, told = make_comments(60, 1), []
    texts = [*training["comment"], *ODD]
    positive = np.array([*(training["label"] == 1), *([True, False] * len(ODD))[: len(ODD)]])
    tuner.fit([texts[:30], texts[30:]], positive, lambda metrics, _: told.append(metrics))
    assert np.isfinite(list(told[0].values())).all()
