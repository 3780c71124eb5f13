"""How a transformer is fine-tuned here: the options, checked before torch is there."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from biasgate.tasks.common.settings import Settings

Fraction = Annotated[float, Field(gt=0, lt=1)]


class FineTuning(Settings):
    """Options of a fine-tuning; the defaults are usual ones for encoders of BERT's kind.

    Attributes
    ----------
    max_epochs : int
        Most passes over the training rows.
    max_steps : int, optional
        Most batches in all.
    batch_size : int
        Comments in a batch.
    learning_rate : float
        Highest one: it rises over the first steps and falls to zero at the last, linearly.
    warmup_fraction : float
        Share of the steps over which it rises.
    weight_decay : float
        Of AdamW; of matrices only.
    max_gradient_norm : float
        Longer gradients are scaled down to it.
    class_weight : {"balanced"} or None
        Weight classes by their inverse frequency.
    validation_fraction : float
        Share of the training rows held out for early stopping, chosen by a hash of the text,
        so that repeated comments fall on one side.
    patience : int
        Epochs without a better AUC on the held-out rows after which training stops. The best
        epoch's weights are kept.
    mixed_precision : bool
        Compute in bfloat16 where the hardware does; weights stay in single precision.
    seed : int
        Of the new layer, the order of the rows and dropout.
    """

    max_epochs: Annotated[int, Field(ge=1)] = 3
    max_steps: Annotated[int, Field(ge=1)] | None = None
    batch_size: Annotated[int, Field(ge=1)] = 32
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    max_gradient_norm: Annotated[float, Field(gt=0)] = 1.0
    class_weight: Literal["balanced"] | None = None
    validation_fraction: Fraction = 0.1
    patience: Annotated[int, Field(ge=1)] = 2
    mixed_precision: bool = True
    seed: Annotated[int, Field(ge=0)] = 0
