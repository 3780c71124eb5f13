"""Candidate kind `transformer`: a Hugging Face sequence classifier, from a folder or the hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, JsonValue, model_validator

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import folder_digest, json_digest
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.data.evaluation_set import WEIGHT, EvaluationSet
from biasgate.tasks.data.freezing import Source
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mlflow_server.model_folders import find_transformer_folders, save_transformer
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.scoring.candidate import LogMetrics
from biasgate.tasks.scoring.kinds.hugging_face import HuggingFaceModel, require_torch
from biasgate.tasks.scoring.kinds.mlflow_model import ModelUri
from biasgate.tasks.scoring.kinds.tfidf import EXAMPLE
from biasgate.tasks.scoring.outcomes import PartlyScored
from biasgate.tasks.scoring.scorer import Scorer, open_version
from biasgate.tasks.scoring.training_rows import write_training_rows
from biasgate.tasks.store import Workplace

if TYPE_CHECKING:
    from biasgate.tasks.scoring.kinds.transformer_inference import Classifier

_NEGATIVE, _POSITIVE = "not toxic", "toxic"
_NOT_BOUND = "The code of the model may read more than the model's files."


class FineTuning(Settings):
    """Options of fine-tuning, with usual defaults for encoders such as BERT."""

    max_epochs: Annotated[int, Field(ge=1)] = 3
    """Most passes over the training rows."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Most batches in all."""
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Comments in a batch."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    """Peak of the rate, which rises linearly over the first steps and then falls to zero."""
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the steps during which the rate rises."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay of AdamW, for matrices only."""
    max_gradient_norm: Annotated[float, Field(gt=0)] = 1.0
    """Larger gradients are scaled down to this norm."""
    class_weight: Literal["balanced"] | None = None
    """`balanced` weights the classes by their inverse frequency."""
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of the training rows that are held out for early stopping. A hash of the text selects
    them, so that copies of a comment stay together."""
    patience: Annotated[int, Field(ge=1)] = 2
    """Training stops after this many epochs without a better AUC on the held-out rows. The weights
    of the best epoch are kept."""
    mixed_precision: bool = True
    """Compute in bfloat16 if the hardware supports it; weights stay in single precision."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the new layer, the order of the rows and dropout. On a CPU the same seed gives the
    same weights."""


class Transformer(HuggingFaceModel):
    """A sequence classifier in safetensors."""

    is_local = True
    opened_with = frozenset({"activation", "precision", "max_tokens", "toxic_label"})
    learns_weights = True

    kind: Literal["transformer"]
    train_on: Source | None = None
    """A training set. The model in `folder` or `hub` is then the encoder for the training."""
    fine_tuning: FineTuning | None = None
    """Options of the training."""
    model: ModelUri | None = None
    """A version in the registry, `models:/name/version`, that was trained here or logged with
    `mlflow.transformers`. Training sets it."""
    toxic_label: str | None = None
    """The toxic label, checked against the model's `id2label`. Not required for a single logit, or
    two without names (then the second). For a model that is trained here: the label's name, by
    default `toxic`."""
    activation: Activation | None = None
    """Function from the logit to the score. Default: that of `transformers.pipeline`."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """Precision of the computation; `auto` is `bfloat16` if the hardware supports it."""
    max_tokens: Annotated[int, Field(ge=8)] = 512
    """Longer comments are truncated; the report counts them, overall and by identity."""
    tokens_a_batch: Annotated[int, Field(ge=8)] | None = None
    """Most tokens in a batch, including padding; halved if memory is short. Default: 1,024 on a
    CPU, 131,072 on a GPU."""

    @model_validator(mode="after")
    def _check_origin(self) -> Self:
        origins = [self.folder, self.hub, self.model if self.train_on is None else None]
        if len([origin for origin in origins if origin is not None]) != 1:
            msg = "give the model as either `folder` or `hub`, or as a registered `model`"
            raise ValueError(msg)
        if self.train_on is None and self.fine_tuning is not None:
            msg = "`fine_tuning` needs a training set: give it with `train_on`"
            raise ValueError(msg)
        self.check_trust()
        return self

    def check(self) -> None:
        """Refuse a missing torch, a bad training set, and a folder without a classifier."""
        require_torch()
        if self.train_on is not None:
            self.train_on.check()
        if self.folder is not None:
            config = self.read_config(self.folder)
            if self.train_on is None:
                self.find_head(config)

    def training(self) -> SourceSettings | None:
        """Return the training set, until the candidate is trained."""
        return self.train_on if self.model is None else None

    def training_key(self, training_set: EvaluationSet) -> str:
        """Return a digest of everything that affects the model, including encoder and libraries."""
        from biasgate.tasks.scoring.kinds.transformer_inference import LIBRARIES  # noqa: PLC0415 - needs the extra

        options = (self.fine_tuning or FineTuning()).model_dump(mode="json")
        encoder = folder_digest(self.fetch_files())
        key = [options, self.max_tokens, self._toxic_label, self.training_threshold(), encoder]
        key += [*LIBRARIES, training_set.digest]
        # Without weights, keys stay as they were before weights existed.
        return json_digest([*key, "weighted"] if WEIGHT in training_set.columns else key)

    def fit(self, training_set: EvaluationSet, folder: Path, log: LogMetrics) -> None:
        """Fine-tune on a training set; write a model folder with the training rows' hashes."""
        from biasgate.tasks.scoring.kinds.transformer_training import FineTuner  # noqa: PLC0415 - needs the extra

        positive = self.training_labels(training_set)
        files = self.fetch_files()
        self.read_config(files)
        tuner = FineTuner(
            files,
            self.described,
            (_NEGATIVE, self._toxic_label or _POSITIVE),
            self.fine_tuning or FineTuning(),
            max_tokens=self.max_tokens,
            trust_remote_code=self.trust_remote_code is not None,
        )
        parts = training_set.iter_batches(["text"], 10_000)
        texts = (part.column("text").to_pylist() for part in parts)
        tuner.fit(texts, positive, log, self.training_weights(training_set))
        save_transformer(tuner.model, tuner.tokenizer, folder, EXAMPLE)
        write_training_rows(training_set, folder)

    def opened_as(self) -> dict[str, JsonValue]:
        """Return the options that open the trained version, from safetensors instead of pyfunc."""
        keys = {"kind", "activation", "precision", "max_tokens"}
        return self.model_dump(mode="json", include=keys) | {"toxic_label": self._toxic_label}

    def registered(self, workplace: Workplace) -> ModelVersion | None:
        """Return the registered version of the model, if it exists."""
        return None if self.model is None else workplace.gateway.resolve(self.model)

    def open(self, workplace: Workplace) -> TransformerScorer:
        """Download the files of a model from hub or registry; the first `score` loads them."""
        if self.training() is not None:
            msg = f"candidate {self.name!r} must be trained before it is opened."
            raise InputError(msg)
        make = partial(TransformerScorer, self, kept_tokens=workplace.store / "tokens")
        version = self.registered(workplace)
        if version is not None:
            return open_version(version, workplace, make)
        return make(self.fetch_files())

    def find_head(self, config: dict[str, Any]) -> ClassifierHead:
        """Return the toxic output of a classifier with this configuration."""
        return choose_head(config, self.described, self._toxic_label, self.activation)

    @property
    def _toxic_label(self) -> str | None:
        return self.toxic_label or (_POSITIVE if self.train_on else None)

    def get_name(self) -> str:
        """Return the model's name, for messages and for trust."""
        return super().get_name() or self.model or ""


