"""Identities by name: the options, and names that can be parts of MLflow's keys."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints

from bias_metrics.metrics import SUBGROUP_METRICS, list_changed_metrics
from biasgate.tasks.common.printable import without_invisible
from biasgate.tasks.common.settings import Settings

_MLFLOW_KEY = 250
_LONGEST_PREFIX = max(map(len, [*SUBGROUP_METRICS, *list_changed_metrics(), "n_positive"])) + len(
    "/"
)
MOST_CHARACTERS = _MLFLOW_KEY - _LONGEST_PREFIX


def metric_name(subgroup: str) -> str:
    """Return a subgroup's name in an MLflow key: other characters become `_`."""
    return "".join(char if char.isalnum() or char in "_-. :" else "_" for char in subgroup)


def check_identity_names(names: Iterable[str]) -> None:
    """Refuse names that MLflow cannot store, before anything is measured.

    Names that are empty, paths or too long, that have control characters, and two names that look
    the same or would get the same key.
    """
    keys: dict[str, str] = {}
    seen: dict[str, str] = {}
    for name in names:
        visible = " ".join(without_invisible(unicodedata.normalize("NFKC", name)).split())
        if (other := seen.setdefault(visible, name)) != name:
            msg = (
                f"names of identities must look different; {other!a} and {name!a} are "
                "the same text in Unicode, or differ by invisible characters; rename either"
            )
            raise ValueError(msg)
        key = metric_name(name)
        if not 0 < len(key) <= MOST_CHARACTERS or key.strip() in {"", ".", ".."}:
            msg = (
                f"the name of an identity must have 1 to {MOST_CHARACTERS} characters and must not "
                f"be a path, since it is part of MLflow keys, which have at most {_MLFLOW_KEY}; "
                f"got {name[:20]!r}{'...' if len(name) > 20 else ''} with {len(name)} characters"
            )
            raise ValueError(msg)
        if any(unicodedata.category(char) == "Cc" for char in name):
            msg = (
                "the name of an identity must not hold control characters, such as line breaks; "
                f"got {name[:20]!r}. Name the column, as in `identities: {{muslim: COLUMN}}`"
            )
            raise ValueError(msg)
        if key in keys:
            msg = (
                f"names of identities must differ in letters and digits, since both {keys[key]!r} "
                f"and {name!r} are {key!r} in MLflow; rename either"
            )
            raise ValueError(msg)
        keys[key] = name


def named_by_themselves(value: Any) -> Any:
    """Return a list of terms as a dict, in which each names itself; other values unchanged."""
    if not isinstance(value, list):
        return value
    if not all(isinstance(term, str) for term in value):
        msg = "must be a list of texts; put quotes around numbers and words such as no"
        raise ValueError(msg)
    return {term: [term] for term in value}


Term = Annotated[str, StringConstraints(pattern=r"\S")]
Terms = Annotated[
    dict[str, Annotated[list[Term], Field(min_length=1)]],
    BeforeValidator(named_by_themselves, json_schema_input_type=dict[str, list[str]] | list[str]),
]
"""The words of each identity, as in `{muslim: [muslim, muslims]}`, or `[muslim]`."""


class NamedIdentities(Settings):
    """The column in which the names of the identities that a comment mentions stand."""

    column: str
    """Column of names: one in each row, or a list."""
    names: Annotated[Terms, Field(min_length=1)]
    """The names of each identity, as in `{muslim: [Muslim, Muslims]}`, or `[muslim]`."""
    separator: Annotated[str, StringConstraints(min_length=1)] | None = None
    """What separates several names in one cell of text, as in `","`; lists need none. (That of a
    CSV's columns is the set's `separator`.)"""
