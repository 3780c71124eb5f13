"""Results by name, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_dicts(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of each result, by name."""
    return {name: value.to_dict() for name, value in named.items()}
