"""Candidate kind `scores`: a file of ids and scores, by default in the form of Kaggle."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import Field, JsonValue

from bias_metrics.parts import format_count
from biasgate.tasks.common.errors import InputError, format_id
from biasgate.tasks.common.files import file_digest, json_digest
from biasgate.tasks.common.settings import ConfigPath, Name
from biasgate.tasks.data.chunks import read_column_names, require_columns
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.formats import is_json_lines
from biasgate.tasks.data.plain_columns import suggest_id_form
from biasgate.tasks.data.scores import ScoreColumns
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Bound
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.outcomes import PartlyScored
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.signing.manifest import Manifest, escape_path
from biasgate.tasks.store import Workplace

NO_SCORE = "no_score"
SCORES_TAG, COLUMNS_TAG = "biasgate.scores_digest", "biasgate.scores_columns"

_REMEDY = (
    "The file must have one row for each comment of the set, and no other rows. If the model "
    "refused a comment, leave its score empty and set `allow_missing: true`."
)


class ScoreFile(ScoreColumns, CandidateSettings):
    """Scores that were computed elsewhere."""

    is_local: ClassVar[bool] = True
    opened_with: ClassVar[frozenset[str] | None] = frozenset({"file", "read_by", "allow_missing"})

    kind: Literal["scores"]
    path: ConfigPath
    """CSV or JSON lines, also with gzip, or Parquet, with a row for each row of the evaluation
    set."""
    allow_missing: bool = False
    """Accept missing scores (empty cells), for rows that the model refused."""
    register_as: Name | None = Field(default=None, alias="register")
    """`register:` in a configuration. The registered model to which the file is added as a version,
    so that it can become champion. The version is valid only for this set."""
    model: str | None = None
    """The registered version, once it exists."""

    @property
    def registered_model(self) -> str | None:
        """The model that `register:` names."""
        return self.register_as

    def explain_inversion(self) -> tuple[str, str]:
        """Return the column of the scores, and the option that reverses them."""
        origin = f"column {self.score!r} of candidate {self.name!r}"
        if self.positive_label is not None:
            return origin, "name the other label as `positive_label`"
        remedy = "name the column of the toxic class with `score:`, or write 1 - score to the file"
        return origin, remedy

    def registered(self, workplace: Workplace) -> ModelVersion | None:
        """Return the version of the file; create the version if necessary."""
        if self.register_as is None:
            return None
        return register_scores(self, self.register_as, workplace.gateway)

    def check(self) -> None:
        """Refuse a file that is missing or lacks a column."""
        require_columns(self.path, self.required_columns, self)
        if self.register_as is None:
            return
        # A registered file may hold no comments: everyone with access to the registry can read it.
        problem = "it is JSON lines, and any line may hold more keys"
        if not is_json_lines(self.path):
            columns = read_column_names(self.path, self)
            n_others = sum(column not in self.required_columns for column in columns)
            if not n_others:
                return
            problem = f"it has {format_count(n_others, 'more column')}"
        msg = (
            f"file {self.path} must be CSV or Parquet with no columns but "
            f"{' and '.join(self.required_columns)}, since `register` keeps the whole file in the "
            f"model registry; {problem}. Write the scores to a separate file."
        )
        raise InputError(msg)

    def require_text(self, evaluation_set: EvaluationSet | SourceSettings) -> None:
        """Accept any set: existing scores need no text."""

    def opened_as(self) -> dict[str, JsonValue]:
        """Return the options of `RegisteredScores`."""
        missing = {"allow_missing": True} if self.allow_missing else {}
        read_by: dict[str, JsonValue] = {**self.chosen_options}
        return {"kind": "scores", "file": self.path.name, "read_by": read_by, **missing}

    def open(self, workplace: Workplace) -> ScoreTable:
        """Read and check the whole file."""
        del workplace
        return ScoreTable(self)


def register_scores(settings: ScoreFile, model: str, gateway: Gateway) -> ModelVersion:
    """Register a file of scores as a version of a model, at most once.

    The version cannot score other rows. Its tags have the columns of the file, and the digest that
    identifies the same file.
    """
    digest = json_digest([file_digest(settings.path), settings.chosen_options])
    version = gateway.find_version(model, SCORES_TAG, digest)
    if version is not None:
        return version
    experiment = gateway.ensure_experiment(f"{model} scores")
    run_id = gateway.ensure_run(experiment, f"scores-{digest}", f"scores {settings.name}")
    with gateway.fail_on_error(run_id), tempfile.TemporaryDirectory() as folder:
        shutil.copy(settings.path, Path(folder) / settings.path.name)
        gateway.log_folder(run_id, Path(folder), "scores")
        columns = json.dumps([settings.path.name, settings.chosen_options])
        tags = {SCORES_TAG: digest, COLUMNS_TAG: columns}
        # Before the version is created: after that, no later run completes this one.
        gateway.end_run(run_id)
        return gateway.register_once(model, run_id, "scores", tags, SCORES_TAG)


class RegisteredScores(CandidateSettings):
    """A registered file of scores as a rival, with the options of `ScoreFile.opened_as`."""

    is_local = True
    opened_with = frozenset({"file", "read_by", "allow_missing"})

    kind: Literal["scores"] = "scores"
    model: str
    """The version."""
    file: str
    """Name of the file in the version's folder."""
    read_by: ScoreColumns
    """Options to read the file."""
    allow_missing: bool = False
    """Accept missing scores."""

    def registered(self, workplace: Workplace) -> ModelVersion:
        """Return the version."""
        return workplace.gateway.resolve(self.model)

    def require_text(self, evaluation_set: EvaluationSet | SourceSettings) -> None:
        """Accept any set: existing scores need no text."""

    def open(self, workplace: Workplace) -> ScoreTable:
        """Read and check the whole file, from a copy."""
        version = self.registered(workplace)
        with workplace.gateway.open_download(version) as folder:
            names = [file.path for file in Manifest.from_path(folder).files]
            if names != [self.file]:
                msg = (
                    f"{version.uri} must hold only the file of scores that its verdict "
                    f"names, {self.file!r}; it holds {', '.join(map(escape_path, names))}."
                )
                raise InputError(msg)
            options = {"name": self.name, "kind": "scores", "path": folder / self.file}
            options |= {**self.read_by.chosen_options, "allow_missing": self.allow_missing}
            reset = workplace.gateway.format_command(
                "promote", version.name, "--reset", "--reason", "TEXT"
            )
            remedy = (
                f"{version.uri} is a file of scores, which is valid for a single set. For other "
                f"comments, register a model; if it is the champion, run `{reset}`."
            )
            return ScoreTable(ScoreFile.model_validate(options), remedy)


