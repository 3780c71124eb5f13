"""Options of fine-tuning a transformer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from biasgate.tasks.common.settings import Settings


class FineTuning(Settings):
    """Options of fine-tuning; the defaults are usual for encoders such as BERT."""

    max_epochs: Annotated[int, Field(ge=1)] = 3
    """Most passes over the training rows."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Most batches in all."""
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Comments in a batch."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    """Peak rate: it rises linearly over the first steps, then falls linearly to zero."""
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the steps during which it rises."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay of AdamW, for matrices only."""
    max_gradient_norm: Annotated[float, Field(gt=0)] = 1.0
    """Larger gradients are scaled down to this norm."""
    class_weight: Literal["balanced"] | None = None
    """Whether to weight classes by their inverse frequency."""
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of the training rows held out for early stopping, chosen by a hash of the text, so that
    a repeated comment is always on one side."""
    patience: Annotated[int, Field(ge=1)] = 2
    """Training stops after this many epochs without a better AUC on the held-out rows. The weights
    of the best epoch are kept."""
    mixed_precision: bool = True
    """Compute in bfloat16 if the hardware supports it; weights stay in single precision."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the new layer, the order of the rows and dropout. On a CPU the same seed gives the
    same weights."""
