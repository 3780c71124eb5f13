"""The packages and their borders: imports only point left.

bias_metrics <- tasks <- flows <- deployments <- biasgate

`bias_metrics` may use numpy and the parts of the standard library that do not reach outside. A few
of its files import one more library when a user asks for it, through `optional(...)`;
tests/bias_metrics/test_optional.py shows that nothing else imports it. Prefect is used in flows and
deployments, and in `tasks` only by `common/prefect_task.py` and `common/prefect_artifacts.py`.
MLflow is used only by `tasks/mlflow_server` and by its plugin, `tasks/tracking/mlflow_plugin.py`.
The rooms are imported
as `biasgate.tasks`, `biasgate.flows` and `biasgate.deployments`, so that an installed biasgate owns
no common name. An import inside a function, under `TYPE_CHECKING` or by name
(`importlib.import_module("mlflow")`) counts like any other.
"""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
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
    "pandas": ("bias_metrics/_core/tables.py", "bias_metrics/kaggle.py", "bias_metrics/table.py"),
    "polars": ("bias_metrics/_core/tables.py",),
}
PREFECT_AT_HOME = (
    "flows/",
    "deployments/",
    "tasks/common/prefect_task.py",
    "tasks/common/prefect_artifacts.py",
)
MLFLOW_AT_HOME = ("tasks/mlflow_server/", "tasks/tracking/mlflow_plugin.py")
FILES = sorted(
    file.relative_to(ROOT).as_posix() for room in ROOMS for file in (ROOT / room).rglob("*.py")
)


