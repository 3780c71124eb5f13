"""The kinds of candidate that a configuration can name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from biasgate.tasks.scoring.kinds.http_endpoint import HttpEndpoint
from biasgate.tasks.scoring.kinds.mlflow_model import MlflowModel
from biasgate.tasks.scoring.kinds.python_function import PythonFunction
from biasgate.tasks.scoring.kinds.score_file import ScoreFile
from biasgate.tasks.scoring.kinds.tfidf import Tfidf
from biasgate.tasks.scoring.kinds.transformer import Transformer

Candidate = Annotated[
    ScoreFile | Tfidf | MlflowModel | PythonFunction | HttpEndpoint | Transformer,
    Field(discriminator="kind"),
]
CANDIDATES: TypeAdapter[Any] = TypeAdapter(Candidate)
