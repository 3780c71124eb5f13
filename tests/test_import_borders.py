"""The rooms and their borders: imports only ever point left.

bias_metrics <- tasks <- flows <- deployments <- biasgate

`bias_metrics` knows numpy and the standard library only, without its doors to the outside. A
few of its files import one more library when a user asks for it, through `optional(...)`;
tests/bias_metrics/test_optional.py shows that nothing else imports it.
Prefect comes in through `tasks/common/prefect_task.py` and is at home in flows and deployments;
MLflow comes in through `tasks/mlflow_server/runs.py` and `tasks/mlflow_server/versions.py` (its server),
`tasks/mlflow_server/model_folders.py` (its model folders) and `tasks/tracking/mlflow_plugin.py` (its plugin) alone. An import
inside a function, under `TYPE_CHECKING` or by name (`importlib.import_module("mlflow")`) counts
like any other.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("bias_metrics", "tasks", "flows", "deployments", "biasgate")
OUTSIDE = {"os", "pathlib", "time", "random"}
CLOCK = {"today", "now", "utcnow"}  # of `datetime`, whose dates are values like any other
PURE = {"numpy", *sys.stdlib_module_names} - OUTSIDE
# Where `bias_metrics` uses a library that it does not need.
ON_REQUEST = {
    "matplotlib": ("bias_metrics/plot/",),
    "pandas": ("bias_metrics/_core/tables.py", "bias_metrics/kaggle.py"),
    "polars": ("bias_metrics/_core/tables.py",),
}
PREFECT_AT_HOME = ("flows/", "deployments/", "tasks/common/prefect_task.py")
MLFLOW_DOORS = tuple(
    f"tasks/{name}.py"
    for name in ("mlflow_gateway", "mlflow_registry", "mlflow_models", "evaluator")
)
FILES = sorted(
    file.relative_to(ROOT).as_posix() for room in ROOMS for file in (ROOT / room).rglob("*.py")
)


def imported_modules(source: str, path: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every module that the source of `path` imports."""
    package = Path(path).parent.parts
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            # Without a module (`from .. import flows`) the names are modules themselves.
            names = [base] if node.module else [f"{base}.{n.name}".strip(".") for n in node.names]
            yield from ((node.lineno, name) for name in names)
        elif isinstance(node, ast.Call) and node.args:
            function, name = node.func, node.args[0]
            called = getattr(function, "attr", getattr(function, "id", ""))
            by_name = called in {"import_module", "__import__", "optional"}
            if by_name and isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value


def objection(path: str, module: str) -> str | None:
    """Why the file at `path` may not import `module`; None if it may."""
    room, top = path.split("/", maxsplit=1)[0], module.split(".", maxsplit=1)[0]
    if top in ROOMS:
        if ROOMS.index(top) > ROOMS.index(room):
            return f"{room} is left of {top}"
    elif top in {"tests", "benchmarks"}:
        return f"{top} is not installed"
    elif room == "bias_metrics" and top not in PURE:
        return None if path.startswith(ON_REQUEST.get(top, ())) else "bias_metrics is pure"
    elif top.startswith("prefect") and not path.startswith(PREFECT_AT_HOME):
        return "Prefect comes in through tasks/common/prefect_task.py"
    elif top == "mlflow" and path not in MLFLOW_DOORS:
        return f"MLflow comes in through {' and '.join(MLFLOW_DOORS)}"
    return None


def violations(source: str, path: str) -> list[str]:
    return [
        f"{path}:{line}: imports {module}, but {why}"
        for line, module in imported_modules(source, path)
        if (why := objection(path, module))
    ]


def looks_at_the_clock(source: str) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) in CLOCK
    ]


@pytest.mark.parametrize("path", [one for one in FILES if one.startswith("bias_metrics/")])
def test_the_first_room_never_looks_at_the_clock(path):
    assert looks_at_the_clock((ROOT / path).read_text(encoding="utf-8")) == []
    assert looks_at_the_clock("from datetime import date\nx = date.today()") == [2]


@pytest.mark.parametrize("path", FILES)
def test_a_file_imports_nothing_from_beyond_its_border(path):
    assert violations((ROOT / path).read_text(encoding="utf-8"), path) == []