class ScoreTable(Scorer):
    """The scores of a file by id."""

    columns = ("id",)
    not_bound = "The model that made the scores is not known here; only its scores are."

    def __init__(self, settings: ScoreFile, remedy: str = _REMEDY) -> None:
        self._remedy = remedy
        self.path = self.files = settings.path
        self.digest = json_digest(["scores", self.single_digest, settings.chosen_options])
        scores = settings.read_scores(settings.path, allow_missing=settings.allow_missing)
        self._index, self.scores = scores.index, scores.to_numpy()
        super().refuse_changes()  # the last time: from here on, the scores are in memory

    @property
    def bound(self) -> Bound:
        """Record of the file, for the verdict."""
        return replace(super().bound, what="scores")

    def refuse_changes(self) -> None:
        """Accept any change: the file was read when it was opened."""

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse ids that are only in the file or only in the set: never join by position."""
        wanted = pd.Index(evaluation_set.column("id").to_pandas())
        missing = wanted.difference(self._index, sort=False)
        extra = self._index.difference(wanted, sort=False)
        # The file may have scores for rows that the set lacks, since they have no label.
        if not len(missing) and len(extra) in {0, evaluation_set.n_unlabelled}:
            return
        parts = []
        if len(missing):
            n = format_count(len(missing), "of the set has no score", "of the set have no score")
            parts.append(f"{n}, such as id {format_id(missing[0])}")
        if len(extra):
            singular = "has a score but is not in the set"
            n = format_count(len(extra), singular, "have a score but are not in the set")
            parts.append(f"{n}, such as id {format_id(extra[0])}")
        msg = (
            f"ids of file {self.path} must be those of evaluation set "
            f"{evaluation_set.name!r} ({evaluation_set.n_rows} rows): {'; '.join(parts)}."
            f"{suggest_id_form(missing, extra) or f' {self._remedy}'}"
        )
        raise InputError(msg)

    def score(self, rows: pa.RecordBatch) -> np.ndarray | PartlyScored:
        """Look up the scores of the rows."""
        scores = np.asarray(self.scores[self._index.get_indexer(rows.column("id").to_pandas())])
        missing = np.isnan(scores)
        if not missing.any():
            return scores
        return PartlyScored(scores, [NO_SCORE if is_missing else None for is_missing in missing])
