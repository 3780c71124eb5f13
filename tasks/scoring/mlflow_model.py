"""Candidate kind `mlflow`: a registered model version, scored through pyfunc."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import StringConstraints

from tasks.data.evaluation_set import EvaluationSet
from tasks.errors import InputError
from tasks.files import folder_digest, json_digest
from tasks.mlflow_gateway import ModelVersion
from tasks.mlflow_models import load_pyfunc, model_description
from tasks.scoring.candidate import CandidateSettings, Scorer, Workplace
from tasks.scoring.training_rows import refuse_training_rows

ModelUri = Annotated[str, StringConstraints(pattern=r"^models:/[^/@]+(/\d+|@[^/@]+)$")]


class MlflowModel(CandidateSettings):
    """A model of the registry, of any flavour that pyfunc loads.

    Attributes
    ----------
    model : str
        `models:/name/version` or `models:/name@alias`.
    output : str, optional
        The column of the score where the model returns a table.
    trusted : bool
        Accept a format that executes code on load.
    """

    kind: Literal["mlflow"]
    model: ModelUri
    output: str | None = None
    trusted: bool = False

    def version(self, workplace: Workplace) -> ModelVersion:
        """Return the version that the URI names now."""
        return workplace.gateway.resolve(self.model)

    def open(self, workplace: Workplace) -> PyfuncScorer:
        """Download and load the version."""
        folder = workplace.gateway.download(self.version(workplace))
        refuse_untrusted(folder, self.model, trusted=self.trusted)
        return PyfuncScorer(self, folder)


class PyfuncScorer(Scorer):
    """A loaded pyfunc model."""

    columns = ("id", "text")

    def __init__(self, settings: MlflowModel, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._model = load_pyfunc(folder)
        self._column = _input_column(self._model, settings.model)
        self.digest = json_digest(["mlflow", folder_digest(folder), settings.output])

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set without text, and rows that the model was trained on."""
        self._settings.require_text(evaluation_set)
        if not self._settings.allow_training_rows:
            refuse_training_rows(self._folder, evaluation_set, self._settings.name)

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the probability of the positive class."""
        texts = rows.column("text").to_numpy(zero_copy_only=False)
        given = texts if self._column is None else pd.DataFrame({self._column: texts})
        return positive_scores(self._model.predict(given), self._settings)


def positive_scores(predicted: Any, settings: MlflowModel) -> np.ndarray:
    """Return the score of the positive class out of whatever a pyfunc model returns.

    One number per row is the score; two columns are probabilities of (negative, positive);
    a table needs the name of its column in `output`.
    """
    if isinstance(predicted, pd.DataFrame) and settings.output is not None:
        if settings.output not in predicted.columns:
            msg = (
                f"`output` of candidate {settings.name!r} must name a column of the model's "
                f"output; got {settings.output!r} (known: {', '.join(map(str, predicted))})."
            )
            raise InputError(msg)
        predicted = predicted[settings.output]
    values = np.asarray(predicted)
    if values.ndim == 2 and values.shape[1] in {1, 2}:
        values = values[:, -1]
    if values.ndim != 1 or values.dtype.kind not in "fiub":
        msg = (
            f"model {settings.model} of candidate {settings.name!r} must return one score or two "
            f"class probabilities per row; got shape {values.shape} of {values.dtype}. For a table "
            "name the score's column with `output`."
        )
        raise InputError(msg)
    return values.astype(np.float64) if values.dtype.kind != "f" else values


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


def _input_column(model: Any, uri: str) -> str | None:
    """Return the name of the text column, or None where the model takes an array."""
    signature = model.metadata.signature
    if signature is None or signature.inputs is None:
        msg = f"model {uri} must have a signature. Log it again with one (`infer_signature`)."
        raise InputError(msg)
    if not signature.inputs.has_input_names():
        return None
    names = signature.inputs.input_names()
    if len(names) != 1:
        msg = f"model {uri} must take one column of text; its signature has {', '.join(names)}."
        raise InputError(msg)
    return str(names[0])
