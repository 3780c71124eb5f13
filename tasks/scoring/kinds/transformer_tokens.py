"""Batches of token ids, and encoders of BERT's family without wasted computation; needs torch.

Their classifiers read only the first token of a text. So the last layer computes only that token,
after its attention. On a GPU, the texts of a batch are concatenated in a single row without
padding, and each text attends only to itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """Positions of the texts among all texts of a call."""
    lengths: np.ndarray
    """Numbers of tokens of the texts."""
    truncated: np.ndarray
    """True for texts with further tokens."""
    values: dict[str, np.ndarray]
    """The model's inputs for all tokens, text after text."""

    def select(self, first: int, end: int) -> Tokens:
        """Return the texts from `first` to before `end`."""
        texts = slice(first, end)
        tokens = slice(self.lengths[:first].sum(), self.lengths[:end].sum())
        values = {name: value[tokens] for name, value in self.values.items()}
        return Tokens(self.numbers[texts], self.lengths[texts], self.truncated[texts], values)

    def sort_by_length(self) -> Tokens:
        """Return the texts sorted by length, the longest first."""
        order = np.argsort(-self.lengths, kind="stable")
        lengths = self.lengths[order]
        new_starts = np.cumsum(lengths) - lengths
        shifts = (np.cumsum(self.lengths) - self.lengths)[order] - new_starts
        tokens = np.repeat(shifts, lengths) + np.arange(lengths.sum())
        values = {name: value[tokens] for name, value in self.values.items()}
        return Tokens(self.numbers[order], lengths, self.truncated[order], values)

    @classmethod
    def join(cls, parts: Sequence[Tokens]) -> Self:
        """Return the texts of all parts."""
        numbers, lengths, truncated = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("numbers", "lengths", "truncated")
        )
        names = parts[0].values
        values = {name: np.concatenate([part.values[name] for part in parts]) for name in names}
        return cls(numbers, lengths, truncated, values)