class TransformerScorer(Scorer):
    """A classifier, loaded by the first `score`."""

    def __init__(
        self, settings: Transformer, folder: Path, kept_tokens: Path | None = None
    ) -> None:
        from biasgate.tasks.scoring.kinds import transformer_inference as inference  # noqa: PLC0415 - needs the extra

        self._settings, self._kept_tokens = settings, kept_tokens
        self.at_once, self._load_lock = inference.count_parallel_calls(), Lock()
        self.files = folder
        self.not_bound = None if settings.trust_remote_code is None else _NOT_BOUND
        self._weights = self._tokenizer = folder
        if settings.model is not None:
            folders = find_transformer_folders(folder)
            if folders is None:
                msg = (
                    f"{settings.described} must be a version that was trained here or logged with "
                    "`mlflow.transformers`; it is of another flavour. Use `kind: mlflow`."
                )
                raise InputError(msg)
            self._weights, self._tokenizer = folders
            settings.refuse_code(self._tokenizer)
        self._head = settings.find_head(settings.read_config(self._weights))
        self.precision = inference.choose_precision(settings.precision)
        options = [self._head.column, self._head.activation, self.precision, settings.max_tokens]
        # Scores with the older key, "transformer", do not record truncated comments.
        self.digest = json_digest(["transformer", "truncated", self.files_digest, *options])

    def score(self, rows: pa.RecordBatch) -> PartlyScored:
        """Return the scores of the toxic label, and mark truncated comments."""
        with self._load_lock:
            classifier = self._classifier
        logits, truncated = classifier.classify(rows.column("text").to_pylist())
        return PartlyScored(self._head.compute_scores(logits), truncated=truncated)

    @cached_property
    def _classifier(self) -> Classifier:
        from biasgate.tasks.scoring.kinds.transformer_inference import Classifier  # noqa: PLC0415 - needs the extra

        return Classifier(
            self._weights,
            self._settings.described,
            precision=self.precision,
            max_tokens=self._settings.max_tokens,
            tokens_a_batch=self._settings.tokens_a_batch,
            trust_remote_code=self._settings.trust_remote_code is not None,
            tokenizer_folder=self._tokenizer,
            kept_tokens=self._kept_tokens,
        )


