"""Numbers of things in words, with the singular where there is one."""

from __future__ import annotations


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a number of things.

    Parameters
    ----------
    n : int
        How many.
    one : str
        What one of them is called.
    many : str, optional
        What several are called. Default: `one` with an s.

    Returns
    -------
    str
        The number and the noun.

    Examples
    --------
    >>> counted(1, "positive"), counted(0, "positive"), counted(2000, "row has", "rows have")
    ('1 positive', '0 positives', '2,000 rows have')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def too_few(n: int, one: str, needed: int) -> str:
    """Say how many things there are, and how many are needed.

    Examples
    --------
    >>> too_few(1, "positive", 25)
    '1 positive where 25 are needed'
    >>> too_few(0, "row", 1)
    '0 rows where 1 is needed'
    """
    return f"{counted(n, one)} where {counted(needed, 'is', 'are')} needed"
