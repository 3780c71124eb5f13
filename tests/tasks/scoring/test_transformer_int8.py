"""Linear layers in 8-bit integers: close to single precision, and the same in every batch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")
transformers = pytest.importorskip("transformers", reason="needs the extra `text`")

from support.comments import ODD, batch  # noqa: E402 - after the skip
from support.encoders import WORDS, save  # noqa: E402 - needs torch

from biasgate.tasks.common.errors import InputError  # noqa: E402 - after the skip
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES  # noqa: E402 - after the skip
from biasgate.tasks.scoring.kinds.transformer_inference import (  # noqa: E402 - needs torch
    chosen_precision,
    quantise_layers,
)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

TEXTS = [" ".join(WORDS[at % 7 : at % 60]) for at in range(90)] + ODD


def score(folder, texts=TEXTS, **options):
    settings = {"name": "tiny", "kind": "transformer", "folder": folder, "toxic_label": "toxic"}
    with CANDIDATES.validate_python(settings | options).open(None) as scorer:
        return scorer.digest, scorer.score(batch(texts))


def test_a_layer_is_as_close_as_eight_bits_allow():
    torch.manual_seed(0)
    layer = torch.nn.Linear(40, 12)
    rows = torch.randn(5, 7, 40)
    exact = layer(rows)
    holder = torch.nn.Module()
    holder.layer, holder.config = layer, type("Config", (), {"num_labels": 2})
    quantise_layers(holder)
    found = layer(rows)
    assert found.shape == exact.shape
    # Each rounding is at most half a step of 1/127 of the largest value, twice for each product.
    weight, values = layer.weight.abs(), rows.abs()
    step = (weight.amax(1) / 254) * values.sum(-1, keepdim=True)
    step = step + (values.amax(-1, keepdim=True) / 254) * (
        weight.sum(1) + 40 * weight.amax(1) / 254
    )
    assert (found - exact).abs().max() > 0
    assert bool(((found - exact).abs() <= step + 1e-5).all())


def test_scores_are_close_to_those_in_single_precision_and_have_a_digest_of_their_own(tmp_path):
    folder = save(tmp_path / "tiny", {0: "neutral", 1: "toxic"})
    (exact_digest, exact), (digest, found) = score(folder), score(folder, precision="int8")
    assert digest != exact_digest
    assert 0 < np.abs(exact - found).max() < 0.1
    assert np.corrcoef(exact, found)[0, 1] > 0.99


def test_the_batch_changes_only_the_last_digits(tmp_path):
    folder = save(tmp_path / "tiny", {0: "neutral", 1: "toxic"})
    _, together = score(folder, precision="int8", tokens_a_batch=4000)
    _, apart = score(folder, precision="int8", tokens_a_batch=8)
    np.testing.assert_allclose(together, apart, rtol=0, atol=1e-3)


def test_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(InputError, match="`precision: int8` computes on a CPU"):
        chosen_precision("int8")
