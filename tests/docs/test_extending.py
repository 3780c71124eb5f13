"""The page on extending: its package is built, installed and used, and its metric added."""

import ast
import json
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from support.blocks import blocks_of
from typer.testing import CliRunner

from biasgate import extend
from biasgate.cli import app
from biasgate.tasks.scoring.training import OPENED_AS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending.md"
FILES = {
    found[1]: block.content
    for block in blocks_of(PAGE)
    if (found := re.match(r"# ([\w/]+\.\w+)\n", block.content))
} | {
    str(one.relative_to(PAGE.parent / "acme")): one.read_text("utf-8")
    for ending in ("*.py", "*.yaml")
    for one in (PAGE.parent / "acme").rglob(ending)
}
MESSAGES = [
    {
        "id": f"m{row}",
        # One comment in seven is not what its words are.
        "message": ("you fool" if row % 2 != (row % 7 == 0) else "good day")
        + " again" * (row % 5)
        + " Gay" * (row % 4 > 1),
        "channel": f"c{row // 4}",
        "moderators": 3,
        "removed_by": 3 * (row % 2),
    }
    for row in range(400)
]


def write(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(FILES[name], "utf-8")
    return folder


def python(*arguments, cwd, path):
    """Run Python with some folders before all others on its path."""
    command = [sys.executable, "-P", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=environment(path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(path):
    return {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The page's package, with its tests and its policy."""
    files = [name for name in FILES if not name.startswith(("bias_metrics", "tests/bias_metrics"))]
    return write(tmp_path_factory.mktemp("acme"), files)


@pytest.fixture(scope="module")
def installed(package, tmp_path_factory):
    """Where the package is installed: built by pip, and away from its sources."""
    target = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", target]
    python("-m", "pip", "install", *options, package, cwd=package, path="")
    assert (target / "acme_biasgate" / "keywords.py").is_file()
    return target


def test_the_tests_of_the_page_s_package_pass_where_it_is_installed(package, installed):
    told = python("-m", "pytest", "-q", package / "tests", cwd=package, path=installed)
    assert "7 passed" in told


@pytest.mark.usefixtures("prefect_server")
def test_its_kinds_are_evaluated_and_judged(installed, tmp_path, monkeypatch):
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    monkeypatch.syspath_prepend(installed)
    monkeypatch.chdir(write(tmp_path, ["evaluation.yaml", "acme.yaml"]))
    Path("export.json").write_text(json.dumps(MESSAGES), "utf-8")
    done = CliRunner().invoke(app, ["evaluate", "evaluation.yaml", "--output", "out"])
    verdict = json.loads(Path("out/chats/list/verdict.json").read_text("utf-8"))
    assert [(one["rule"], one["outcome"]) for one in verdict["results"]] == [
        ("auc/overall", "pass"),
        ("fpr_gap/each/given", "pass"),
    ], verdict["results"]
    assert done.exit_code == 0, done.output + done.stderr
    without = sum("Gay" in one["message"] and "fool" not in one["message"] for one in MESSAGES)
    report = json.loads(Path("out/chats/list/report.json").read_text("utf-8"))
    assert report["candidate"]["kind"] == "keywords"
    assert report["analyses"]["saturation"]["result"] == {"shares": {"gay": without / 200}}
    assert report["evaluation_set"]["choices"]["source"]["conversion"] == "1.0"


@pytest.mark.usefixtures("prefect_server")
def test_its_trained_kind_is_registered_and_scores(installed, tmp_path, monkeypatch):
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    monkeypatch.syspath_prepend(installed)
    monkeypatch.chdir(write(tmp_path, ["trained.yaml"]))
    done = CliRunner().invoke(app, ["train", "trained.yaml", "--store", "store"])
    assert done.stdout == "bayes: models:/acme/1\n", done.output + done.stderr
    options = {"name": "b", "kind": "bayes", "model": "models:/acme/1"}
    rows = pa.record_batch({"id": ["1", "2"], "text": ["gay people are vile", "a kind neighbour"]})
    candidate = extend.CANDIDATES.validate_python(options)
    workplace = extend.Workplace(tmp_path / "store")
    assert candidate.registered(workplace).tags[OPENED_AS] == '{"kind": "mlflow"}'
    with candidate.open(workplace) as scorer:
        worse, better = scorer.score(rows)
    assert worse > 0.5 > better


def test_the_page_s_row_is_all_that_its_metric_needs(tmp_path):
    for name in ("bias_metrics", "tasks", "flows", "deployments", "biasgate"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    table = tmp_path / "bias_metrics" / "metrics.py"
    row = FILES["bias_metrics/metrics.py"].partition("\n")[2]
    before, end, after = table.read_text("utf-8").partition("\n)\n\nMETRICS = ")
    table.write_text(before + "\n" + row.rstrip("\n") + end + after, "utf-8")
    test = "tests/bias_metrics/thresholds/test_flag_rate_gap.py"
    told = python("-m", "pytest", "-q", write(tmp_path, [test]) / test, cwd=tmp_path, path=tmp_path)
    assert "2 passed" in told
    lines = [f"{n},text {n},{n % 2},{n // 2 % 2},{(n * 7 % 10) / 10}" for n in range(400)]
    content = "\n".join(["id,text,toxic,gay,score", *lines])
    (tmp_path / "table.csv").write_text(content, "utf-8")
    columns = ["--label", "toxic", "--identities", "gay", "--score", "score"]
    options = [*columns, "--threshold", "0.5", "--output", "out", "--store", "store"]
    command = ["-m", "biasgate", "evaluate", "table.csv", *options]
    environ = environment(tmp_path) | {"HOME": str(tmp_path)}
    subprocess.run([sys.executable, *command], cwd=tmp_path, env=environ, check=False)
    assert "flag_rate_gap" in next((tmp_path / "out").rglob("bias_metrics.csv")).read_text("utf-8")
    assert (tmp_path / "out" / "report.html").is_file()


def test_packages_import_what_stays():
    imported = {
        alias.name
        for source in FILES.values()
        if "from biasgate.extend" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module == "biasgate.extend"
        for alias in node.names
    }
    assert imported <= set(extend.__all__)
    assert all(hasattr(extend, name) for name in extend.__all__)
    modules = {
        re.match(r"from (biasgate\S*)", line) for line in "\n".join(FILES.values()).split("\n")
    }
    assert {found[1] for found in modules if found} == {"biasgate.extend"}
