"""Pages of diagnoses, experiments and mitigations: sentences, tables and pictures, no comments."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from bias_metrics import MetricValue
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.reporting.figures import quiet_about_glyphs

Row = dict[str, Any]
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 2rem; font-size: 13px; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
.scroll { overflow-x: auto; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } }
"""


@dataclass(frozen=True)
class Section:
    """A part of a page."""

    title: str
    """Its heading."""
    about: str = ""
    """What it shows, in words."""
    rows: Sequence[Row] = ()
    """A table; the keys of the first row are its columns."""
    pictures: Sequence[tuple[str, Any]] = field(default_factory=tuple)
    """Descriptions and matplotlib figures."""


def write_page(
    path: Path, title: str, sentences: Sequence[str], sections: Sequence[Section]
) -> None:
    """Write a page that needs no network and no other file."""
    body = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    body += "".join(_section(section) for section in sections)
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )
    with whole_file(path) as temporary:
        temporary.write_text(page, "utf-8")


def _section(section: Section) -> str:
    about = f"<p>{escape(section.about)}</p>" if section.about else ""
    pictures = "".join(_picture(alt, figure) for alt, figure in section.pictures)
    return f"<h2>{escape(section.title)}</h2>{about}{pictures}{_table(section.rows)}"


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    names = list(rows[0])
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(shown(row.get(name)))}</td>" for name in names) + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def shown(value: Any) -> str:
    """Return a cell as text; an undefined number is a dash, a number with an interval has it."""
    if isinstance(value, MetricValue):
        return with_interval(value)
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def with_interval(value: MetricValue) -> str:
    """Return a number and its interval as text; an undefined one is a dash."""
    return "-" if value.value is None else str(value)


def _picture(alt: str, figure: Any) -> str:
    stream = io.BytesIO()
    with quiet_about_glyphs():
        figure.savefig(stream, format="png", dpi=110, bbox_inches="tight")
    code = base64.b64encode(stream.getvalue()).decode()
    return f'<p><img alt="{escape(alt)}" src="data:image/png;base64,{code}"></p>'
