"""Candidate kind `mlflow`: a registered model version.

biasgate itself reads scikit-learn models that are saved as skops. All other formats may run code
when they are loaded. MLflow loads them through pyfunc if the evaluation file has `trusted: true`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import AfterValidator, JsonValue

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.mlflow_server.model_folders import load_pyfunc, model_signature
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.model_answers import extract_scores
from biasgate.tasks.scoring.kinds.safe_models import (
    SkopsModel,
    UnsafeModelError,
    find_skops_model,
)
from biasgate.tasks.scoring.scorer import Scorer, open_version
from biasgate.tasks.store import Workplace

_NOT_BOUND = "The code that the model runs may read more than the model's files."


def _check_uri(uri: str) -> str:
    if not re.fullmatch(r"models:/[^/@]+(/\d+|@[^/@]+)", uri):
        msg = "must be a registered model, `models:/NAME/VERSION` or `models:/NAME@ALIAS`"
        raise ValueError(msg)
    return uri


ModelUri = Annotated[str, AfterValidator(_check_uri)]


class MlflowModel(CandidateSettings):
    """A registered model, of any flavour that pyfunc can load."""

    opened_with = frozenset({"output", "label"})

    kind: Literal["mlflow"]
    model: ModelUri
    """`models:/name/version` or `models:/name@alias`."""
    output: str | None = None
    """The column of the score, if the model returns a table."""
    label: str | None = None
    """The toxic label of the two, if the model returns the winning label and its score."""
    trusted: bool = False
    """Accept a format that executes code when it is loaded: all formats except scikit-learn saved
    as skops. Only this file can set it, never the registry."""

    def registered(self, workplace: Workplace) -> ModelVersion:
        """Return the version that the URI names now."""
        return workplace.gateway.resolve(self.model)

    def opened_as(self) -> dict[str, JsonValue]:
        """Return the options that open the version again; `trusted` is never among them."""
        return self.model_dump(include={"kind", *self.opened_with}, exclude_none=True)

    def open(self, workplace: Workplace) -> Scorer:
        """Copy the version's files and check its metadata."""
        return open_version(self.registered(workplace), workplace, partial(RegisteredScorer, self))


class RegisteredScorer(Scorer):
    """A registered model, read from skops or loaded by pyfunc."""

    def __init__(self, settings: MlflowModel, folder: Path) -> None:
        self._settings = settings
        self._folder = self.files = folder
        self._skops_model: SkopsModel | None = None
        try:
            self._skops_model = find_skops_model(folder, settings.model)
        except UnsafeModelError:
            if not settings.trusted:
                raise
        if settings.label is not None:
            _check_label(folder, settings.model, settings.label)
        self._make_input = _choose_input(folder, settings.model)
        self.reads_whole = self._skops_model is not None  # scikit-learn does not truncate
        options = [settings.output] if settings.label is None else [settings.output, settings.label]
        kind = ["mlflow", "whole"] if self.reads_whole else ["mlflow"]
        self.digest = json_digest([*kind, self.files_digest, *options])
        self.not_bound = None if self._skops_model else _NOT_BOUND

    def try_out(self) -> None:
        """Load the model."""
        _ = self._model

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the probability of the positive class."""
        settings = self._settings
        inputs = self._make_input(rows.column("text").to_numpy(zero_copy_only=False))
        name = f"model {settings.model} of candidate {settings.name!r}"
        answer = self._model(inputs)
        return extract_scores(answer, name, output=settings.output, label=settings.label)

    @cached_property
    def _model(self) -> Any:
        if self._skops_model is None:
            return load_pyfunc(self._folder).predict
        return getattr(self._skops_model.load(), self._skops_model.predict)


def _check_label(folder: Path, model: str, label: str) -> None:
    """Refuse a label that is not one of the two labels of a text classification pipeline."""
    labels: set[str] = set()
    for config in folder.rglob("config.json"):
        labels |= set(json.loads(config.read_text("utf-8")).get("id2label", {}).values())
    if len(labels) != 2 or label not in labels:
        msg = (
            f"`label` of model {model} must be one of the two labels of a text classification "
            f"pipeline; got {label!r} (known: {', '.join(sorted(labels)) or 'none'})."
        )
        raise InputError(msg)


def _choose_input(folder: Path, uri: str) -> Callable[[np.ndarray], Any]:
    """Return a function from texts to the model's input: the same array, or a table."""
    signature = model_signature(folder)
    if signature is None or signature.inputs is None:
        msg = (
            f"model {uri} must have a signature. Log it again with a signature (`infer_signature`)."
        )
        raise InputError(msg)
    types = [str(kind) for kind in signature.inputs.input_types()]
    if len(types) != 1 or not any(text in types[0] for text in ("string", "object", "str")):
        names = signature.inputs.input_names()
        shown = ", ".join(f"{n} ({t})" for n, t in zip(names, types, strict=False)) or str(types)
        msg = f"model {uri} must take one column of text; its signature has {shown}."
        raise InputError(msg)
    has_names = signature.inputs.has_input_names()
    if signature.inputs.is_tensor_spec() and not has_names:
        return lambda texts: texts
    column = str(signature.inputs.input_names()[0]) if has_names else 0
    return lambda texts: pd.DataFrame({column: texts})
