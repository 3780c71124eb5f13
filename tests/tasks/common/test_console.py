"""Lines are wrapped between words, except in commands and paths that users copy."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from biasgate.tasks.common.console import wrap_text


def wrapped(text, width=20, indent=2):
    out = Console(width=width, file=io.StringIO())
    return [line.plain for line in wrap_text(out, Text(text), indent)]


def test_a_line_that_continues_another_is_indented_more():
    assert wrapped("  one two three four five") == ["  one two three four", "    five"]
    assert wrapped("one two three four five\n\nsix") == ["one two three four", "  five", "", "six"]


@pytest.mark.parametrize(
    "whole",
    [
        "biasgate show 'a b' --all --store 'my store'",
        "mlflow db upgrade sqlite:////store/mlflow.db",
        "/a/folder/with/a/long/name.",
        "`biasgate history toxicity --all`.",
    ],
)
def test_a_command_and_a_path_stay_on_one_line(whole):
    assert wrapped(f"To see all of it: {whole}") == ["To see all of it:", f"  {whole}"]


def test_a_long_name_is_cut_at_the_width_also_if_its_letters_are_wide():
    assert wrapped("x" * 50) == ["x" * 20, "  " + "x" * 18, "  " + "x" * 12]
    assert wrapped("漢" * 25) == ["漢" * 10, "  " + "漢" * 9, "  " + "漢" * 6]


@given(st.text(st.sampled_from("ab 漢-`:"), max_size=120), st.integers(4, 40))
def test_every_line_fits_and_nothing_but_spaces_is_lost(text, width):
    lines = wrapped(text, width)
    assert max(map(cell_len, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())
