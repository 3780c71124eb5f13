"""Candidate kind `mlflow`: a registered model version, scored through pyfunc."""

from __future__ import annotations

import json
import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import AfterValidator

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import folder_digest, json_digest
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.mlflow_server.model_folders import (
    load_pyfunc,
    model_description,
    model_signature,
)
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.scoring.candidate import CandidateSettings, Scorer
from biasgate.tasks.scoring.kinds.model_answers import positive_scores
from biasgate.tasks.scoring.training_rows import refuse_training_rows
from biasgate.tasks.store import Workplace


def _refuse_other_uris(uri: str) -> str:
    if not re.fullmatch(r"models:/[^/@]+(/\d+|@[^/@]+)", uri):
        msg = "must be a registered model, `models:/NAME/VERSION` or `models:/NAME@ALIAS`"
        raise ValueError(msg)
    return uri


ModelUri = Annotated[str, AfterValidator(_refuse_other_uris)]


class MlflowModel(CandidateSettings):
    """A registered model, of any flavour that pyfunc can load.

    Attributes
    ----------
    model : str
        `models:/name/version` or `models:/name@alias`.
    output : str, optional
        The column of the score, if the model returns a table.
    label : str, optional
        The toxic one of two labels, if the model returns the winning label and its score.
    trusted : bool
        Accept a format that executes code when it is loaded.
    """

    kind: Literal["mlflow"]
    model: ModelUri
    output: str | None = None
    label: str | None = None
    trusted: bool = False

    def registered(self, workplace: Workplace) -> ModelVersion:
        """Return the version that the URI names now."""
        return workplace.gateway.resolve(self.model)

    def open(self, workplace: Workplace) -> PyfuncScorer:
        """Download the version and check its metadata."""
        folder = workplace.gateway.download(self.registered(workplace))
        refuse_untrusted(folder, self.model, trusted=self.trusted)
        if self.label is not None:
            require_label(folder, self.model, self.label)
        return PyfuncScorer(self, folder)


class PyfuncScorer(Scorer):
    """A pyfunc model."""

    def __init__(self, settings: MlflowModel, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._column = _input_column(folder, settings.model)
        chosen = [settings.output] if settings.label is None else [settings.output, settings.label]
        self.digest = json_digest(["mlflow", folder_digest(folder), *chosen])

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set without text, and rows that the model was trained on."""
        self._settings.require_text(evaluation_set)
        if not self._settings.allow_training_rows:
            name, model = self._settings.name, self._settings.model
            refuse_training_rows(self._folder, evaluation_set, name, model)

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the probability of the positive class."""
        texts = rows.column("text").to_numpy(zero_copy_only=False)
        given = texts if self._column is None else pd.DataFrame({self._column: texts})
        of = f"model {self._settings.model} of candidate {self._settings.name!r}"
        options = {"output": self._settings.output, "label": self._settings.label}
        return positive_scores(self._model.predict(given), of, **options)

    @cached_property
    def _model(self) -> Any:
        return load_pyfunc(self._folder)


def refuse_untrusted(folder: Path, model: str, *, trusted: bool) -> None:
    """Refuse a model whose loading may execute code, unless the configuration trusts it."""
    flavours = model_description(folder).get("flavors", {})
    sklearn = flavours.get("sklearn", {})
    safe = (
        set(flavours) == {"python_function", "sklearn"}
        and flavours["python_function"].get("loader_module") == "mlflow.sklearn"
        and not flavours["python_function"].get("code")
        and not sklearn.get("code")
        and sklearn.get("serialization_format") == "skops"
        and not sklearn.get("skops_trusted_types")
    )
    if not safe and not trusted:
        msg = (
            f"model {model} must be in a format that does not execute code on load (scikit-learn "
            f"as skops); it has {', '.join(flavours)}. If you trust its author, set "
            "`trusted: true`."
        )
        raise InputError(msg)


def require_label(folder: Path, model: str, label: str) -> None:
    """Refuse a label that is not one of the two that a text classification pipeline knows."""
    known: set[str] = set()
    for config in folder.rglob("config.json"):
        known |= set(json.loads(config.read_text("utf-8")).get("id2label", {}).values())
    if len(known) != 2 or label not in known:
        msg = (
            f"`label` of model {model} must be one of the two labels of a text classification "
            f"pipeline; got {label!r} (known: {', '.join(sorted(known)) or 'none'})."
        )
        raise InputError(msg)


def _input_column(folder: Path, uri: str) -> str | None:
    """Return the name of the text column, or None if the model takes an array."""
    signature = model_signature(folder)
    if signature is None or signature.inputs is None:
        msg = f"model {uri} must have a signature. Log it again with one (`infer_signature`)."
        raise InputError(msg)
    types = [str(kind) for kind in signature.inputs.input_types()]
    if len(types) != 1 or not any(text in types[0] for text in ("string", "object", "str")):
        names = signature.inputs.input_names()
        shown = ", ".join(f"{n} ({t})" for n, t in zip(names, types, strict=False)) or str(types)
        msg = f"model {uri} must take one column of text; its signature has {shown}."
        raise InputError(msg)
    return str(signature.inputs.input_names()[0]) if signature.inputs.has_input_names() else None
