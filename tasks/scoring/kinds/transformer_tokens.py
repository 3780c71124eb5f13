"""Texts as arrays of token ids, alone and in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# What a model is given of each token, and the name of it in the library `tokenizers`.
_FIELDS = {"input_ids": "ids", "token_type_ids": "type_ids"}
# One array per name in `_FIELDS` that the model reads, each with one number per token.
Tokens = dict[str, np.ndarray]


class Tokenizer:
    """A tokenizer of transformers without its detour through lists in Python.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        The tokenizer, with a padding token. Its settings are changed.
    max_tokens : int
        Longer texts are truncated.
    """

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        self._tokenizer, self._max_tokens = tokenizer, max_tokens
        names = set(tokenizer.model_input_names)
        fillers = {
            "input_ids": tokenizer.pad_token_id,
            "token_type_ids": tokenizer.pad_token_type_id,
        }
        self._fillers = {name: fillers[name] for name in _FIELDS if name in names}
        self._mask = "attention_mask" in names
        self._left = tokenizer.padding_side == "left"
        self._fast = tokenizer.backend_tokenizer if tokenizer.is_fast else None
        if self._fast is not None:
            self._fast.enable_truncation(max_tokens, direction=tokenizer.truncation_side)
            self._fast.no_padding()

    def tokens(self, texts: list[str]) -> list[Tokens]:
        """Return the tokens of each text."""
        if self._fast is None:
            made = self._tokenizer(texts, truncation=True, max_length=self._max_tokens)
            rows = range(len(texts))
            return [{name: np.array(made[name][at]) for name in self._fillers} for at in rows]
        return [
            {name: np.array(getattr(one, _FIELDS[name])) for name in self._fillers}
            for one in self._fast.encode_batch_fast(texts)
        ]

    def padded(self, rows: Sequence[Tokens], real: np.ndarray) -> dict[str, np.ndarray]:
        """Return what the model reads of a batch; `real` as from `which_are_real`."""
        given = {name: np.full(real.shape, filler) for name, filler in self._fillers.items()}
        for name, values in given.items():
            values[real] = np.concatenate([row[name] for row in rows])
        return given | ({"attention_mask": real.astype(np.int64)} if self._mask else {})

    def which_are_real(self, rows: Sequence[Tokens], n_padded: int) -> np.ndarray:
        """Return which tokens of a padded batch are not padding, shape (rows, n_padded)."""
        lengths, at = np.array([n_tokens(row) for row in rows])[:, None], np.arange(n_padded)
        return at >= n_padded - lengths if self._left else at < lengths


def n_tokens(row: Tokens) -> int:
    """Return the number of tokens of a text."""
    return row["input_ids"].size
