"""The hint in an error about an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "did_you_mean",
]

# Similarity needed for a hint; if it were lower, `nofile.csv` would match any other CSV file.
_ALIKE = 0.65


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return " Did you mean 'X'?" with the most similar known name, or "".

    >>> did_you_mean("bpsn-auc", ["subgroup_auc", "bpsn_auc"])
    " Did you mean 'bpsn_auc'?"
    """
    by_case = {name.lower(): name for name in known}
    similar = difflib.get_close_matches(str(given).lower(), by_case, n=1, cutoff=_ALIKE)
    return f" Did you mean {by_case[similar[0]]!r}?" if similar else ""
