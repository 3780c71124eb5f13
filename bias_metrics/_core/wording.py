"""Counts in words, in the singular or the plural."""

from __future__ import annotations

from collections.abc import Mapping


def format_count(n: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun; `many` is the plural, by default `one` with an s.

    >>> format_count(1, "positive"), format_count(2000, "row has", "rows have")
    ('1 positive', '2,000 rows have')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def format_shortage(counts: Mapping[str, int], needed: int) -> str | None:
    """Format the counts that are smaller than needed, by noun; None if all suffice.

    >>> format_shortage({"positive": 1, "negative": 30}, 25)
    '1 positive where 25 are needed'
    """
    short = [format_count(n, noun) for noun, n in counts.items() if n < needed]
    if not short:
        return None
    return f"{' and '.join(short)} where {format_count(needed, 'is', 'are')} needed"
