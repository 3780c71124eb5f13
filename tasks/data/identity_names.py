"""Names of identities: their options, and their use in MLflow keys."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, field_validator

from bias_metrics.metrics import SUBGROUP_METRICS, list_changed_metrics
from biasgate.tasks.common.printable import remove_invisible
from biasgate.tasks.common.settings import Settings

_MAX_KEY_LENGTH = 250
_PREFIXES = [*SUBGROUP_METRICS, *list_changed_metrics(), "n_positive"]
MAX_NAME_LENGTH = _MAX_KEY_LENGTH - max(map(len, _PREFIXES)) - len("/")


def sanitize_name(subgroup: str) -> str:
    """Return a subgroup's name for MLflow keys; characters that MLflow refuses become `_`."""
    return "".join(char if char.isalnum() or char in "_-. :" else "_" for char in subgroup)


def check_identity_names(names: Iterable[str]) -> None:
    """Refuse names that MLflow cannot store.

    A name must not be empty, too long or a path, and must not contain control characters. Two names
    must not look the same, and must not have the same MLflow key.
    """
    names_by_key: dict[str, str] = {}
    names_by_look: dict[str, str] = {}
    for name in names:
        visible = " ".join(remove_invisible(unicodedata.normalize("NFKC", name)).split())
        if (first_name := names_by_look.setdefault(visible, name)) != name:
            msg = (
                f"names of identities must look different; {first_name!a} and {name!a} are "
                "the same text in Unicode, or differ by invisible characters; rename either"
            )
            raise ValueError(msg)
        key = sanitize_name(name)
        if not 0 < len(key) <= MAX_NAME_LENGTH or key.strip() in {"", ".", ".."}:
            msg = (
                f"the name of an identity must have 1 to {MAX_NAME_LENGTH} characters and must not "
                "be a path, since it is part of MLflow keys, which have at most "
                f"{_MAX_KEY_LENGTH}; got {name[:20]!r}{'...' if len(name) > 20 else ''} with "
                f"{len(name)} characters"
            )
            raise ValueError(msg)
        if any(unicodedata.category(char) == "Cc" for char in name):
            msg = (
                "the name of an identity must not hold control characters, such as line breaks; "
                f"got {name[:20]!r}. Name the column, as in `identities: {{muslim: COLUMN}}`"
            )
            raise ValueError(msg)
        if key in names_by_key:
            msg = (
                "names of identities must differ in letters and digits, since both "
                f"{names_by_key[key]!r} and {name!r} are {key!r} in MLflow; rename either"
            )
            raise ValueError(msg)
        names_by_key[key] = name


def normalize_name(name: str) -> str:
    """Return the form that all spellings of a name share: case, spaces and Unicode form differ."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def expand_term_list(value: Any) -> Any:
    """Expand a list of terms to a dict from each term to itself; return other values unchanged."""
    if not isinstance(value, list):
        return value
    if not all(isinstance(term, str) for term in value):
        msg = "must be a list of texts; put quotes around numbers and words such as no"
        raise ValueError(msg)
    return {term: [term] for term in value}


Term = Annotated[str, StringConstraints(pattern=r"\S")]
Terms = Annotated[
    dict[str, Annotated[list[Term], Field(min_length=1)]],
    BeforeValidator(expand_term_list, json_schema_input_type=dict[str, list[str]] | list[str]),
]
"""Words by identity, as in `{muslim: [muslim, muslims]}`, or `[muslim]`."""


class NamedIdentities(Settings):
    """A column with the names of the identities that a comment mentions."""

    column: str
    """Column of names: a name or a list of names in each row."""
    names: Annotated[Terms, Field(min_length=1)]
    """Names by identity, as in `{muslim: [Muslim, Muslims]}`, or `[muslim]`."""
    separator: Annotated[str, StringConstraints(min_length=1)] | None = None
    """Separator of the names in a cell of text, as in `","`; not needed for lists. (The set's
    `separator` separates the columns of a CSV file.)"""

    @field_validator("names")
    @classmethod
    def _refuse_same_names(cls, names: dict[str, list[str]]) -> dict[str, list[str]]:
        owners: dict[frozenset[str], str] = {}
        for name, words in names.items():
            other = owners.setdefault(frozenset(map(normalize_name, words)), name)
            if other != name:
                msg = (
                    f"identities must have different names; those of {other!r} and {name!r} are "
                    "the same, since case, spaces and Unicode form are ignored; remove either"
                )
                raise ValueError(msg)
        return names