class Tokenizer:
    """A tokenizer of transformers with flat arrays as output.

    `tokenizer`: has a padding token; its settings are changed. `max_tokens`: longer texts are
    truncated.
    """

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        self._tokenizer, self._max_tokens = tokenizer, max_tokens
        fillers = {
            "input_ids": tokenizer.pad_token_id,
            "token_type_ids": tokenizer.pad_token_type_id,
        }
        inputs = tokenizer.model_input_names
        self._fillers = {name: filler for name, filler in fillers.items() if name in inputs}
        self._has_mask = "attention_mask" in inputs
        self._pads_left = tokenizer.padding_side == "left"
        self._fast = tokenizer.backend_tokenizer if tokenizer.is_fast else None
        if self._fast is not None:
            self._fast.enable_truncation(max_tokens, direction=tokenizer.truncation_side)
            self._fast.no_padding()
        # Most tokenizers give type 0 to every token of a single text: these types are not read.
        self._has_types = self._fast is None or any(self._fast.encode("a").type_ids)

    @property
    def state(self) -> str | None:
        """Digest of everything that decides the tokens of a text; None if it is unknown."""
        if self._fast is None:
            return None
        digest = sha256(self._fast.to_str().encode()).hexdigest()
        return json_digest([digest, version("tokenizers"), sorted(self._fillers), self._has_types])

    def tokenize(self, texts: Sequence[str], numbers: Sequence[int]) -> Tokens:
        """Return the tokens of the texts with the given numbers."""
        selected = [texts[number] for number in numbers]
        if self._fast is None:
            lists = self._tokenizer(selected, truncation=True, max_length=self._max_tokens)
        else:
            encodings = self._fast.encode_batch_fast(selected)
            lists = {"input_ids": [encoding.ids for encoding in encodings]}
            if self._has_types:
                lists["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        lengths = np.fromiter(map(len, lists["input_ids"]), np.int64, len(selected))
        truncated = lengths >= self._max_tokens
        for number in np.flatnonzero(truncated):  # a text may also be just as long as allowed
            if self._fast is None:
                whole = self._tokenizer(selected[number], truncation=False, verbose=False)
                truncated[number] = len(whole["input_ids"]) > self._max_tokens
            else:
                truncated[number] = bool(encodings[number].overflowing)
        n_tokens = int(lengths.sum())
        values = dict.fromkeys(self._fillers, np.zeros(n_tokens, np.int64))
        for name in values.keys() & lists.keys():
            values[name] = np.fromiter(chain.from_iterable(lists[name]), np.int64, n_tokens)
        return Tokens(np.array(numbers), lengths, truncated, values)

    def pad_batch(self, batch: Tokens, n_padded: int) -> dict[str, np.ndarray]:
        """Return the model's inputs for a batch, arrays of shape (texts, n_padded)."""
        columns, lengths = np.arange(n_padded), batch.lengths[:, None]
        is_token = columns >= n_padded - lengths if self._pads_left else columns < lengths
        inputs = {name: np.full(is_token.shape, filler) for name, filler in self._fillers.items()}
        for name, values in inputs.items():
            values[is_token] = batch.values[name]
        return inputs | ({"attention_mask": is_token.astype(np.int64)} if self._has_mask else {})


_FAMILY = (
    transformers.BertModel,
    transformers.CamembertModel,
    transformers.ElectraModel,
    transformers.RobertaModel,
    transformers.XLMRobertaModel,
)
_NAME = "biasgate_packed"
# Packed rows have a multiple of this many tokens, since kernels are chosen for each shape.
_STEP = 1024


class Packing:
    """A change to an encoder that avoids unnecessary computation.

    `model`: a sequence classifier of BERT's family. `is_active`: True if batches are packed,
    otherwise they are padded.
    """

    def __init__(self, model: Any) -> None:
        self._starts: Any = None
        embeddings = model.base_model.embeddings.position_embeddings
        # RoBERTa and related models count positions from after that of padding.
        self._first = 0 if embeddings.padding_idx is None else embeddings.padding_idx + 1
        self._device = model.device
        self.is_active = _has_kernel(model)
        if self.is_active:
            transformers.AttentionInterface.register(_NAME, _compute_attention)
            AttentionMaskInterface.register(_NAME, sdpa_mask)
            model.set_attn_implementation(_NAME)
        model.base_model.encoder.layer[-1].attention.output.register_forward_pre_hook(
            self._select_first
        )

    def pack_batch(self, batch: Tokens) -> dict[str, torch.Tensor | int]:
        """Return the model's inputs for a batch in a single row."""
        lengths = batch.lengths
        ends = np.cumsum(lengths)
        padding = np.zeros(-(-ends[-1] // _STEP) * _STEP - ends[-1], dtype=np.int64)
        positions = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths) + self._first
        values = batch.values | {"position_ids": positions}
        rows = [np.concatenate([value, padding]) for value in values.values()]
        *tensors, starts = send_arrays([*rows, np.concatenate([[0], ends])], self._device)
        self._starts = starts.int()
        inputs = {name: tensor[None] for name, tensor in zip(values, tensors, strict=True)}
        return inputs | {"cu_seq_lens_q": self._starts, "max_length_q": int(lengths.max())}

    def _select_first(self, _: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.is_active:
            return tuple(rows[0].index_select(0, self._starts[:-1])[:, None] for rows in inputs)
        return tuple(rows[:, :1] for rows in inputs)


def make_packing(model: Any) -> Packing | None:
    """Return the packing of a model; None if it is not of BERT's family."""
    is_supported = type(model.base_model) in _FAMILY and not model.config.is_decoder
    return Packing(model) if is_supported else None


def send_arrays(arrays: list[np.ndarray], device: Any) -> list[Any]:
    """Return int64 arrays on a device; a GPU gets them in a single copy while it computes."""
    joined = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
    if device.type == "cuda":
        joined = joined.pin_memory().to(device, non_blocking=True)
    parts = joined.split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def _compute_attention(
    module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any
) -> Any:
    """Compute attention for transformers; in packed rows, each text attends only to itself."""
    starts = options.get("cu_seq_lens_q")
    if starts is None:
        return sdpa_attention_forward(module, query, key, value, mask, **options)
    query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    longest, scale = options["max_length_q"], options["scaling"]
    return attend(query, key, value, starts, longest, scale), None


def attend(query: Any, key: Any, value: Any, starts: Any, longest: int, scale: float) -> Any:
    """Compute attention within each text, for tensors of shape (1, tokens, heads, size).

    This is torch's kernel for jagged tensors. It is as fast as the public `varlen_attn`, but also
    has single precision.
    """
    attended, *_ = torch.ops.aten._efficient_attention_forward(  # noqa: SLF001
        query, key, value, None, starts, starts, longest, longest, 0.0, 0, scale=scale
    )
    return attended


def _has_kernel(model: Any) -> bool:
    """Return True if this torch and GPU have the kernel with the expected interface."""
    if model.device.type != "cuda":
        return False
    n_heads, n_tokens = model.config.num_attention_heads, 5
    shape = (3, 1, n_tokens, n_heads, model.config.hidden_size // n_heads)
    values = torch.linspace(-9, 9, math.prod(shape), device=model.device).sin()
    query, key, value = values.to(model.dtype).view(shape)
    starts = torch.tensor([0, 2, n_tokens], dtype=torch.int32, device=model.device)
    try:
        attended = attend(query, key, value, starts, 3, 0.5)
    except (AttributeError, RuntimeError, TypeError):
        return False
    for start, end in ((0, 2), (2, n_tokens)):
        text = (tensor[:, start:end].transpose(1, 2) for tensor in (query, key, value))
        expected = torch.nn.functional.scaled_dot_product_attention(*text, scale=0.5)
        if not torch.allclose(attended[:, start:end].transpose(1, 2), expected, atol=0.05):
            return False
    return True
