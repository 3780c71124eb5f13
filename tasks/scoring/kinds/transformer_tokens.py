"""Texts as arrays of token ids, and batches of them; every step is one call for many texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from itertools import chain
from typing import Any, Self

import numpy as np

from biasgate.tasks.common.files import json_digest


@dataclass(frozen=True)
class Tokens:
    """The tokens of some texts."""

    numbers: np.ndarray
    """The position of each text among all that are scored."""
    lengths: np.ndarray
    """How many tokens each has."""
    values: dict[str, np.ndarray]
    """What the model reads of each token, text after text."""

    def part(self, first: int, last: int) -> Tokens:
        """Return the texts from the one at `first` to the one before `last`."""
        start, end = self.lengths[:first].sum(), self.lengths[:last].sum()
        values = {name: value[start:end] for name, value in self.values.items()}
        return Tokens(self.numbers[first:last], self.lengths[first:last], values)

    def longest_first(self) -> Tokens:
        """Return the texts sorted by length."""
        order = np.argsort(-self.lengths, kind="stable")
        lengths = self.lengths[order]
        ends = np.cumsum(lengths)
        moved = (np.cumsum(self.lengths) - self.lengths)[order] - (ends - lengths)
        at = np.repeat(moved, lengths) + np.arange(lengths.sum())
        values = {name: value[at] for name, value in self.values.items()}
        return Tokens(self.numbers[order], lengths, values)

    @classmethod
    def joined(cls, parts: Sequence[Tokens]) -> Self:
        """Return the texts of all parts."""
        numbers, lengths = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("numbers", "lengths")
        )
        names = parts[0].values
        values = {name: np.concatenate([part.values[name] for part in parts]) for name in names}
        return cls(numbers, lengths, values)


class Tokenizer:
    """A tokenizer of transformers, without its lists of lists.

    `tokenizer`: the tokenizer, with a padding token. Its settings are changed. `max_tokens`: longer
    texts are truncated.
    """

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        self._tokenizer, self._max_tokens = tokenizer, max_tokens
        known = {
            "input_ids": tokenizer.pad_token_id,
            "token_type_ids": tokenizer.pad_token_type_id,
        }
        read = tokenizer.model_input_names
        self._fillers = {name: filler for name, filler in known.items() if name in read}
        self._masked = "attention_mask" in read
        self._left = tokenizer.padding_side == "left"
        self._fast = tokenizer.backend_tokenizer if tokenizer.is_fast else None
        if self._fast is not None:
            self._fast.enable_truncation(max_tokens, direction=tokenizer.truncation_side)
            self._fast.no_padding()
        # Most give type 0 to every token of a text that stands alone: those are not read.
        self._typed = self._fast is None or any(self._fast.encode("a").type_ids)

    @property
    def state(self) -> str | None:
        """Digest of all that decides the tokens of a text; None if it cannot be known."""
        if self._fast is None:
            return None
        own = sha256(self._fast.to_str().encode()).hexdigest()
        return json_digest([own, version("tokenizers"), sorted(self._fillers), self._typed])

    def tokens(self, texts: Sequence[str], numbers: Sequence[int]) -> Tokens:
        """Return the tokens of the texts with these numbers."""
        wanted = [texts[number] for number in numbers]
        if self._fast is None:
            lists = self._tokenizer(wanted, truncation=True, max_length=self._max_tokens)
        else:
            found = self._fast.encode_batch_fast(wanted)
            lists = {"input_ids": [one.ids for one in found]}
            if self._typed:
                lists["token_type_ids"] = [one.type_ids for one in found]
        lengths = np.fromiter(map(len, lists["input_ids"]), np.int64, len(wanted))
        values = {name: _flat(lists.get(name), lengths.sum()) for name in self._fillers}
        return Tokens(np.array(numbers), lengths, values)

    def padded(self, batch: Tokens, n_padded: int) -> dict[str, np.ndarray]:
        """Return what the model reads of a batch, arrays of shape (texts, n_padded)."""
        at, lengths = np.arange(n_padded), batch.lengths[:, None]
        real = at >= n_padded - lengths if self._left else at < lengths
        given = {name: np.full(real.shape, filler) for name, filler in self._fillers.items()}
        for name, values in given.items():
            values[real] = batch.values[name]
        return given | ({"attention_mask": real.astype(np.int64)} if self._masked else {})


def _flat(lists: Iterable[Iterable[int]] | None, n_tokens: int) -> np.ndarray:
    if lists is None:
        return np.zeros(n_tokens, np.int64)
    return np.fromiter(chain.from_iterable(lists), np.int64, n_tokens)