def imported_modules(source: str, path: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every module that the source of `path` imports."""
    package = ("biasgate", *Path(path).parent.parts)
    if path.startswith(("bias_metrics/", "biasgate/")):
        package = Path(path).parent.parts
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            # Without a module (`from .. import flows`), and from a package that holds rooms, the
            # names are modules themselves.
            bare = not node.module or base == "biasgate"
            names = [f"{base}.{n.name}".strip(".") for n in node.names] if bare else [base]
            yield from ((node.lineno, name) for name in names)
        elif isinstance(node, ast.Call) and node.args:
            function, name = node.func, node.args[0]
            called = getattr(function, "attr", getattr(function, "id", ""))
            by_name = called in {"import_module", "__import__", "optional"}
            if by_name and isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value


def room_of(module: str) -> str | None:
    """The room that a module of ours is in; None if it is not ours."""
    top, _, rest = module.partition(".")
    inner = rest.partition(".")[0]
    if top == "biasgate" and inner in ROOMS:
        return inner
    return top if top in {"bias_metrics", "biasgate"} else None


def objection(path: str, module: str) -> str | None:
    """Why the file at `path` may not import `module`; None if it may."""
    room, top = path.split("/", maxsplit=1)[0], module.split(".", maxsplit=1)[0]
    imported = room_of(module)
    forbidden = [
        (
            imported and ROOMS.index(imported) > ROOMS.index(room),
            f"{room} is left of {imported}",
        ),
        (not imported and top in ROOMS, f"an installed biasgate has it as biasgate.{module}"),
        (top in {"tests", "benchmarks"}, f"{top} is not installed"),
        (
            room == "bias_metrics"
            and not imported
            and top not in PURE
            and not path.startswith(ON_REQUEST.get(top, ())),
            "bias_metrics is pure",
        ),
        (
            top.startswith("prefect") and not path.startswith(PREFECT_AT_HOME),
            f"Prefect belongs in {' and '.join(PREFECT_AT_HOME)}",
        ),
        (
            top == "mlflow" and not path.startswith(MLFLOW_AT_HOME),
            f"MLflow belongs in {' and '.join(MLFLOW_AT_HOME)}",
        ),
    ]
    return next((why for broken, why in forbidden if broken), None)


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
    assert {
        "bias_metrics/__init__.py",
        "bias_metrics/table.py",
        "bias_metrics/_core/cells.py",
    } <= set(FILES)


@pytest.mark.parametrize(
    ("path", "source", "why"),
    [
        ("tasks/data/table.py", "import biasgate.flows.train", "tasks is left of flows"),
        ("tasks/data/table.py", "from biasgate.flows import train", "tasks is left of flows"),
        ("tasks/data/table.py", "from biasgate import flows", "tasks is left of flows"),
        ("tasks/data/table.py", "def f():\n    import biasgate.flows", "tasks is left of flows"),
        ("tasks/data/table.py", "import biasgate.cli", "tasks is left of biasgate"),
        ("tasks/data/table.py", "import tasks.errors", "an installed biasgate has it as"),
        ("flows/train.py", "from flows import judge", "an installed biasgate has it as"),
        ("flows/train.py", "if TYPE_CHECKING:\n    import biasgate", "flows is left of biasgate"),
        ("flows/train.py", "import_module('biasgate.deployments.x')", "flows is left of"),
        ("deployments/serve.py", "from biasgate import cli", "deployments is left of biasgate"),
        ("bias_metrics/metrics.py", "import biasgate.tasks", "bias_metrics is left of tasks"),
        ("bias_metrics/metrics.py", "import math, pandas", "bias_metrics is pure"),
        ("bias_metrics/metrics.py", "import scipy.stats as st", "bias_metrics is pure"),
        ("bias_metrics/metrics.py", "from os import path", "bias_metrics is pure"),
        ("bias_metrics/metrics.py", "import random", "bias_metrics is pure"),
        ("bias_metrics/metrics.py", "optional('matplotlib.figure', 'x')", "bias_metrics is pure"),
        ("bias_metrics/plot/_report.py", "optional('pandas', 'x')", "bias_metrics is pure"),
        ("bias_metrics/plot/_report.py", "import scipy", "bias_metrics is pure"),
        ("tasks/data/table.py", "import prefect", "Prefect belongs in"),
        ("tasks/data/table.py", "from prefect import task", "Prefect belongs in"),
        ("biasgate/__main__.py", "import prefect.states", "Prefect belongs in"),
        ("tasks/store.py", "from prefect_dask import DaskTaskRunner", "Prefect belongs in"),
        ("tasks/store.py", "def f():\n    from mlflow.models import x", "MLflow belongs in"),
        ("tasks/data/mlflow_server.py", "import mlflow", "MLflow belongs in"),
        ("biasgate/__main__.py", "__import__('mlflow')", "MLflow belongs in"),
        ("flows/train.py", "importlib.import_module('mlflow.pyfunc')", "MLflow belongs in"),
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
        ("bias_metrics/metrics.py", "import math\nimport numpy.typing\nfrom ._core import cells"),
        ("bias_metrics/plot/_report.py", "optional('matplotlib.figure', 'x')"),
        ("bias_metrics/kaggle.py", "optional('pandas', 'x')"),
        ("tasks/data/table.py", "import pandas\nimport os\nfrom bias_metrics import roc_auc"),
        ("tasks/common/prefect_task.py", "import prefect\nfrom prefect.cache_policies import X"),
        ("tasks/mlflow_server/runs.py", "import mlflow.pyfunc\nfrom mlflow import MlflowClient"),
        ("flows/train.py", "from prefect import flow\nfrom biasgate.tasks.scoring import training"),
        ("deployments/serve.py", "import prefect\nimport biasgate.flows.train"),
        ("biasgate/cli.py", "import typer\nimport biasgate.deployments, biasgate.flows"),
        ("tasks/data/table.py", "from ..common import errors\nfrom ..scoring import kinds"),
    ],
)
def test_an_import_that_points_left_is_allowed(path, source):
    assert violations(source, path) == []


def test_relative_imports_are_resolved_against_the_file_that_holds_them():
    source = "from . import a\nfrom .b import c\nfrom .. import d\nfrom ..e.f import g"
    assert list(imported_modules(source, "tasks/data/reading.py")) == [
        (1, "biasgate.tasks.data.a"),
        (2, "biasgate.tasks.data.b"),
        (3, "biasgate.tasks.d"),
        (4, "biasgate.tasks.e.f"),
    ]


@pytest.mark.parametrize("top", ["bias_metrics", "tasks"])
def test_the_rooms_within_a_package_form_no_circle(top):
    inner: dict[str, set[str]] = {}
    for path in FILES:
        if path.startswith(f"{top}/"):
            mine = inner_room(path.removesuffix(".py").replace("/", "."))
            source = (ROOT / path).read_text(encoding="utf-8")
            others = {
                inner_room(module.removeprefix("biasgate."))
                for _, module in imported_modules(source, path)
                if module.removeprefix("biasgate.").startswith(f"{top}.")
            }
            inner.setdefault(mine, set()).update(others - {mine})
    list(TopologicalSorter(inner).static_order())  # raises CycleError


def test_a_circle_of_rooms_would_be_found():
    with pytest.raises(CycleError):
        list(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())


def inner_room(module: str) -> str:
    """`tasks.scoring.kinds.tfidf` is in `scoring`; a module beside the rooms is its own."""
    return module.split(".")[1]


def test_the_package_of_flows_names_each_flow():
    sources = {path.name: path.read_text("utf-8") for path in (ROOT / "flows").glob("*.py")}
    named = re.findall(r'^@flow\(\s*name="(\w+)"', "\n".join(sources.values()), re.MULTILINE)
    assert len(named) == 5
    assert [name for name in named if f"`{name}`" not in sources["__init__.py"]] == []
