"""Terminal output: width, wrapped lines and escaped foreign text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from biasgate.tasks.common.command_lines import NAME, get_command
from biasgate.tasks.common.printable import escape_invisible

_WIDTH = 118


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that does not truncate tables if the output is not a terminal."""
    output = Console(stderr=stderr, highlight=False, emoji=False)
    if has_width(output):
        return output
    return Console(stderr=stderr, highlight=False, emoji=False, width=_WIDTH)


def has_width(out: Console) -> bool:
    """Return True if lines must fit a width: that of a terminal, or `COLUMNS` in a pipe."""
    return out.is_terminal or "COLUMNS" in os.environ


def escape_text(text: str) -> str:
    """Return foreign text with its control characters and console markup escaped."""
    return escape(escape_invisible(text))


def print_text(out: Console, text: Text, indent: int = 2, *, in_pipe: bool = False) -> None:
    """Print a text wrapped by `wrap_text`.

    Lines in a pipe are not wrapped, since programs may search them, unless `in_pipe` is set.
    """
    lines = wrap_text(out, text, indent) if in_pipe or has_width(out) else [text]
    for line in lines:
        out.print(line, soft_wrap=True)


def wrap_text(out: Console, text: Text, indent: int = 2) -> list[Text]:
    """Split a text into lines that fit the width of the console.

    Commands, and words with a slash such as paths, are not split, so that they can be copied. They
    may exceed the width. Continuation lines are indented by `indent` more columns.
    """
    wrapped = []
    for line in text.split(allow_blank=True):
        margin_width, max_indent = len(line.plain) - len(line.plain.lstrip(" ")), out.width // 2
        body = line[margin_width - max_indent :] if margin_width > max_indent else line
        margin = min(margin_width + indent, max_indent)
        parts = body.divide(list(_find_breaks(body.plain, out.width, margin)))
        for i, part in enumerate(parts):
            part.rstrip()
            wrapped.append(Text(" " * margin) + part if i else part)
    return wrapped


def _find_breaks(line: str, width: int, margin: int) -> Iterator[int]:
    """Yield the positions of the breaks of a line; continuation lines start at `margin`."""
    name = f"(?:{NAME}|{re.escape(get_command())})"
    unbroken = rf"`{name} [^`]+`\S*|(?<=: )(?:{name}|mlflow) .+"
    end = used = 0
    for word in re.finditer(rf"{unbroken}|\S+(?: \.\.\.$)?", line):
        start, text = word.start(), word.group()
        gap = cell_len(line[end:start])
        end = word.end()
        if used and used + gap + cell_len(text) > width:
            yield start
            used, gap = margin, 0
        while used + gap + cell_len(text) > width and not {"/", " "} & set(text):
            cut = len(chop_cells(text, max(width - used - gap, 2))[0])
            start, text = start + cut, text[cut:]
            yield start
            used, gap = margin, 0
        used += gap + cell_len(text)
