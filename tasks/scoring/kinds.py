"""The kinds of candidate that a configuration can name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from tasks.scoring.http_endpoint import HttpEndpoint
from tasks.scoring.mlflow_model import MlflowModel
from tasks.scoring.python_function import PythonFunction
from tasks.scoring.score_file import ScoreFile
from tasks.scoring.tfidf import Tfidf
from tasks.scoring.transformer import Transformer

Candidate = Annotated[
    ScoreFile | Tfidf | MlflowModel | PythonFunction | HttpEndpoint | Transformer,
    Field(discriminator="kind"),
]
CANDIDATES: TypeAdapter[Any] = TypeAdapter(Candidate)
