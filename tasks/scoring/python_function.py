"""Candidate kind `python`: any function of an installed package, texts in and scores out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from operator import attrgetter
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, StringConstraints

from tasks.data.evaluation_set import EvaluationSet
from tasks.errors import InputError
from tasks.files import json_digest
from tasks.scoring.answers import positive_scores
from tasks.scoring.candidate import CandidateSettings, Scorer, Version, Workplace

Call = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]


class PythonFunction(CandidateSettings):
    """A function that takes a list of texts and returns a score, or two probabilities, of each.

    Attributes
    ----------
    call : str
        `package.module:function`.
    version : str
        Of the model behind it. Scores are reused as long as it does not change; without it
        they never are.
    batch_size : int
        Texts in one call.
    """

    kind: Literal["python"]
    call: Call
    version: Version
    batch_size: Annotated[int, Field(ge=1)] = 1_000

    def check(self) -> None:
        """Refuse a package that is not installed; nothing of it is run yet."""
        package = self.call.partition(":")[0].partition(".")[0]
        if find_spec(package) is None:
            msg = (
                f"`call` of candidate {self.name!r} must name an installed package; "
                f"got {package!r}."
            )
            raise InputError(msg)

    def open(self, workplace: Workplace) -> FunctionScorer:
        """Look at nothing yet: the package is imported to score."""
        del workplace
        return FunctionScorer(self)


class FunctionScorer(Scorer):
    """The function."""

    def __init__(self, settings: PythonFunction) -> None:
        self._settings = settings
        self.digest = json_digest(["python", settings.call, settings.version])

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set without text."""
        self._settings.require_text(evaluation_set)

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Call the function batch by batch."""
        texts, size = rows.column("text").to_pylist(), self._settings.batch_size
        of = f"{self._settings.call} of candidate {self._settings.name!r}"
        parts = []
        for start in range(0, len(texts), size):
            batch = texts[start : start + size]
            parts.append(positive_scores(self._function(batch), of))
            if len(parts[-1]) != len(batch):
                msg = f"{of} must return one score per text; got {len(parts[-1])} for {len(batch)}."
                raise InputError(msg)
        return np.concatenate(parts)

    @cached_property
    def _function(self) -> Callable[[list[str]], Any]:
        module, _, name = self._settings.call.partition(":")
        try:
            function = attrgetter(name)(importlib.import_module(module))
        except (ImportError, AttributeError) as error:
            msg = (
                f"`call` of candidate {self._settings.name!r} must name a function that can be "
                f"imported; got {self._settings.call!r} ({error})."
            )
            raise InputError(msg) from error
        if not callable(function):
            msg = f"`call` of candidate {self._settings.name!r} must be callable; it is not."
            raise InputError(msg)
        return function  # type: ignore[no-any-return]
