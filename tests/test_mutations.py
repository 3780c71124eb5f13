"""Small mistakes are made where code runs, one at a time, and drawn alike from one seed."""

import ast
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
    found = mutations.places(ast.parse(SOURCE))
    return [mutations.mutated(SOURCE, at) for at in range(len(found))]


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
    drawn = mutations.drawn(12, 5)
    assert drawn == mutations.drawn(12, 5)
    assert drawn != mutations.drawn(12, 6)
    rooms = Counter(Path(one.file).parts[:2] for one in drawn if one.file.startswith("tasks"))
    assert len(drawn) - rooms.total() == 3
    assert rooms["tasks", "gating"] == rooms["tasks", "verifying"] == 3


def test_tests_of_its_own_room_run_first():
    tests = mutations.CHECKOUT / "tests"
    first, *later = mutations.rooms_of("bias_metrics/gate/judging.py", tests)
    assert (first, later) == (["tests/bias_metrics/gate"], [["tests/bias_metrics"]])
    first, *later = mutations.rooms_of("tasks/ledger/alpha.py", tests)
    assert (first, later) == (["tests/tasks/ledger"], [["tests/tasks/promoting"]])
