"""On a GPU: scores as on a CPU, in batches of any kind, and within the memory there is."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")
pytest.importorskip("transformers", reason="needs the extra `text`")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

from support.comments import ODD  # noqa: E402 - after the skip
from support.encoders import WORDS, compute_logits, save  # noqa: E402 - needs torch

from biasgate.tasks.scoring.kinds import transformer_inference as inference  # noqa: E402 - needs torch
from biasgate.tasks.scoring.scored import open_mapper  # noqa: E402 - after the skip

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

LABELS = {0: "neutral", 1: "toxic"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    # Heads of 32 numbers, since the kernels want multiples of 8.
    return save(
        tmp_path_factory.mktemp("models") / "tiny", LABELS, hidden_size=64, initializer_range=0.15
    )


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(2)
    return [" ".join(rng.choice(WORDS, n)) for n in rng.integers(0, 60, 500)] + ODD


@pytest.fixture(scope="module")
def exact_logits(folder, texts):
    return compute_logits(folder, texts)


@pytest.mark.parametrize("budget", [64, 1_000, None])
@pytest.mark.parametrize(("precision", "atol"), [("float32", 1e-4), ("bfloat16", 0.1)])
def test_a_gpu_scores_as_a_cpu_does(folder, texts, exact_logits, precision, atol, budget):
    classifier = inference.Classifier(folder, "tiny", precision=precision, tokens_a_batch=budget)
    assert classifier._is_packed
    np.testing.assert_allclose(classifier.logits(texts), exact_logits, rtol=0, atol=atol)
    assert np.ptp(exact_logits) > 1


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_batch_changes_only_the_last_digits(folder, texts, precision):
    classifier = inference.Classifier(folder, "tiny", precision=precision)
    whole = classifier.logits(texts)
    order = np.random.default_rng(0).permutation(len(texts))
    mixed = classifier.logits([texts[at] for at in order])
    np.testing.assert_allclose(mixed, whole[order], rtol=0, atol=1e-5)
    parts = [classifier.logits(texts[at : at + 37]) for at in range(0, len(texts), 37)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=1e-5)


def test_calls_at_the_same_time_change_only_the_last_digits(folder, texts):
    classifier = inference.Classifier(folder, "tiny", tokens_a_batch=300)
    whole = classifier.logits(texts)
    parts = [texts[at : at + 37] for at in range(0, len(texts), 37)]
    with open_mapper(3) as each:
        found = np.concatenate(list(each(classifier.logits, parts)))
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-5)


def test_without_the_kernel_batches_are_padded(folder, texts, exact_logits, monkeypatch):
    def fail(*_):
        raise AttributeError("no such operator")

    monkeypatch.setattr("biasgate.tasks.scoring.kinds.transformer_tokens.attend", fail)
    classifier = inference.Classifier(folder, "tiny")
    assert not classifier._is_packed
    np.testing.assert_allclose(classifier.logits(texts), exact_logits, rtol=0, atol=1e-4)


def test_a_batch_that_does_not_fit_is_halved_until_it_does(folder, texts, exact_logits):
    classifier = inference.Classifier(folder, "tiny", tokens_a_batch=10_000_000)
    few = len(texts) - len(ODD)
    many = texts[:few] * 400
    classifier.logits(texts)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(2**30 / total)
    try:
        found = classifier.logits(many)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert classifier._budget < 10_000_000
    np.testing.assert_allclose(found, np.tile(exact_logits[:few], (400, 1)), rtol=0, atol=1e-4)
