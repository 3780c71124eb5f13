"""The hint that goes with a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Share of letters in common: by less, `nofile.csv` would be like any other CSV file.
_ALIKE = 0.65


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return " Did you mean 'X'?" with the known name that is most similar, or "".

    Parameters
    ----------
    given : object
        What was given.
    known : iterable of str
        The names that are known.

    Returns
    -------
    str
        Starts with a space, so that it can follow a sentence.

    Examples
    --------
    >>> did_you_mean("bpsn-auc", ["subgroup_auc", "bpsn_auc"])
    " Did you mean 'bpsn_auc'?"
    >>> did_you_mean("martian", ["muslim", "gay"])
    ''
    """
    by_case = {name.lower(): name for name in known}
    similar = difflib.get_close_matches(str(given).lower(), by_case, n=1, cutoff=_ALIKE)
    return f" Did you mean {by_case[similar[0]]!r}?" if similar else ""
