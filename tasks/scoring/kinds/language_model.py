"""Candidate kind `language_model`: a judge or guard that is computed on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.asking.guard import Asking, Guard
from biasgate.tasks.scoring.kinds.hugging_face import HuggingFaceModel, require_torch
from biasgate.tasks.scoring.outcomes import TOO_LONG, Missing, Outcome, PartlyScored
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.store import Workplace

if TYPE_CHECKING:
    from biasgate.tasks.scoring.kinds.language_model_inference import Answer, Answers

# What a kill may lose takes long to compute again.
_ROWS_A_SHARD = 500


class LanguageModel(Asking, HuggingFaceModel):
    """A language model that answers a question about each comment."""

    is_local = True

    kind: Literal["language_model"]
    precision: Literal["float32", "bfloat16", "auto"] = "auto"
    """Precision of the computation; `auto` is `bfloat16` if the hardware supports it. The last
    layer is always computed in single precision."""
    batch_size: Annotated[int, Field(ge=1)] = 8
    """Comments that are asked about at a time; halved where memory is short."""
    rows_a_shard: Annotated[int, Field(ge=1)] = _ROWS_A_SHARD
    """Rows that are scored and saved together: the most lost by a kill."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.folder is None) == (self.hub is None):
            msg = "give the model as either `folder` or `hub`"
            raise ValueError(msg)
        self.check_trust()
        self.check_asked()
        unknown = sorted(set(self.options) - set(self.asked.options))
        if unknown:
            known = ", ".join(self.asked.options) or "none"
            msg = f"`options` must be those of the guard; got {unknown[0]} (known: {known})"
            raise ValueError(msg)
        return self

    @property
    def asked(self) -> Guard:
        """How the model is asked; its reasoning is in its answers."""
        asked = super().asked
        if self.after is not None or not asked.after_reasoning:
            return asked
        return asked.model_copy(update={"after": asked.after_reasoning})

    @property
    def may_miss(self) -> bool:
        """Whether some comments may stay without a score."""
        return True

    @property
    def scores_in_levels(self) -> bool:
        """Whether it is meant that scores have few values, even two."""
        return self.asked.score_as == "level" or self.allow_two_valued

    def check(self) -> None:
        """Refuse a folder without a model, and an installation without torch, before any work."""
        require_torch()
        if self.folder is not None:
            self.read_config(self.folder)

    def open(self, workplace: Workplace) -> LanguageModelScorer:
        """Download the files of a hub model; load nothing yet."""
        del workplace
        return LanguageModelScorer(self)


class LanguageModelScorer(Scorer):
    """The model."""

    def __init__(self, settings: LanguageModel) -> None:
        from biasgate.tasks.scoring.kinds.transformer_inference import chosen_precision  # noqa: PLC0415 - needs the extra

        self._settings, self._guard = settings, settings.asked
        self.files = settings.model_files()
        settings.read_config(self.files)
        self.precision = chosen_precision(settings.precision)
        trusted = settings.trust_remote_code is not None
        self.not_bound = "The code of the model may read more than its files." if trusted else None
        asked = self._guard.model_dump(mode="json")
        self.digest = json_digest(
            ["language_model", self.files_digest, asked, settings.categories, self.precision]
        )

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set without text."""
        self._settings.require_text(evaluation_set)

    def try_out(self) -> None:
        """Load the model."""
        _ = self._answers

    def score(self, rows: pa.RecordBatch) -> PartlyScored:
        """Ask about each text; what is too long for the model has no score."""
        outcomes = self._outcomes(self._answers.to(rows.column("text").to_pylist()))
        self._guard.refuse_other_model(outcomes, self._settings.described)
        return PartlyScored.of(outcomes)

    def _outcomes(self, answers: Sequence[Answer | None]) -> list[Outcome]:
        counted = self._settings.categories
        return [
            Missing(TOO_LONG)
            if answer is None
            else self._guard.outcome(answer.text, answer.tokens, counted)
            for answer in answers
        ]

    @cached_property
    def _answers(self) -> Answers:
        from biasgate.tasks.scoring.kinds.language_model_inference import Answers  # noqa: PLC0415 - needs the extra

        assert self.files is not None  # noqa: S101 - set when opened
        return Answers(
            self.files,
            self._settings.described,
            self._guard,
            precision=self.precision,
            batch_size=self._settings.batch_size,
            trust_remote_code=self._settings.trust_remote_code is not None,
        )
