"""All messages that are looked up in catalogues: in Python, in templates, of metrics."""

from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract, extract_python
from jinja2.ext import babel_extract

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS

ROOT = Path(__file__).parents[2] / "tasks"
CATALOGUES = ROOT / "common" / "catalogues"
_CALLS = {"phrase": None, "marked": None, "looked_up": None, "say": None, "phrase_of": (2, 3)}
# Separators are given to a function by position.
_SEPARATORS = (", ", "; ", ". ")


def expected() -> Catalog:
    """Return every message of the source."""
    found = Catalog(charset="utf-8")
    for path in sorted(ROOT.rglob("*.py")):
        if "phrase" in (text := path.read_text("utf-8")) or "marked(" in text:
            with path.open("rb") as file:
                for _, message, _, _ in extract(extract_python, file, _CALLS):
                    found.add(message)
    for path in sorted(ROOT.rglob("*.html")):
        with path.open("rb") as file:
            for _, function, message, _ in babel_extract(file, list(_CALLS), [], {}):
                if function in _CALLS:
                    found.add(message if isinstance(message, str) else message[0])
    for message in (*_of_metrics(), *_SEPARATORS):
        found.add(message)
    return found


def _of_metrics() -> Iterator[str]:
    for metric in METRICS.values():
        if metric.harm:
            yield from dict.fromkeys(metric.harm.replace("{side}", one) for one in metric.sides)
    yield from (METRICS[name].hint for name in SUBGROUP_METRICS)
    yield from (one.title for name, one in METRICS.items() if name not in SUBGROUP_METRICS)