Activation = Literal["none", "sigmoid", "softmax"]
_DEFAULT = {"0": "LABEL_0", "1": "LABEL_1"}


@dataclass(frozen=True)
class ClassifierHead:
    """The toxic output of a classifier."""

    column: int
    """Index among the logits."""
    activation: Activation
    """Function from the logit to the score."""

    def compute_scores(self, logits: np.ndarray) -> np.ndarray:
        """Return a score for each row of logits, shape (n,), in double precision.

        In single precision, all large logits would give the same score.
        """
        values = logits.astype(np.float64)
        from scipy.special import expit, softmax  # noqa: PLC0415 - takes a second

        if self.activation == "softmax":
            return np.asarray(softmax(values, axis=1)[:, self.column])
        toxic = values[:, self.column]
        return np.asarray(expit(toxic)) if self.activation == "sigmoid" else toxic


def choose_head(
    config: Mapping[str, Any], model: str, toxic_label: str | None, activation: Activation | None
) -> ClassifierHead:
    """Find the toxic output in a model's `config.json`.

    `config`: with `id2label` and `problem_type`, by default those of transformers. `toxic_label`:
    required for several labels, except two with default names. `activation`: by default that of
    transformers' own pipeline: sigmoid for a single logit and for `multi_label_classification`,
    none for `regression`, otherwise softmax.
    """
    names = config.get("id2label") or _DEFAULT
    labels = [str(names[key]) for key in sorted(names, key=int)]
    kind = config.get("problem_type")
    if activation is None:
        activation = "softmax"
        if kind == "regression":
            activation = "none"
        elif len(labels) == 1 or kind == "multi_label_classification":
            activation = "sigmoid"
    shown = ", ".join(map(repr, labels))
    if toxic_label is None:
        is_unnamed = labels == list(_DEFAULT.values()) and activation == "softmax"
        if len(labels) > 1 and not is_unnamed:
            msg = f"{model} has several labels: set `toxic_label` to one of {shown}."
            raise InputError(msg)
        return ClassifierHead(len(labels) - 1, activation)
    if labels.count(toxic_label) != 1:
        msg = f"`toxic_label` of {model} must be one of {shown}; got {toxic_label!r}."
        raise InputError(msg)
    return ClassifierHead(labels.index(toxic_label), activation)
