"""Saving, loading and inspecting model folders in MLflow's format.

Flavours take seconds to import, so functions import them when they are called.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from biasgate.tasks.common.errors import InputError

_WEIGHTS = "model"  # MLflow's subfolder for the weights of a transformer


def save_classifier(pipeline: Any, folder: Path, example: Sequence[str]) -> None:
    """Save a fitted scikit-learn text classifier so that pyfunc returns probabilities.

    The format is skops, which does not execute code when loaded. The signature maps an array of
    strings to an array of class probabilities of shape (n, 2).
    """
    import mlflow.sklearn  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415
    import sklearn  # noqa: PLC0415
    from mlflow.models import infer_signature  # noqa: PLC0415

    texts = np.array(list(example), dtype=object)
    mlflow.sklearn.save_model(
        pipeline,
        folder,
        serialization_format=mlflow.sklearn.SERIALIZATION_FORMAT_SKOPS,
        signature=infer_signature(texts, pipeline.predict_proba(texts)),
        pip_requirements=[f"scikit-learn=={sklearn.__version__}", "skops"],
        pyfunc_predict_fn="predict_proba",
        input_example=texts,
    )


def save_transformer(model: Any, tokenizer: Any, folder: Path, example: Sequence[str]) -> None:
    """Save a transformer with its tokenizer so that pyfunc returns the winning label and its score.

    Weights are in safetensors. Longer comments are truncated at the tokenizer's limit. The folder
    name of the encoder is not saved, and its card is not requested from the hub.
    """
    import mlflow.transformers  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415
    from mlflow.models import infer_signature  # noqa: PLC0415

    # A name with a space is not a valid repository, so MLflow does not look it up.
    model.name_or_path = tokenizer.name_or_path = "fine-tuned by biasgate"
    logging.getLogger("mlflow.transformers").setLevel(logging.ERROR)  # it warns of the missing card
    pipeline = transformers.pipeline(
        "text-classification", model=model, tokenizer=tokenizer, device="cpu"
    )
    predictions = pd.DataFrame(pipeline(list(example)))
    mlflow.transformers.save_model(
        pipeline,
        folder,
        signature=infer_signature(list(example), predictions),
        pip_requirements=[
            f"{package.__name__}=={package.__version__}" for package in (torch, transformers)
        ],
        model_config={"truncation": True, "max_length": tokenizer.model_max_length},
    )


def find_transformer_folders(folder: Path) -> tuple[Path, Path] | None:
    """Return a model folder's subfolders of weights and tokenizer; None for other flavours.

    The paths are MLflow's own: paths that the folder declares are not followed.
    """
    flavours = read_flavours(folder)
    flavour = flavours.get("transformers") if isinstance(flavours, dict) else None
    weights, tokenizer = folder / _WEIGHTS, folder / "components" / "tokenizer"
    is_transformer = isinstance(flavour, dict) and flavour.get("model_binary", _WEIGHTS) == _WEIGHTS
    return (weights, tokenizer) if is_transformer and tokenizer.is_dir() else None


def load_pyfunc(folder: Path) -> Any:
    """Load a model of any flavour through pyfunc."""
    import mlflow.pyfunc  # noqa: PLC0415

    return mlflow.pyfunc.load_model(str(folder))


def read_flavours(folder: Path) -> object:
    """Return the unchecked entry `flavors` in the MLmodel file of a model folder."""
    try:
        return dict(yaml.safe_load((folder / "MLmodel").read_text("utf-8"))).get("flavors")
    except (OSError, TypeError, ValueError, yaml.YAMLError) as error:
        msg = (
            "a model version must have a file MLmodel, which MLflow writes; it cannot be read "
            f"({type(error).__name__})."
        )
        raise InputError(msg) from error


def model_signature(folder: Path) -> Any:
    """Return the signature in a model folder, or None, without loading the model."""
    from mlflow.exceptions import MlflowException  # noqa: PLC0415
    from mlflow.models import Model, ModelSignature  # noqa: PLC0415

    read_flavours(folder)
    try:
        signature = Model.load(str(folder)).signature
        problem = type(signature).__name__
        error: Exception | None = None
    except (AttributeError, KeyError, MlflowException, TypeError, ValueError) as failed:
        signature, problem, error = False, type(failed).__name__, failed
    if signature is None or isinstance(signature, ModelSignature):
        return signature
    msg = (
        "the file MLmodel of a model version must have a signature as MLflow writes it; it "
        f"cannot be read ({problem}). Log the model again (`infer_signature`)."
    )
    raise InputError(msg) from error
