"""Linear layers in 8-bit integers on a CPU; needs torch.

Each output of a layer has a scale of its own for its weights, and each token one for its values.
Sums of integers are exact, so the score of a comment does not depend on its batch. With one scale
for a whole batch, as in torch's own dynamic quantisation, it would.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

_LARGEST = 127.0
_SMALLEST_SCALE = 1e-12


def quantise_layers(model: Any) -> None:
    """Let the linear layers of a classifier compute in integers, but for the last one.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        In single precision, on a CPU. It is changed.
    """
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer.out_features != model.config.num_labels:
            weight = layer.weight.detach()
            scale = weight.abs().amax(1).clamp_min(_SMALLEST_SCALE) / _LARGEST
            whole = (weight / scale[:, None]).round().to(torch.int8).t().contiguous()
            layer.forward = partial(_multiplied, weight=whole, scale=scale, bias=layer.bias)


def _multiplied(given: Any, *, weight: Any, scale: Any, bias: Any) -> Any:
    rows = given.reshape(-1, given.shape[-1])
    own = rows.abs().amax(1, keepdim=True).clamp_min_(_SMALLEST_SCALE).div_(_LARGEST)
    whole = (rows / own).round_().to(torch.int8)
    found = torch._int_mm(whole, weight).float().mul_(scale).mul_(own)  # noqa: SLF001 - the only product of 8-bit integers that torch has
    if bias is not None:
        found.add_(bias)
    return found.view(*given.shape[:-1], -1)
