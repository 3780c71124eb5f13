"""What `benchmarks.counts` counts, on a made-up tree of three files."""

import subprocess

import pytest

counts = pytest.importorskip("benchmarks.counts")

LIBRARY = '__all__ = ["auc"]\nfrom bias_metrics.inner.ranks import auc\n'
RANKS = "def auc(one):\n    return one\n"
STEP = '''\
"""A step."""
import json
from typing import Any, Literal

from bias_metrics import auc
from bias_metrics.inner.ranks import auc as deep

Kind = Literal["floor"]


def read(report: dict[str, Any], *, kind: Literal["floor"]) -> list[dict[str, Any]]:
    report["written"] = json.loads("{}")["read from JSON"]["so is this"]
    return [report["bias"]["overall"], deep, auc, kind]
'''


def git(folder, *arguments):
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path):
    contents = {
        "bias_metrics/__init__.py": LIBRARY,
        "bias_metrics/inner/ranks.py": RANKS,
        "tasks/step.py": STEP,
    }
    for path, content in contents.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "a tree")
    return tmp_path


def test_every_count_of_three_files(tree):
    counted = counts.counts(counts.sources(tree, None))
    told = {label: number for label, number in counted.items() if number}
    assert told == {
        "source lines": 4 + 13,
        "  bias_metrics: lines": 4,
        "  tasks: lines": 13,
        "source files": 3,
        "string subscripts outside the library": 3,
        "  tasks: subscripts": 3,
        "dict[str, Any] as parameters, tasks and flows": 1,
        "dict[str, Any] as returns, tasks and flows": 1,
        "modules with one importer or none": 1,
        "deep imports past the library's faces": 1,
        "the word `one` per 1,000 source lines": round(1000 * 2 / 17),
        "functions": 2,
    }


def test_a_subpackage_with_an_all_is_a_face(tree):
    (tree / "bias_metrics/inner/__init__.py").write_text('__all__ = ["auc"]\n')
    step = tree / "tasks/step.py"
    step.write_text(STEP.replace("bias_metrics.inner.ranks", "bias_metrics.inner"))
    git(tree, "add", ".")
    counted = counts.counts(counts.sources(tree, None))
    assert counted["deep imports past the library's faces"] == 0


def test_a_body_is_long_from_its_first_statement_after_the_docstring(tree):
    docstring = '    """Say.\n' + "\n" * 60 + '    """\n'
    for n_statements, n_long in ((40, 0), (41, 1)):
        body = "    x = 1\n" * n_statements
        (tree / "tasks/step.py").write_text(f"def long():\n{docstring}{body}")
        counted = counts.counts(counts.sources(tree, None))
        assert counted["functions of more than 40 body lines"] == n_long


def test_a_revision_stands_beside_a_later_one(tree, capsys):
    (tree / "tasks/step.py").write_text(STEP + "\n\nREAD = read\n")
    (tree / "tasks/untracked.py").write_text("x = 1\n" * 500)
    git(tree, "commit", "-am", "three lines more")
    counts.main([str(tree), "--at", "HEAD~1", "--at", "HEAD"])
    printed = capsys.readouterr().out.splitlines()
    [line] = [line for line in printed if line.startswith("source lines")]
    assert line.split()[-2:] == ["17", "20"]
