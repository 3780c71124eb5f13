"""Which output of a sequence classifier is the toxicity, and how it becomes a score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from biasgate.tasks.common.errors import InputError

Activation = Literal["none", "sigmoid", "softmax"]
_DEFAULT = {"0": "LABEL_0", "1": "LABEL_1"}


@dataclass(frozen=True)
class Head:
    """The toxic output."""

    column: int
    """Its index among the logits."""
    activation: Activation
    """Turns it into a score."""

    def scores(self, logits: np.ndarray) -> np.ndarray:
        """Return one score per row of logits, shape (n,), in double precision.

        In single precision, large logits would all give the same score.
        """
        values = logits.astype(np.float64)
        from scipy.special import expit, softmax  # noqa: PLC0415 - takes a second

        if self.activation == "softmax":
            return np.asarray(softmax(values, axis=1)[:, self.column])
        chosen = values[:, self.column]
        return np.asarray(expit(chosen)) if self.activation == "sigmoid" else chosen


def choose_head(
    config: Mapping[str, Any], of: str, toxic_label: str | None, activation: Activation | None
) -> Head:
    """Find the toxic output in a model's `config.json`.

    Parameters
    ----------
    config : mapping
        With `id2label` and `problem_type`; if missing, transformers' defaults are used.
    toxic_label : str or None
        The label that means toxic. Needed unless it is evident: with several labels, except two
        with default names.
    activation : {"none", "sigmoid", "softmax"} or None
        Default: as transformers' own pipeline does, sigmoid for a single logit and for
        `multi_label_classification`, nothing for `regression`, else softmax.

    Raises
    ------
    InputError
        If the label is missing or unknown.
    """
    named = config.get("id2label") or _DEFAULT
    labels = [str(named[key]) for key in sorted(named, key=int)]
    kind = config.get("problem_type")
    if activation is None:
        activation = "softmax"
        if kind == "regression":
            activation = "none"
        elif len(labels) == 1 or kind == "multi_label_classification":
            activation = "sigmoid"
    if toxic_label is None:
        nobody_named_them = labels == list(_DEFAULT.values()) and activation == "softmax"
        if len(labels) > 1 and not nobody_named_them:
            msg = f"{of} has several labels: set `toxic_label` to one of {_told(labels)}."
            raise InputError(msg)
        return Head(len(labels) - 1, activation)
    if labels.count(toxic_label) != 1:
        msg = f"`toxic_label` of {of} must be one of {_told(labels)}; got {toxic_label!r}."
        raise InputError(msg)
    return Head(labels.index(toxic_label), activation)


def _told(labels: list[str]) -> str:
    return ", ".join(repr(label) for label in labels)
