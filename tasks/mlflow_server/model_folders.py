"""Model folders in MLflow's format: saved, loaded, described.

The flavours take seconds to import, so they are imported only where they are used.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from biasgate.tasks.common.errors import InputError

_WEIGHTS = "model"  # the subfolder in which MLflow writes the weights of a transformer


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

    # With a space it cannot be the name of a repository, so none is looked up.
    model.name_or_path = tokenizer.name_or_path = "fine-tuned by biasgate"
    logging.getLogger("mlflow.transformers").setLevel(logging.ERROR)  # it warns of the missing card
    pipeline = transformers.pipeline(
        "text-classification", model=model, tokenizer=tokenizer, device="cpu"
    )
    answers = pd.DataFrame(pipeline(list(example)))
    mlflow.transformers.save_model(
        pipeline,
        folder,
        signature=infer_signature(list(example), answers),
        pip_requirements=[f"{one.__name__}=={one.__version__}" for one in (torch, transformers)],
        model_config={"truncation": True, "max_length": tokenizer.model_max_length},
    )


def transformer_folders(folder: Path) -> tuple[Path, Path] | None:
    """Return a model folder's subfolders of weights and tokenizer; None for other flavours.

    They are where MLflow writes them, whatever the folder declares.
    """
    flavours = flavours_of(folder)
    flavour = flavours.get("transformers") if isinstance(flavours, dict) else None
    weights, tokenizer = folder / _WEIGHTS, folder / "components" / "tokenizer"
    is_one = isinstance(flavour, dict) and flavour.get("model_binary", _WEIGHTS) == _WEIGHTS
    return (weights, tokenizer) if is_one and tokenizer.is_dir() else None


def load_pyfunc(folder: Path) -> Any:
    """Load any flavour through pyfunc."""
    import mlflow.pyfunc  # noqa: PLC0415

    return mlflow.pyfunc.load_model(str(folder))


def flavours_of(folder: Path) -> object:
    """Return what the MLmodel file of a model folder says of its flavours, whatever it is."""
    try:
        return dict(yaml.safe_load((folder / "MLmodel").read_text("utf-8"))).get("flavors")
    except (OSError, TypeError, ValueError, yaml.YAMLError) as error:
        msg = (
            "a model version must have a file MLmodel, which MLflow writes; it cannot be read "
            f"({type(error).__name__})."
        )
        raise InputError(msg) from error


def model_signature(folder: Path) -> Any:
    """Return the signature in a model folder, without loading the model; None if it has none."""
    from mlflow.exceptions import MlflowException  # noqa: PLC0415
    from mlflow.models import Model, ModelSignature  # noqa: PLC0415

    flavours_of(folder)
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
