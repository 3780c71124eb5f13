"""Tokens are made once for all candidates with the same tokenizer, and never for another one."""

import json
import os
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")
transformers = pytest.importorskip("transformers", reason="needs the extra `text`")

from support.comments import ODD, batch  # noqa: E402 - after the skip
from support.encoders import WORDS, save  # noqa: E402 - needs torch

from biasgate.tasks.cleaning import iter_store_items  # noqa: E402 - after the skip
from biasgate.tasks.scoring.kinds import transformer_inference as inference  # noqa: E402 - needs torch
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES  # noqa: E402 - after the skip
from biasgate.tasks.scoring.kinds.transformer_tokens import Tokenizer  # noqa: E402 - after the skip
from biasgate.tasks.store import Workplace  # noqa: E402 - after the skip

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

TEXTS = [" ".join(WORDS[: at % 60]) for at in range(90)] + ODD


@pytest.fixture
def tokenised_numbers(monkeypatch):
    """The numbers of the texts that were tokenised."""
    seen, tokenize = [], Tokenizer.tokenize

    def record_numbers(self, texts, numbers):
        seen.extend(numbers)
        return tokenize(self, texts, numbers)

    monkeypatch.setattr(Tokenizer, "tokenize", record_numbers)
    monkeypatch.setattr(inference, "TEXTS_AHEAD", 20)
    return seen


def score(folder, store, texts=TEXTS, **options):
    settings = {"name": "tiny", "kind": "transformer", "folder": folder, "toxic_label": "toxic"}
    with CANDIDATES.validate_python(settings | options).open(Workplace(store)) as scorer:
        return scorer.score(batch(texts)).scores


def test_kept_tokens_say_which_texts_were_truncated(tmp_path, tokenised_numbers):
    folder = save(tmp_path / "tiny", {0: "neutral", 1: "toxic"})
    settings = {"name": "tiny", "kind": "transformer", "folder": folder, "max_tokens": 16}
    found = []
    for one in (folder, save_other_weights(folder, tmp_path)):
        made = CANDIDATES.validate_python(settings | {"folder": one, "toxic_label": "toxic"})
        with made.open(Workplace(tmp_path / "store")) as scorer:
            found.append(scorer.score(batch(TEXTS)).truncated.tolist())
    assert len(tokenised_numbers) == len(TEXTS)
    # Two tokens of sixteen begin and end a text.
    assert found[0][:90] == found[1][:90] == [at % 60 > 14 for at in range(90)]


def save_other_weights(folder, tmp_path):
    """Save the same tokenizer with other weights and labels."""
    other = save(tmp_path / "other", {0: "neutral", 1: "toxic", 2: "vile"})
    shutil.copy(folder / "tokenizer.json", other / "tokenizer.json")
    return other


def test_a_second_model_with_the_same_tokenizer_tokenises_nothing(tmp_path, tokenised_numbers):
    folder = save(tmp_path / "tiny", {0: "neutral", 1: "toxic"})
    first = score(folder, tmp_path / "store")
    assert len(tokenised_numbers) == len(TEXTS)
    other = save_other_weights(folder, tmp_path)
    [kept] = iter_store_items(tmp_path / "store")
    assert kept.kind == "tokens"
    os.utime(kept.path, (0, 0))
    again = score(other, tmp_path / "store")
    assert kept.path.stat().st_mtime > kept.used - 100  # it counts as used
    assert len(tokenised_numbers) == len(TEXTS)
    np.testing.assert_array_equal(again, score(other, tmp_path / "new"))
    np.testing.assert_array_equal(first, score(folder, tmp_path / "newer"))


@pytest.mark.parametrize("change", ["max_tokens", "texts", "vocabulary"])
def test_other_tokens_are_made_for_another_tokenizer_or_other_texts(
    tmp_path, tokenised_numbers, change
):
    folder = save(tmp_path / "tiny", {0: "neutral", 1: "toxic"})
    score(folder, tmp_path / "store")
    texts, options = TEXTS, {}
    if change == "max_tokens":
        options["max_tokens"] = 16
    elif change == "texts":
        texts = [*TEXTS[:-1], "you are vile"]
    else:
        file = folder / "tokenizer.json"
        content = json.loads(file.read_text("utf-8"))
        vocabulary = content["model"]["vocab"]
        vocabulary["you"], vocabulary["are"] = vocabulary["are"], vocabulary["you"]
        file.write_text(json.dumps(content), "utf-8")
    found = score(folder, tmp_path / "store", texts, **options)
    assert len(tokenised_numbers) == len(TEXTS) + len(texts)
    np.testing.assert_array_equal(found, score(folder, tmp_path / "new", texts, **options))


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
def test_what_cannot_be_read_is_made_again(tmp_path, tokenised_numbers, damage):
    folder = save(tmp_path / "tiny", {0: "neutral", 1: "toxic"})
    first = score(folder, tmp_path / "store")
    [file] = (tmp_path / "store" / "tokens").rglob("*.npz")
    if damage is None:
        np.savez(file, numbers=np.arange(3), lengths=np.ones(3), input_ids=np.ones(3))
    else:
        file.write_bytes(damage)
    np.testing.assert_array_equal(score(folder, tmp_path / "store"), first)
    assert len(tokenised_numbers) == 2 * len(TEXTS)


def test_a_store_that_cannot_be_written_is_no_error(tmp_path, tokenised_numbers):
    folder = save(tmp_path / "tiny", {0: "neutral", 1: "toxic"})
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "tokens").write_text("a file")
    score(folder, tmp_path / "store")
    assert len(tokenised_numbers) == len(TEXTS)
