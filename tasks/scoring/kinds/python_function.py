"""Candidate kind `python`: a function in a package or a file, from texts to scores."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, ByteSize, Field, ValidationInfo

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError, place
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.prefect_task import say
from biasgate.tasks.common.settings import relative_to_configuration
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.candidate import CandidateSettings, Version
from biasgate.tasks.scoring.kinds.function_process import FunctionProcess
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.store import Workplace

_NOT_BOUND = "What the function imports or reads beside its file may change the scores."
_NOT_RECORDED = "is not recorded, only its name and `version`."
_NAME = r"[A-Za-z_][\w.]*"


def _call(value: str, info: ValidationInfo) -> str:
    """Make the path of a file absolute."""
    if re.fullmatch(f"{_NAME}:{_NAME}", value) and not value.partition(":")[0].endswith(".py"):
        return value
    file, _, function = value.rpartition(":")
    if file.endswith(".py") and re.fullmatch(_NAME, function):
        return f"{relative_to_configuration(file, info)}:{function}"
    msg = "must be package.module:function, or file.py:function"
    raise ValueError(msg)


Call = Annotated[str, AfterValidator(_call)]


class PythonFunction(CandidateSettings):
    """A function that takes a list of texts and returns a score or two probabilities for each."""

    kind: Literal["python"]
    call: Call
    """`package.module:function`, or `file.py:function` with a path relative to the configuration.
    """
    version: Version
    """Version of the model behind it. Scores are reused while it and the file stay the same;
    without it they never are."""
    batch_size: Annotated[int, Field(ge=1)] = 1_000
    """Texts per call."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """Limit for one call, and for the import."""
    memory_limit: Annotated[ByteSize, Field(gt=0)] | None = None
    """Bytes that its process may use, or as in `4GB`. Default: 80 % of what is available."""

    @property
    def file(self) -> Path | None:
        """The file that holds the function, or None if it is in a package."""
        module = self.call.rpartition(":")[0]
        return Path(module) if module.endswith(".py") else None

    def check(self) -> None:
        """Raise an error if the package, file or function is missing, without running it."""
        if self.file is not None:
            _check_file(self.file, self.call.rpartition(":")[2], self.name)
            return
        package = self.call.partition(":")[0].partition(".")[0]
        if find_spec(package) is None:
            msg = (
                f"`call` of candidate {self.name!r} must name an installed package; "
                f"got {package!r}."
            )
            raise InputError(msg)

    def open(self, workplace: Workplace) -> FunctionScorer:
        """Open lazily: the function is imported by the first `score`."""
        return FunctionScorer(self, workplace)


def _check_file(path: Path, function: str, candidate: str) -> None:
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except OSError as error:
        msg = f"file {path} of candidate {candidate!r} cannot be read: {error.strerror}."
        raise InputError(msg) from error
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        msg = f"`call` of candidate {candidate!r} must name a Python file; {path} is not one "
        raise InputError(msg + f"{place(line=line)}.") from error
    names = _names(tree)
    wanted = function.partition(".")[0]
    if names is not None and wanted not in names:
        msg = (
            f"`call` of candidate {candidate!r} must name a function of its file; {path} has no "
            f"{wanted!r}.{did_you_mean(wanted, names)}"
        )
        raise InputError(msg)


def _names(tree: ast.Module) -> set[str] | None:
    """Return all names that a file defines anywhere; None if it may define more at run time.

    This includes nested functions: only names that are certainly missing are to be found.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                names.add(name)
            case ast.Name(id="globals" | "exec" | "setattr" | "vars"):
                return None
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name="*"):
                return None
            case ast.alias(name=name, asname=alias):
                names.add(alias or name.partition(".")[0])
    return None if "__getattr__" in names else names


class FunctionScorer(Scorer):
    """The function, in its own process from the first batch on."""

    def __init__(self, settings: PythonFunction, workplace: Workplace) -> None:
        self._settings, self._workplace = settings, workplace
        self._of = f"{settings.call} of candidate {settings.name!r}"
        self.files = settings.file
        self.not_bound = _NOT_BOUND
        if settings.file is None:
            self.not_bound = f"The package behind {settings.call} {_NOT_RECORDED}"
            self.digest = json_digest(["python", settings.call, settings.version])
        else:
            function = settings.call.rpartition(":")[2]
            self.digest = json_digest(["python", self.single_digest, function, settings.version])

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set without text."""
        self._settings.require_text(evaluation_set)

    def try_out(self) -> None:
        """Import the function."""
        say(f"importing {self._of}")
        _ = self._process

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Call the function batch by batch."""
        texts, size = rows.column("text").to_pylist(), self._settings.batch_size
        batches = (texts[start : start + size] for start in range(0, len(texts), size))
        return np.concatenate([self._process.ask(batch) for batch in batches])

    def close(self) -> None:
        """End the process."""
        if "_process" in self.__dict__:
            self._process.close()

    @cached_property
    def _process(self) -> FunctionProcess:
        one = self._settings
        log = self._workplace.store / "logs" / f"{one.name}.log"
        return FunctionProcess(one.call, self._of, one.timeout_s, one.memory_limit, log)
