"""Small mistakes are made where code runs, one at a time, and drawn alike from one seed."""

import ast
import os
import py_compile
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

mutations = pytest.importorskip("benchmarks.mutations")

SOURCE = '''\
"""A module."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    LIMIT = 1 + 1
def f(x: int | None, y: "1" = 2) -> int | None:
    """Return one of two."""
    if x is None and not y:
        raise ValueError("no")
    print(x)
    x += y
    return -x if x < y else x * 3
'''


def mistakes():
    found = mutations.list_places(ast.parse(SOURCE))
    return [mutations.mutate(SOURCE, at) for at in range(len(found))]


def test_each_place_that_runs_is_changed_once_and_nothing_else_is():
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    for text, told in mistakes():
        changed = [
            (one, other)
            for one, other in zip(plain, text.splitlines(), strict=True)
            if one != other
        ]
        assert len(changed) == 1, told
        compile(text, "changed", "exec")


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        ("comparison", ["x is not None", "x <= y"]),
        ("operator", ["x is None or not y", "x -= y", "x / 3"]),
        ("sign", ["y", "x"]),
        ("constant", ["3", "4"]),
        ("statement", ["pass", "pass"]),
        ("condition", ["-x if not x < y else x * 3"]),
    ],
)
def test_what_stands_in_its_place(kind, after):
    assert sorted(told.after for _, told in mistakes() if told.kind == kind) == sorted(after)


def test_the_same_seed_draws_the_same_and_each_group_of_rooms_as_often():
    drawn = mutations.draw_mutations(12, 5)
    assert drawn == mutations.draw_mutations(12, 5)
    assert drawn != mutations.draw_mutations(12, 6)
    rooms = Counter(Path(one.file).parts[:2] for one in drawn if one.file.startswith("tasks"))
    assert len(drawn) - rooms.total() == 3
    assert rooms["tasks", "gating"] == rooms["tasks", "verifying"] == 3


def test_a_module_changed_within_a_second_is_compiled_anew(tmp_path):
    module = tmp_path / "signs.py"
    module.write_text("print(2)\n", "utf-8")
    py_compile.compile(str(module))
    of_both = module.stat()
    mutations._write(module, "print(3)\n")
    os.utime(module, ns=(of_both.st_atime_ns, of_both.st_mtime_ns))
    told = subprocess.run(
        [sys.executable, "-c", "import signs"], cwd=tmp_path, capture_output=True, check=True
    )
    assert told.stdout == b"3\n"


@pytest.mark.slow
def test_a_mistake_is_judged_by_the_tests_that_run_its_line_quick_ones_first(tmp_path, monkeypatch):
    """A small checkout: what tests run is noted under each of their names."""
    for name, text in {
        "bias_metrics/__init__.py": "",
        "bias_metrics/signs.py": "LIMIT = 2\n\n\ndef sign(x):\n    if x < LIMIT:\n"
        "        return -1\n    return 1\n",
        "tests/test_signs.py": "import time\n\nimport pytest\n\nfrom bias_metrics.signs import sign"
        "\n\n\n@pytest.mark.parametrize('x', [3, 4])\ndef test_high(x):\n    time.sleep(x - 2)\n"
        "    assert sign(x) == 1\n\n\ndef test_low():\n    assert sign(0)\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    shutil.copytree(mutations.CHECKOUT / "benchmarks", tmp_path / "benchmarks")
    monkeypatch.setattr(mutations, "ROOMS", {"bias_metrics": "signs"})
    monkeypatch.setattr(mutations, "TESTS", ["tests"])
    traced = mutations.Traced.from_run(tmp_path)
    source = (tmp_path / "bias_metrics/signs.py").read_text("utf-8")
    high = ["tests/test_signs.py::test_high[3]", "tests/test_signs.py::test_high[4]"]
    low = "tests/test_signs.py::test_low"
    drawn = sorted(mutations.draw_mutations(5, 1, tmp_path), key=lambda one: one.line)
    limit, is_low, _, _, is_high = drawn
    assert traced.select_tests(is_high, source) == [high, [low]]
    assert traced.select_tests(is_low, source) == [[low, *high], []]
    assert traced.select_tests(limit, source) == [[low, *high], []]  # what a file alone knows
    assert mutations.judge(is_high, traced, tmp_path).killed_by == f"FAILED {high[0]}"
    assert not mutations.judge(limit, traced, tmp_path).killed_by
    assert (tmp_path / "bias_metrics/signs.py").read_text("utf-8") == source
