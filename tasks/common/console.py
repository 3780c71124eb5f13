"""The terminal: how wide it is, how lines are wrapped, and how texts of others are shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from biasgate.tasks.common.command_lines import NAME, command
from biasgate.tasks.common.printable import printable

_WIDTH = 118


def console(*, stderr: bool = False) -> Console:
    """Return a console that does not cut tables if the output is not a terminal."""
    found = Console(stderr=stderr, highlight=False, emoji=False)
    if has_width(found):
        return found
    return Console(stderr=stderr, highlight=False, emoji=False, width=_WIDTH)


def has_width(out: Console) -> bool:
    """Return whether lines must fit a width: that of a terminal, or `COLUMNS` in a pipe."""
    return out.is_terminal or "COLUMNS" in os.environ


def shown(text: str, *, keep: str = "") -> str:
    """Return a text of others for the console: neither control characters nor markup work."""
    return escape(printable(text, keep=keep))


def print_text(out: Console, text: Text, indent: int = 2, *, in_pipe: bool = False) -> None:
    """Print a text in lines that fit the width, as `wrap_text` makes them.

    A pipe gets each line whole, for programs that search it, unless `in_pipe`.
    """
    lines = wrap_text(out, text, indent) if in_pipe or has_width(out) else [text]
    for line in lines:
        out.print(line, soft_wrap=True)


def wrap_text(out: Console, text: Text, indent: int = 2) -> list[Text]:
    """Return a text in lines that fit the width of the console.

    A command and a word with a slash, such as a path, stay whole so that they can be copied: they
    may be wider. Lines that continue another are indented by `indent` more columns.
    """
    found = []
    for line in text.split(allow_blank=True):
        first, most = len(line.plain) - len(line.plain.lstrip(" ")), out.width // 2
        kept = line[first - most :] if first > most else line
        margin = min(first + indent, most)
        parts = kept.divide(list(_find_breaks(kept.plain, out.width, margin)))
        for at, part in enumerate(parts):
            part.rstrip()
            found.append(Text(" " * margin) + part if at else part)
    return found


def _find_breaks(line: str, width: int, margin: int) -> Iterator[int]:
    """Yield where a line is wrapped; the lines that follow it begin at the margin."""
    name = f"(?:{NAME}|{re.escape(command())})"
    whole = rf"`{name} [^`]+`\S*|(?<=: )(?:{name}|mlflow) .+"
    end = used = 0
    for word in re.finditer(rf"{whole}|\S+(?: \.\.\.$)?", line):
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