def test_every_file_of_the_first_room_is_read():
    assert {"bias_metrics/__init__.py", "bias_metrics/report/report.py"} <= set(FILES)


@pytest.mark.parametrize(
    ("path", "source", "why"),
    [
        ("tasks/measuring/identities.py", "import biasgate.flows.train", "tasks is left of flows"),
        ("tasks/measuring/identities.py", "from flows import train", "tasks is left of flows"),
        ("tasks/data/reading.py", "def f():\n    import flows", "tasks is left of flows"),
        ("flows/train.py", "if TYPE_CHECKING:\n    import biasgate", "flows is left of biasgate"),
        ("flows/train.py", "import_module('deployments.x')", "flows is left of deployments"),
        ("deployments/serve.py", "from biasgate import main", "deployments is left of biasgate"),
        ("bias_metrics/report/report.py", "import tasks", "bias_metrics is left of tasks"),
        ("bias_metrics/report/report.py", "import math, pandas", "bias_metrics is pure"),
        ("bias_metrics/report/report.py", "import scipy.stats as st", "bias_metrics is pure"),
        ("bias_metrics/report/report.py", "from os import path", "bias_metrics is pure"),
        ("bias_metrics/report/report.py", "import random", "bias_metrics is pure"),
        ("bias_metrics/report/report.py", "optional('matplotlib.figure', 'x')", "bias_metrics is pure"),
        ("bias_metrics/plot/_grids.py", "optional('pandas', 'x')", "bias_metrics is pure"),
        ("bias_metrics/plot/_grids.py", "import scipy", "bias_metrics is pure"),
        ("tasks/measuring/identities.py", "import prefect", "Prefect comes in"),
        ("tasks/data/reading.py", "from prefect import task", "Prefect comes in"),
        ("biasgate/__main__.py", "import prefect.states", "Prefect comes in"),
        ("tasks/gating/verdict.py", "from prefect_dask import DaskTaskRunner", "Prefect comes in"),
        ("tasks/tracking/log_runs.py", "def f():\n    from mlflow.models import x", "MLflow comes in"),
        ("tasks/data/mlflow_gateway.py", "import mlflow", "MLflow comes in"),
        ("biasgate/__main__.py", "__import__('mlflow')", "MLflow comes in"),
        ("flows/train.py", "importlib.import_module('mlflow.pyfunc')", "MLflow comes in"),
        ("flows/train.py", "import tests.flows", "tests is not installed"),
    ],
)
def test_an_import_across_a_border_is_caught_with_its_line(path, source, why):
    [found] = violations(source, path)
    assert found.startswith(f"{path}:{source.count(chr(10)) + 1}: imports ")
    assert why in found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("bias_metrics/report/report.py", "import math\nimport numpy.typing\nfrom ._cells import Cells"),
        ("bias_metrics/plot/_grids.py", "optional('matplotlib.figure', 'x')"),
        ("bias_metrics/kaggle.py", "optional('pandas', 'x')"),
        ("tasks/measuring/identities.py", "import pandas\nimport os\nfrom bias_metrics import roc_auc"),
        ("tasks/common/prefect_task.py", "import prefect\nfrom prefect.cache_policies import NO_CACHE"),
        ("tasks/mlflow_server/runs.py", "import mlflow.pyfunc\nfrom mlflow import MlflowClient"),
        ("flows/train.py", "from prefect import flow\nfrom biasgate.tasks.scoring import training"),
        ("deployments/serve.py", "import prefect\nimport biasgate.flows.train"),
        ("biasgate/__main__.py", "import typer\nimport deployments, flows, tasks, bias_metrics"),
        ("tasks/data/reading.py", "from .. import errors\nfrom ..scoring import kinds"),
    ],
)
def test_an_import_that_points_left_is_allowed(path, source):
    assert violations(source, path) == []


def test_relative_imports_are_resolved_against_the_file_that_holds_them():
    source = "from . import a\nfrom .b import c\nfrom .. import d\nfrom ..e.f import g"
    assert list(imported_modules(source, "tasks/data/reading.py")) == [
        (1, "biasgate.tasks.data.a"),
        (2, "biasgate.tasks.data.b"),
        (3, "tasks.d"),
        (4, "tasks.e.f"),
    ]
