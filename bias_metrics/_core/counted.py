"""Counts in words, in the singular or the plural."""

from __future__ import annotations


def format_count(n: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun; `many` is the plural, by default `one` with an s.

    >>> format_count(1, "positive"), format_count(2000, "row has", "rows have")
    ('1 positive', '2,000 rows have')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def format_shortage(n: int, one: str, needed: int) -> str:
    """Format a count that is smaller than needed.

    >>> format_shortage(1, "positive", 25)
    '1 positive where 25 are needed'
    """
    return f"{format_count(n, one)} where {format_count(needed, 'is', 'are')} needed"
