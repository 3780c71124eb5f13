"""Packed texts score as padded ones do; a stand-in computes the GPU's attention on a CPU."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")
transformers = pytest.importorskip("transformers", reason="needs the extra `text`")

from support.comments import ODD  # noqa: E402 - after the skip
from support.encoders import WORDS, compute_logits, save  # noqa: E402 - needs torch

from biasgate.tasks.scoring.kinds import transformer_inference as inference  # noqa: E402 - needs torch
from biasgate.tasks.scoring.kinds import transformer_tokens as packing  # noqa: E402 - needs torch
from biasgate.tasks.scoring.scored import open_mapper  # noqa: E402 - after the skip

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

FAMILY = ["Bert", "Camembert", "Electra", "Roberta", "XLMRoberta"]
LABELS = {0: "neutral", 1: "toxic"}


def attend_in_turn(query, key, value, starts, longest, scale):
    """Compute the results of the kernel text by text."""
    assert int(starts.diff().max()) == longest
    result = torch.full_like(query, torch.nan)  # padding, which may not be read
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        inputs = (tensor[:, start:end].transpose(1, 2) for tensor in (query, key, value))
        attended = torch.nn.functional.scaled_dot_product_attention(*inputs, scale=scale)
        result[:, start:end] = attended.transpose(1, 2)
    return result


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(2)
    return [" ".join(rng.choice(WORDS, n)) for n in rng.integers(0, 90, 20)] + ODD


def replace_model(folder, family):
    """Replace the model in a folder by a model of another class with the same shape."""
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, f"{family}Config")
    shape = {name: value for name, value in config.to_dict().items() if name != "model_type"}
    shape |= {"max_position_embeddings": 80, "embedding_size": 16}
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForSequenceClassification")(kind(**shape))
    model.save_pretrained(folder)


@pytest.mark.parametrize("family", FAMILY)
@pytest.mark.parametrize("budget", [8, 300, 100_000])
def test_packed_texts_score_as_one_at_a_time(family, budget, texts, tmp_path, monkeypatch):
    folder = save(tmp_path / "tiny", LABELS)
    replace_model(folder, family)
    monkeypatch.setattr(packing, "attend", attend_in_turn)
    monkeypatch.setattr(packing, "_has_kernel", lambda _: True)
    classifier = inference.Classifier(folder, "tiny", tokens_a_batch=budget)
    assert classifier._is_packed
    expected = compute_logits(folder, texts)
    np.testing.assert_allclose(classifier.logits(texts), expected, rtol=0, atol=1e-4)
    assert np.ptp(expected) > 0.2


def test_packed_texts_score_the_same_in_several_threads(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "attend", attend_in_turn)
    monkeypatch.setattr(packing, "_has_kernel", lambda _: True)
    classifier = inference.Classifier(save(tmp_path / "tiny", LABELS), "tiny", tokens_a_batch=100)
    whole = classifier.logits(texts)
    parts = [texts[at : at + 3] for at in range(0, len(texts), 3)] * 5
    with open_mapper(4) as each:
        found = np.concatenate(list(each(classifier.logits, parts)))
    np.testing.assert_allclose(found, np.tile(whole, (5, 1)), rtol=0, atol=1e-5)


def test_the_last_layer_computes_the_first_token_alone(texts, tmp_path):
    classifier = inference.Classifier(save(tmp_path / "tiny", LABELS), "tiny")
    seen = []
    for layer in classifier._model.base_model.encoder.layer:
        layer.intermediate.register_forward_pre_hook(
            lambda _, given: seen.append(given[0].shape[:2])
        )
    classifier.logits(texts)
    before, last = seen[::2], seen[1::2]
    assert all(n_tokens > 1 for _, n_tokens in before)
    # On a GPU the texts of a batch are one row before.
    assert {n_tokens for _, n_tokens in last} == {1}
    assert sum(n_texts for n_texts, _ in last) == len(texts)
