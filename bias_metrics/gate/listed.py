"""Numbers of rows that are the whole list in question: they have no sampling error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF_SAMPLES = {"reason", "row_std_error", "n_clusters", "p_value", "p_holm", "p_bh"}


def without_sampling_error(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report or comparison whose intervals have zero width.

    Phrases made from templates are a list that somebody wrote, and not drawn from anything. The
    value on the list is known exactly. Intervals would be about other lists of such phrases,
    which a few templates say almost nothing about.

    Parameters
    ----------
    content : mapping
        `BiasReport.to_dict()` or `BiasComparison.to_dict()`, or a mapping of them.

    Returns
    -------
    dict
        The same values; those that are undefined stay undefined.

    Examples
    --------
    >>> without_sampling_error({"auc": {"value": 0.9, "low": 0.8, "high": 0.95}})
    {'auc': {'value': 0.9, 'low': 0.9, 'high': 0.9, 'std_error': 0.0}}
    """
    if "value" in content:
        return dict(content) if content["value"] is None else _exact(content)
    return {
        key: without_sampling_error(value) if isinstance(value, Mapping) else value
        for key, value in content.items()
    }


def _exact(cell: Mapping[str, Any]) -> dict[str, Any]:
    value = cell["value"]
    found = {key: one for key, one in cell.items() if key not in _OF_SAMPLES}
    found |= {"low": value, "high": value, "std_error": 0.0}
    if "first" in cell:
        size = abs(cell["first"]) - abs(cell["second"])
        found |= {"size_low": size, "size_high": size}
    return found
