"""Steps of an encoder of BERT's family that a GPU takes at once; needs torch.

After each product of matrices come steps that only move numbers: adding what went into the layer,
the normalisation, the activation. As kernels of their own they take three tenths of the time.
"""
# ruff: noqa: ANN001, ANN202 - triton reads the annotations of its kernels

from __future__ import annotations

from functools import partial
from typing import Any

import torch

try:
    import triton
    from triton import language as tl
except ImportError:  # as on machines without a GPU
    triton = None


def fuse_layers(model: Any) -> None:
    """Let a GPU take several steps of each layer at once, if it can.

    In bfloat16 the activation is computed with the product before it. cuBLAS has its approximation
    by tanh alone, which moves scores by a fifteenth of what rounding to bfloat16 does
    (docs/evidence/transformers.md).

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Of BERT's family, in evaluation mode, on its device.
    """
    layers = model.base_model.encoder.layer
    if _adds_and_normalises(layers[0].output):
        for layer in layers:
            for step in (layer.attention.output, layer.output):
                step.forward = partial(_dense_added_normalised, step)
    known = hasattr(torch, "_addmm_activation") and model.config.hidden_act == "gelu"
    if known and model.dtype == torch.bfloat16:
        for layer in layers:
            layer.intermediate.forward = partial(_dense_activated, layer.intermediate.dense)


def _dense_added_normalised(step: Any, hidden: Any, given: Any) -> Any:
    return add_and_normalise(step.dense(hidden), given, step.LayerNorm)


def _dense_activated(dense: Any, hidden: Any) -> Any:
    flat = hidden.view(-1, hidden.shape[-1])
    found = torch._addmm_activation(dense.bias, flat, dense.weight.t(), use_gelu=True)  # noqa: SLF001
    return found.view(*hidden.shape[:-1], -1)


def add_and_normalise(one: Any, other: Any, norm: Any) -> Any:
    """Return the layer normalisation of a sum, of contiguous tensors, in one kernel."""
    found, size = torch.empty_like(one), one.shape[-1]
    block = triton.next_power_of_2(size)
    _kernel[(one.numel() // size,)](
        one, other, norm.weight, norm.bias, found, norm.eps, size, block, num_warps=2
    )
    return found


def _adds_and_normalises(step: Any) -> bool:
    """Whether this machine has what the kernel is compiled with, and its results are right."""
    if triton is None:
        return False
    weight = step.LayerNorm.weight
    values = torch.linspace(-9, 9, 2 * 3 * len(weight), device=weight.device).sin()
    one, other = values.to(weight.dtype).view(2, 3, -1)
    try:
        found = add_and_normalise(one, other, step.LayerNorm)
    except Exception:  # noqa: BLE001 - triton raises errors of many kinds, as where there is no C compiler
        return False
    return bool(torch.allclose(found, step.LayerNorm(one + other), atol=0.05))


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _kernel(  # type: ignore[no-untyped-def]
        one, other, weight, bias, found, eps, size: tl.constexpr, block: tl.constexpr
    ):
        row = tl.program_id(0).to(tl.int64) * size
        at = tl.arange(0, block)
        real = at < size
        values = tl.load(one + row + at, real, 0.0).to(tl.float32)
        values += tl.load(other + row + at, real, 0.0).to(tl.float32)
        centred = tl.where(real, values - tl.sum(values, 0) / size, 0.0)
        scaled = centred * tl.rsqrt(tl.sum(centred * centred, 0) / size + eps)
        scaled *= tl.load(weight + at, real, 0.0).to(tl.float32)
        scaled += tl.load(bias + at, real, 0.0).to(tl.float32)
        tl.store(found + row + at, scaled.to(found.dtype.element_ty), real)
