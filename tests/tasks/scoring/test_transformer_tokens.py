"""Tokens in flat arrays are those that transformers gives in lists."""

import numpy as np
import pytest

transformers = pytest.importorskip("transformers", reason="needs the extra `text`")
pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")

from support.comments import ODD  # noqa: E402 - after the skip
from support.encoders import WORDS, save  # noqa: E402 - needs torch

from biasgate.tasks.scoring.kinds.transformer_tokens import Tokenizer, Tokens  # noqa: E402 - needs torch

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

TEXTS = ["you are kind", *ODD, " ".join(WORDS)]


def make_word_pieces(folder):
    return transformers.AutoTokenizer.from_pretrained(save(folder / "tiny", {0: "a", 1: "toxic"}))


def make_typed(folder):
    """Return a tokenizer like XLNet's, with a separate type for the last token."""
    from tokenizers.processors import TemplateProcessing  # noqa: PLC0415 - needs the extra

    tokenizer = make_word_pieces(folder)
    special = [("[CLS]", 2), ("[SEP]", 3)]
    processor = TemplateProcessing("[CLS] $0 [SEP]:1", None, special)
    tokenizer.backend_tokenizer.post_processor = processor
    return tokenizer


def make_python_tokenizer(_):
    return transformers.CanineTokenizer(model_max_length=64)


@pytest.mark.parametrize("make", [make_word_pieces, make_typed, make_python_tokenizer])
def test_tokens_are_those_of_transformers(make, tmp_path):
    numbers = list(range(len(TEXTS)))[::-1]
    tokenizer = make(tmp_path)
    given = tokenizer([TEXTS[number] for number in numbers], truncation=True, max_length=20)
    made = Tokenizer(tokenizer, 20).tokenize(TEXTS, numbers)
    assert made.numbers.tolist() == numbers
    assert made.lengths.tolist() == [len(ids) for ids in given["input_ids"]]
    for name, values in made.values.items():
        assert values.tolist() == [one for row in given[name] for one in row], name
    assert set(made.values) == set(given) - {"attention_mask"}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("make", [make_word_pieces, make_typed, make_python_tokenizer])
def test_texts_with_more_tokens_than_allowed_are_truncated_and_no_others(make, side, tmp_path):
    tokenizer = make(tmp_path)
    tokenizer.truncation_side = side
    numbers = list(range(len(TEXTS)))
    longest = len(tokenizer(TEXTS[0])["input_ids"])
    whole = [len(tokenizer(text, truncation=False)["input_ids"]) for text in TEXTS]
    for limit in (longest - 1, longest, longest + 1, 20):
        made = Tokenizer(tokenizer, limit).tokenize(TEXTS, numbers)
        assert made.truncated.tolist() == [n > limit for n in whole]
        assert made.truncated.dtype == bool


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_batches_are_those_of_transformers(side, tmp_path):
    tokenizer = make_word_pieces(tmp_path)
    tokenizer.padding_side = side
    expected = tokenizer(TEXTS, truncation=True, padding="max_length", max_length=24)
    ours = Tokenizer(tokenizer, 24)
    padded = ours.pad_batch(ours.tokenize(TEXTS, range(len(TEXTS))), 24)
    assert set(padded) == set(expected)
    for name, values in padded.items():
        assert values.tolist() == expected[name], name


def test_sorted_and_cut_texts_keep_their_tokens():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 50)
    owners = np.repeat(np.arange(50), lengths)
    both = {"input_ids": owners * 100 + np.arange(owners.size), "token_type_ids": owners}
    tokens = Tokens(np.arange(50), lengths, lengths > 6, both)
    cut = Tokens.join([tokens.select(0, 20), tokens.select(20, 21), tokens.select(21, 50)])
    for one in (cut, cut.sort_by_length()):
        at = 0
        for number, length in zip(one.numbers, one.lengths, strict=True):
            start = lengths[:number].sum()
            for name, values in both.items():
                mine = one.values[name][at : at + length]
                assert mine.tolist() == values[start : start + lengths[number]].tolist()
            at += length
        assert one.truncated.tolist() == (lengths[one.numbers] > 6).tolist()
    assert (np.diff(cut.sort_by_length().lengths) <= 0).all()
