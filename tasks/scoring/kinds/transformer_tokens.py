"""Texts as token ids, in batches, through encoders of BERT's family without waste; needs torch.

Their classifiers read the first token of a text alone. So the last layer computes only that
token, after its attention. On a GPU, the texts of a batch stand one after another in a single row,
and each attends to itself alone: there is no padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from itertools import chain
from typing import Any, Self

import numpy as np
import torch
import transformers
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from biasgate.tasks.common.files import json_digest


@dataclass(frozen=True)
class Tokens:
    """The tokens of some texts."""

    numbers: np.ndarray
    """The position of each text among all that are scored."""
    lengths: np.ndarray
    """How many tokens each has."""
    truncated: np.ndarray
    """Which texts have more tokens than these."""
    values: dict[str, np.ndarray]
    """What the model reads of each token, text after text."""

    def part(self, first: int, last: int) -> Tokens:
        """Return the texts from the one at `first` to the one before `last`."""
        start, end = self.lengths[:first].sum(), self.lengths[:last].sum()
        values = {name: value[start:end] for name, value in self.values.items()}
        texts = slice(first, last)
        return Tokens(self.numbers[texts], self.lengths[texts], self.truncated[texts], values)

    def longest_first(self) -> Tokens:
        """Return the texts sorted by length."""
        order = np.argsort(-self.lengths, kind="stable")
        lengths = self.lengths[order]
        ends = np.cumsum(lengths)
        moved = (np.cumsum(self.lengths) - self.lengths)[order] - (ends - lengths)
        at = np.repeat(moved, lengths) + np.arange(lengths.sum())
        values = {name: value[at] for name, value in self.values.items()}
        return Tokens(self.numbers[order], lengths, self.truncated[order], values)

    @classmethod
    def joined(cls, parts: Sequence[Tokens]) -> Self:
        """Return the texts of all parts."""
        numbers, lengths, truncated = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("numbers", "lengths", "truncated")
        )
        names = parts[0].values
        values = {name: np.concatenate([part.values[name] for part in parts]) for name in names}
        return cls(numbers, lengths, truncated, values)


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
        truncated = lengths >= self._max_tokens
        for at in np.flatnonzero(truncated):  # or just as long as allowed
            truncated[at] = (
                self._n_tokens(wanted[at]) > self._max_tokens
                if self._fast is None
                else bool(found[at].overflowing)
            )
        values = {name: _flat(lists.get(name), int(lengths.sum())) for name in self._fillers}
        return Tokens(np.array(numbers), lengths, truncated, values)

    def _n_tokens(self, text: str) -> int:
        """Return how many tokens a whole text has."""
        return len(self._tokenizer(text, truncation=False, verbose=False)["input_ids"])

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


_FAMILY = (
    transformers.BertModel,
    transformers.CamembertModel,
    transformers.ElectraModel,
    transformers.RobertaModel,
    transformers.XLMRobertaModel,
)
_NAME = "biasgate_packed"
# Packed rows have a multiple of this many tokens: kernels are chosen for each shape.
_STEP = 1024


class Packing:
    """Changes an encoder so that it wastes nothing.

    `model`: a sequence classifier of BERT's family.

    `packs`: whether batches are packed; else they are padded.
    """

    def __init__(self, model: Any) -> None:
        self._starts: Any = None
        embeddings = model.base_model.embeddings.position_embeddings
        # RoBERTa and its kin count positions from behind that of padding.
        self._first = 0 if embeddings.padding_idx is None else embeddings.padding_idx + 1
        self._device = model.device
        self.packs = _works(model)
        if self.packs:
            transformers.AttentionInterface.register(_NAME, _attention)
            AttentionMaskInterface.register(_NAME, sdpa_mask)
            model.set_attn_implementation(_NAME)
        model.base_model.encoder.layer[-1].attention.output.register_forward_pre_hook(
            self._first_tokens
        )

    def packed(self, batch: Tokens) -> dict[str, torch.Tensor | int]:
        """Return what the model reads of a batch in one row."""
        lengths = batch.lengths
        ends = np.cumsum(lengths)
        filled = np.zeros(-(-ends[-1] // _STEP) * _STEP - ends[-1], dtype=np.int64)
        places = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths) + self._first
        values = batch.values | {"position_ids": places}
        starts = np.concatenate([[0], ends])
        *rows, self._starts = sent(
            [*(np.concatenate([value, filled]) for value in values.values()), starts], self._device
        )
        given = {name: row[None] for name, row in zip(values, rows, strict=True)}
        self._starts = self._starts.int()
        return given | {"cu_seq_lens_q": self._starts, "max_length_q": int(lengths.max())}

    def _first_tokens(self, _: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.packs:
            return tuple(one[0].index_select(0, self._starts[:-1])[:, None] for one in given)
        return tuple(one[:, :1] for one in given)


def packing_for(model: Any) -> Packing | None:
    """Return the packing of a model; None if it is not of BERT's family."""
    known = type(model.base_model) in _FAMILY and not model.config.is_decoder
    return Packing(model) if known else None


def sent(arrays: list[np.ndarray], device: Any) -> list[Any]:
    """Return arrays of int64 on a device; a GPU gets them in one copy, while it computes."""
    joined = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
    if device.type == "cuda":
        joined = joined.pin_memory().to(device, non_blocking=True)
    parts = joined.split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def _attention(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    """Compute attention for transformers; if packed, of each text to itself."""
    starts = options.get("cu_seq_lens_q")
    if starts is None:
        return sdpa_attention_forward(module, query, key, value, mask, **options)
    query, key, value = (one.transpose(1, 2) for one in (query, key, value))
    longest, scale = options["max_length_q"], options["scaling"]
    return attend(query, key, value, starts, longest, scale), None


def attend(query: Any, key: Any, value: Any, starts: Any, longest: int, scale: float) -> Any:
    """Compute attention among the tokens of each text, all of shape (1, tokens, heads, size).

    This is the kernel with which torch computes jagged tensors; unlike the public
    `varlen_attn`, it has single precision, and is as fast.
    """
    found, *_ = torch.ops.aten._efficient_attention_forward(  # noqa: SLF001
        query, key, value, None, starts, starts, longest, longest, 0.0, 0, scale=scale
    )
    return found


def _works(model: Any) -> bool:
    """Whether this torch and GPU have the kernel, with the arguments and results known here."""
    if model.device.type != "cuda":
        return False
    n_heads, n_tokens = model.config.num_attention_heads, 5
    shape = (3, 1, n_tokens, n_heads, model.config.hidden_size // n_heads)
    values = torch.linspace(-9, 9, math.prod(shape), device=model.device).sin()
    query, key, value = values.to(model.dtype).view(shape)
    starts = torch.tensor([0, 2, n_tokens], dtype=torch.int32, device=model.device)
    try:
        found = attend(query, key, value, starts, 3, 0.5)
    except (AttributeError, RuntimeError, TypeError):
        return False
    for start, end in ((0, 2), (2, n_tokens)):
        alone = (one[:, start:end].transpose(1, 2) for one in (query, key, value))
        expected = torch.nn.functional.scaled_dot_product_attention(*alone, scale=0.5)
        if not torch.allclose(found[:, start:end].transpose(1, 2), expected, atol=0.05):
            return False
    return True
