"""The kinds of candidates in a configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, SerializeAsAny, TypeAdapter

from biasgate.tasks.common.catalogue import Catalogue
from biasgate.tasks.scoring.candidate import CandidateSettings

_HERE = "biasgate.tasks.scoring.kinds"
KINDS = Catalogue(
    key="kind",
    group="biasgate.candidates",
    base=CandidateSettings,
    own={
        "scores": f"{_HERE}.score_file:ScoreFile",
        "tfidf": f"{_HERE}.tfidf:Tfidf",
        "mlflow": f"{_HERE}.mlflow_model:MlflowModel",
        "python": f"{_HERE}.python_function:PythonFunction",
        "http": f"{_HERE}.http_endpoint:HttpEndpoint",
        "transformer": f"{_HERE}.transformer:Transformer",
    },
    hints={
        **dict.fromkeys(("csv", "file"), "Write `kind: scores` for a file of scores."),
        **dict.fromkeys(("function", "callable"), "Write `kind: python` for a function."),
        **dict.fromkeys(
            ("sklearn", "pyfunc"), "Write `kind: mlflow` for a model that MLflow registered."
        ),
        **dict.fromkeys(
            ("huggingface", "hf", "bert"), "Write `kind: transformer` for a Hugging Face model."
        ),
        **dict.fromkeys(
            ("endpoint", "rest", "url", "judge", "llm"), "Write `kind: http` for a served model."
        ),
    },
)
Candidate = Annotated[SerializeAsAny[CandidateSettings], BeforeValidator(KINDS.read)]
CANDIDATES: TypeAdapter[CandidateSettings] = TypeAdapter(Candidate)
