"""The base class of an opened candidate, which scores comments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from biasgate.tasks.common.errors import CandidateError, InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Bound
from biasgate.tasks.scoring.outcomes import Load, PartlyScored
from biasgate.tasks.signing.manifest import Manifest, join_differences
from biasgate.tasks.signing.model_signature import require_model_signature
from biasgate.tasks.store import Workplace

Opened = TypeVar("Opened", bound="Scorer")


class Scorer(ABC):
    """An opened candidate, ready to score; close it after use.

    The first `score` or `try_out` creates whatever is expensive: a loaded model, processes,
    connections. If all scores are kept, the candidate is opened only for its digest.
    """

    digest: str
    """SHA-256 of everything that affects the scores: weights, preprocessing, precision, library.
    Kept scores are reused while it stays the same. A kind from another package includes that
    package's version: `json_digest([package, version(package), *options])`."""
    precision: str = "float64"
    """Precision of the arithmetic: `float64`, `float32` or `bfloat16`."""
    columns: tuple[str, ...] = ("id", "text")
    """The columns of the evaluation set that `score` reads, `id` first."""
    files: Path | None = None
    """The folder or file that decides the scores. A verdict records the files'
    digests. Files may not change during scoring."""
    is_metered: bool = False
    """True if comments go to a service on another machine that has a price or limits."""
    at_once: int = 1
    """Number of threads that may call `score` at a time. With two, rows are prepared and scores
    are written while a device computes others."""
    not_bound: str | None = "This kind of candidate does not say which files decide its scores."
    """Other causes of the scores, in a sentence; None if the files decide them completely."""
    signed_by: str | None = None
    """SHA-256 of the required key, after its signature of the files was found valid."""
    reads_whole: bool = False
    """True if the model reads each comment to its end. Otherwise truncation is unknown, unless
    `score` returns it."""
    _resources: AbstractContextManager[Any] = nullcontext()

    @cached_property
    def manifest(self) -> Manifest | None:
        """The files at the first access; None without files."""
        return None if self.files is None else Manifest.from_path(self.files, follow_links=True)

    @property
    def files_digest(self) -> str:
        """Digest of the files; `files` must be set."""
        assert self.manifest is not None  # noqa: S101 - a mistake in a kind, not in its input
        return self.manifest.digest

    @property
    def single_digest(self) -> str:
        """SHA-256 of the only file; `files` must be a file."""
        assert self.manifest is not None  # noqa: S101 - a mistake in a kind, not in its input
        [only] = self.manifest.files
        return only.sha256

    @property
    def bound(self) -> Bound:
        """Record of the files that decide the scores, for the verdict."""
        if self.manifest is None:
            return Bound(what="nothing", digest=None, files=[], not_bound=self.not_bound)
        return Bound(
            what="files",
            digest=self.manifest.digest,
            files=list(self.manifest.files),
            not_bound=self.not_bound,
            signed_by=self.signed_by,
        )

    def require_signature(self, key: Path, signature: Path | None, described: str) -> None:
        """Raise an `InputError` unless the owner of a key signed exactly the scorer's files."""
        if self.files is None or self.manifest is None:
            msg = f"{described} must have files that are signed (`signed_by`); its kind has none."
            raise InputError(msg)
        self.signed_by = require_model_signature(
            self.files, self.manifest, key, signature, described
        )

    def refuse_changes(self) -> None:
        """Raise a `CandidateError` if the files differ from the manifest."""
        if self.files is not None and self.manifest is not None:
            current = Manifest.from_path(self.files, follow_links=True)
            differences = self.manifest.list_differences(current)
            if differences:
                msg = (
                    f"files in {self.files} must not change while they are scored; got: "
                    f"{join_differences(differences)}. Run again."
                )
                raise CandidateError(msg)

    def check(self, evaluation_set: EvaluationSet) -> None:  # noqa: B027 - most kinds take any set
        """Raise an error, before any work starts, if a set cannot be scored.

        Sets without text, and sets that share rows with the training set, are refused before.
        """

    def try_out(self) -> None:  # noqa: B027 - most kinds fail when opened
        """Raise the errors that only loading the model reveals.

        Called before any candidate scores, unless all scores are kept or other machines score.
        """

    def estimate_load(self, texts: Sequence[str]) -> Load:
        """Estimate the load of scoring texts, for a metered service."""
        raise NotImplementedError

    @abstractmethod
    def score(self, rows: pa.RecordBatch) -> np.ndarray | PartlyScored:
        """Return a score for each row, shape (n,), higher for more toxic.

        A model that refuses or truncates some comments returns `PartlyScored`. Missing scores may
        not be invented.
        """

    def close(self) -> None:  # noqa: B027 - most kinds hold nothing
        """Release what `score` created."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._resources:
            self.close()


def open_version(
    version: ModelVersion, workplace: Workplace, make: Callable[[Path], Opened]
) -> Opened:
    """Call `make` with a copy of a version's files; return its scorer.

    The copy is removed when the scorer is closed, or if `make` fails.
    """
    with ExitStack() as stack:
        scorer = make(stack.enter_context(workplace.gateway.open_download(version)))
        scorer._resources = stack.pop_all()  # noqa: SLF001 - released with the scorer
    return scorer
