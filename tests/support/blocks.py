"""The blocks of a Markdown page: their content, and why one cannot be run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```(?P<language>\S*)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>[^>]+?) -->\n\Z")
_INDENTED = re.compile(r"(?<=\n\n) {4}\S.*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block, where it starts, and the reason not to run it if the page gives one."""

    line: int
    language: str
    content: str
    not_run: str | None


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text("utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        reason = _NOT_RUN.search(text[: match.start()])
        line = text.count("\n", 0, match.start()) + 1
        why = reason["why"] if reason else None
        found.append(Block(line, match["language"], match["content"], why))
    return found


def indented_blocks(page: Path) -> list[str]:
    """Return the first lines of blocks without fences, which nobody would run."""
    return _INDENTED.findall(_BLOCK.sub("", page.read_text("utf-8")))
