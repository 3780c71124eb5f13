"""Encoders of BERT's family without waste; needs torch.

Their classifiers read the first token of a text alone. So the last layer computes that token
alone, after its attention. On a GPU that has the kernel for it, the texts of a batch stand one after
another in a single row: there is no padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # torch before 2.10
    varlen_attn = None

_FAMILY = (
    transformers.BertModel,
    transformers.CamembertModel,
    transformers.ElectraModel,
    transformers.RobertaModel,
    transformers.XLMRobertaModel,
)
_NAME = "biasgate_packed"
# Rows have a multiple of this many tokens: kernels are chosen for each shape.
_STEP = 1024
_AMPERE = (8, 0)


class Packing:
    """What the layers of an encoder need to know about the texts of the current batch.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A sequence classifier of BERT's family.
    """

    def __init__(self, model: Any) -> None:
        self._device = model.device
        self._places: Any = None
        self._starts: Any = None
        self._longest = 0
        encoder = model.base_model.encoder
        encoder.register_forward_pre_hook(self._pack, with_kwargs=True)
        encoder.layer[-1].attention.output.register_forward_pre_hook(self._first_tokens)
        self.packs = _has_kernel(model)
        if self.packs:
            transformers.AttentionInterface.register(_NAME, _attention)
            AttentionMaskInterface.register(_NAME, sdpa_mask)
            model.set_attn_implementation(_NAME)

    def begin(self, real: np.ndarray) -> None:
        """Prepare for a batch; `real` says which tokens are not padding, (rows, n_padded)."""
        lengths = real.sum(axis=1)
        starts = np.zeros(lengths.size + 1, dtype=np.int32)
        np.cumsum(lengths, out=starts[1:])
        places = np.zeros(-(-starts[-1] // _STEP) * _STEP, dtype=np.int64)
        places[: starts[-1]] = np.flatnonzero(real)
        self._places, self._starts = sent(places, self._device), sent(starts, self._device)
        self._longest = int(lengths.max())

    def _pack(self, _: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not self.packs:
            return None
        hidden = given[0]
        packed = hidden.reshape(-1, hidden.shape[-1]).index_select(0, self._places)[None]
        lengths = {"cu_seq_lens_q": self._starts, "max_length_q": self._longest}
        return (packed, *given[1:]), named | lengths

    def _first_tokens(self, _: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.packs:
            return tuple(one[0].index_select(0, self._starts[:-1])[:, None] for one in given)
        return tuple(one[:, :1] for one in given)


def packing_for(model: Any) -> Packing | None:
    """Return the packing of a model; None if it is not of BERT's family."""
    known = type(model.base_model) in _FAMILY and not model.config.is_decoder
    return Packing(model) if known else None


def sent(values: np.ndarray, device: Any) -> Any:
    """Return an array on a device; a GPU copies it while it computes what came before."""
    found = torch.from_numpy(values)
    return found.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else found


def _has_kernel(model: Any) -> bool:
    return (
        varlen_attn is not None
        and model.device.type == "cuda"
        and model.dtype in {torch.bfloat16, torch.float16}
        and torch.cuda.get_device_capability(model.device) >= _AMPERE
    )


def _attention(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    """Compute attention, as transformers wants it; among the tokens of a text if packed."""
    starts, longest = options.get("cu_seq_lens_q"), options.get("max_length_q")
    if starts is None:
        return sdpa_attention_forward(module, query, key, value, mask, **options)
    given = [one[0].transpose(0, 1) for one in (query, key, value)]
    found = varlen_attn(*given, starts, starts, longest, longest, scale=options["scaling"])
    return found[None], None
