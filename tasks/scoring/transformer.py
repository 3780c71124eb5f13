"""Candidate kind `transformer`: a Hugging Face sequence classifier, of a folder or the hub."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, StringConstraints, model_validator

from tasks.data.evaluation_set import EvaluationSet
from tasks.errors import InputError
from tasks.files import folder_digest, json_digest
from tasks.scoring.candidate import CandidateSettings, Scorer, Workplace
from tasks.scoring.training_rows import refuse_training_rows
from tasks.scoring.transformer_head import Activation, choose_head
from tasks.settings import ConfigPath

if TYPE_CHECKING:
    from tasks.scoring.inference import Classifier

HubName = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
# No pickles: they execute code when they are loaded.
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


class Transformer(CandidateSettings):
    """A sequence classifier in safetensors.

    Attributes
    ----------
    folder : Path, optional
        The model as `save_pretrained` writes it, tokenizer included; or `hub`.
    hub, revision : str, optional
        Its name on the hub, and a branch, tag or commit.
    toxic_label : str, optional
        The label that is toxicity, checked against the model's `id2label`.
    activation : {"none", "sigmoid", "softmax"}, optional
        What makes a score of the logit; default is what the model's configuration says.
    precision : {"float32", "bfloat16", "auto"}
        Of the arithmetic; `auto` is `bfloat16` where the hardware computes in it. Candidates
        that are compared need the same.
    max_tokens : int
        Longer comments are cut.
    tokens_a_batch : int, optional
        Most tokens in one batch, padding included.
    trust_remote_code : str, optional
        The model's own name once more (`hub`, or the folder's name) lets its code run.
    """

    kind: Literal["transformer"]
    folder: ConfigPath | None = None
    hub: HubName | None = None
    revision: str | None = None
    toxic_label: str | None = None
    activation: Activation | None = None
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    max_tokens: Annotated[int, Field(ge=8)] = 512
    tokens_a_batch: Annotated[int, Field(ge=8)] | None = None
    trust_remote_code: str | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.folder is None) == (self.hub is None):
            msg = "give the model as either `folder` or `hub`"
            raise ValueError(msg)
        if self.trust_remote_code not in {None, self._own_name()}:
            msg = f"`trust_remote_code` must repeat the model's own name, {self._own_name()}"
            raise ValueError(msg)
        return self

    def check(self) -> None:
        """Refuse a folder that is no classifier, before any work."""
        if self.folder is not None:
            self.read_config(self.folder)

    def open(self, workplace: Workplace) -> TransformerScorer:
        """Fetch the files of a hub model; load nothing yet."""
        del workplace
        return TransformerScorer(self, self.folder or self._snapshot())

    def read_config(self, folder: Path) -> dict[str, Any]:
        """Return the model's configuration.

        Raises
        ------
        InputError
            If files are missing, the toxic label is not known, or the model wants to run code.
        """
        file = folder / "config.json"
        if not file.exists() or not list(folder.glob("*.safetensors")):
            lacking = "weights in *.safetensors" if file.exists() else "config.json"
            msg = f"folder {folder} of candidate {self.name!r} must hold {lacking}; it does not."
            raise InputError(msg)
        config = dict(json.loads(file.read_text("utf-8")))
        if "auto_map" in config and self.trust_remote_code is None:
            msg = (
                f"model {self._own_name()} of candidate {self.name!r} brings code of its own. If "
                f"you trust its author, set `trust_remote_code: {self._own_name()}`."
            )
            raise InputError(msg)
        choose_head(config, self.described, self.toxic_label, self.activation)
        return config

    @property
    def described(self) -> str:
        """The model, for messages."""
        return f"model {self._own_name()} of candidate {self.name!r}"

    def _own_name(self) -> str:
        return self.hub or (self.folder.name if self.folder else "")

    def _snapshot(self) -> Path:
        from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra, and slow

        patterns = [*_FILES, *(["*.py"] if self.trust_remote_code else [])]
        try:
            return Path(
                snapshot_download(self.hub, revision=self.revision, allow_patterns=patterns)
            )
        except (OSError, ValueError) as error:  # what the hub's many errors derive from
            msg = f"{self.described} cannot be had from the hub: {type(error).__name__}."
            raise InputError(msg) from error


class TransformerScorer(Scorer):
    """The classifier."""

    def __init__(self, settings: Transformer, folder: Path) -> None:
        from tasks.scoring.inference import chosen_precision  # noqa: PLC0415 - needs the extra

        self._settings = settings
        self._folder = folder
        config = settings.read_config(folder)
        self._head = choose_head(
            config, settings.described, settings.toxic_label, settings.activation
        )
        self.precision = chosen_precision(settings.precision)
        chosen = [self._head.column, self._head.activation, self.precision, settings.max_tokens]
        self.digest = json_digest(["transformer", folder_digest(folder), *chosen])

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set without text, and rows that the model was trained on."""
        self._settings.require_text(evaluation_set)
        if not self._settings.allow_training_rows:
            refuse_training_rows(self._folder, evaluation_set, self._settings.name)

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the score of the toxic label."""
        return self._head.scores(self._classifier.logits(rows.column("text").to_pylist()))

    @cached_property
    def _classifier(self) -> Classifier:
        from tasks.scoring.inference import Classifier  # noqa: PLC0415 - needs the extra

        return Classifier(
            self._folder,
            self._settings.described,
            precision=self.precision,
            max_tokens=self._settings.max_tokens,
            tokens_a_batch=self._settings.tokens_a_batch,
            trust_remote_code=self._settings.trust_remote_code is not None,
        )
