"""Candidate kind `tfidf`: the baseline, TF-IDF and logistic regression, trained here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from biasgate.tasks.common.arrow_arrays import release_memory
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.data.evaluation_set import WEIGHT, EvaluationSet
from biasgate.tasks.data.freezing import Source
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.scoring.candidate import CandidateSettings, LogMetrics
from biasgate.tasks.scoring.kinds.mlflow_model import ModelUri
from biasgate.tasks.scoring.kinds.safe_models import find_skops_model
from biasgate.tasks.scoring.scorer import Scorer, open_version
from biasgate.tasks.scoring.training_rows import write_training_rows
from biasgate.tasks.store import Workplace

if TYPE_CHECKING:  # scikit-learn takes seconds to import, and most candidates do not need it
    from sklearn.pipeline import Pipeline

Grams = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]
DEFAULT_TOLERANCE = 1e-4  # scikit-learn's
# Invented, neutral, and the same for every model, so that an input example leaks nothing.
EXAMPLE = ("The library opens at nine.", "Thank you, that was helpful.")


class Tfidf(CandidateSettings):
    """Word and character n-grams into a logistic regression."""

    is_local = True
    learns_weights = True

    kind: Literal["tfidf"]
    train_on: Source | None = None
    """The training set."""
    model: ModelUri | None = None
    """The trained version, `models:/name/version`; set by training."""
    word_ngrams: Grams = (1, 2)
    """Shortest and longest n-grams of words."""
    char_ngrams: Grams = (2, 5)
    """Shortest and longest n-grams of characters within words."""
    min_df: Annotated[int, Field(ge=5)] = 5
    """Fewest comments with an n-gram; at least 5, because n-grams quote comments."""
    max_features: Annotated[int, Field(ge=1)] = 100_000
    """Most n-grams of words, and of characters."""
    regularization: Annotated[float, Field(gt=0)] = 1.0
    """Inverse strength (scikit-learn's C)."""
    tolerance: Annotated[float, Field(gt=0, lt=1)] = DEFAULT_TOLERANCE
    """The solver stops when no component of the gradient is larger (scikit-learn's tol)."""
    class_weight: Literal["balanced"] | None = None
    """`balanced` weights the classes by their inverse frequency."""

    @model_validator(mode="after")
    def _check_origin(self) -> Self:
        if self.train_on is None and self.model is None:
            msg = "give the training set with `train_on`"
            raise ValueError(msg)
        return self

    def check(self) -> None:
        """Refuse a training set that cannot be read."""
        if self.train_on is not None:
            self.train_on.check()

    def training(self) -> SourceSettings | None:
        """Return the training set, until the candidate is trained."""
        return self.train_on if self.model is None else None

    def training_key(self, training_set: EvaluationSet) -> str:
        """Return a digest of everything that affects the fitted model: rows, options, library."""
        options = self.model_dump(
            mode="json",
            include={"word_ngrams", "char_ngrams", "min_df", "max_features"}
            | {"regularization", "class_weight"},
        )
        key = [options, self.training_threshold(), training_set.digest, version_of("scikit-learn")]
        # Without these, keys stay as they were before weights and `tolerance` existed.
        key += ["weighted"] if WEIGHT in training_set.columns else []
        key += [] if self.tolerance == DEFAULT_TOLERANCE else [{"tolerance": self.tolerance}]
        return json_digest(key)

    def fit(self, training_set: EvaluationSet, folder: Path, log: LogMetrics) -> None:
        """Fit on a training set; write a model folder with the hashes of the training rows."""
        del log
        save_classifier(self._fit_pipeline(training_set), folder, EXAMPLE)
        write_training_rows(training_set, folder)

    def _fit_pipeline(self, training_set: EvaluationSet) -> Pipeline:
        from biasgate.tasks.scoring.kinds.tfidf_training import fit  # noqa: PLC0415

        labels = self.training_labels(training_set)
        weights = self.training_weights(training_set)
        pipeline = fit(self.pipeline(), partial(_iterate_texts, training_set), labels, weights)
        release_memory()  # 2.5 GiB after 1.8 million comments
        return pipeline

    def pipeline(self) -> Pipeline:
        """Return a scikit-learn pipeline that is not fitted yet."""
        from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
        from sklearn.pipeline import FeatureUnion, Pipeline  # noqa: PLC0415

        common = {"min_df": self.min_df, "max_features": self.max_features, "sublinear_tf": True}
        words = TfidfVectorizer(ngram_range=self.word_ngrams, **common)
        chars = TfidfVectorizer(analyzer="char_wb", ngram_range=self.char_ngrams, **common)
        classifier = LogisticRegression(
            C=self.regularization,
            class_weight=self.class_weight,
            max_iter=1000,
            tol=self.tolerance,
        )
        features = FeatureUnion([("words", words), ("characters", chars)])
        return Pipeline([("features", features), ("classifier", classifier)])

    def registered(self, workplace: Workplace) -> ModelVersion | None:
        """Return the trained version."""
        return None if self.model is None else workplace.gateway.resolve(self.model)

    def open(self, workplace: Workplace) -> TfidfScorer:
        """Load the trained version."""
        version = self.registered(workplace)
        if version is None:
            msg = f"candidate {self.name!r} must be trained before it is opened."
            raise InputError(msg)
        return open_version(version, workplace, partial(TfidfScorer, self))


class TfidfScorer(Scorer):
    """A fitted pipeline."""

    reads_whole = True

    def __init__(self, settings: Tfidf, folder: Path) -> None:
        self.files = folder
        self.not_bound = None
        self._skops_model = find_skops_model(folder, str(settings.model))
        major = version_of("scikit-learn").split(".")[0]
        self.digest = json_digest(["tfidf", "whole", self.files_digest, major])

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the probability of the positive class."""
        return self._predict(rows.column("text").to_pylist())[:, 1]

    @cached_property
    def _predict(self) -> Callable[[list[str]], np.ndarray]:
        return self._skops_model.load().predict_proba  # type: ignore[no-any-return]


def _iterate_texts(rows: EvaluationSet) -> Iterator[str]:
    """Yield the texts of a set, without keeping them in memory."""
    for batch in rows.iter_batches(["text"], 50_000):
        yield from batch.column("text").to_pylist()
