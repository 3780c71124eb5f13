"""Numbers of things in words, with the singular where there is one."""

from __future__ import annotations


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a number of things; `many` is what several are called, by default `one` with an s.

    >>> counted(1, "positive"), counted(0, "positive"), counted(2000, "row has", "rows have")
    ('1 positive', '0 positives', '2,000 rows have')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def too_few(n: int, one: str, needed: int) -> str:
    """Say how many things there are, and how many are needed.

    >>> too_few(1, "positive", 25)
    '1 positive where 25 are needed'
    """
    return f"{counted(n, one)} where {counted(needed, 'is', 'are')} needed"
