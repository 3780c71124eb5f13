"""Hints in errors about unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "did_you_mean",
]

# Similarity required for a hint; at a lower value, `nofile.csv` would match any other CSV file.
_MIN_SIMILARITY = 0.65


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """Return " Did you mean 'X'?" with the most similar name, or an empty string.

    >>> did_you_mean("bpsn-auc", ["subgroup_auc", "bpsn_auc"])
    " Did you mean 'bpsn_auc'?"
    """
    by_case = {name.lower(): name for name in names}
    similar = difflib.get_close_matches(str(given).lower(), by_case, n=1, cutoff=_MIN_SIMILARITY)
    return f" Did you mean {by_case[similar[0]]!r}?" if similar else ""
