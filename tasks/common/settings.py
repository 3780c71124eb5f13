"""Base class and field types of the sections of a configuration file."""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    JsonValue,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.secrets import register_secret

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


UNKNOWN_KEY = "unknown_key"
_COLUMN_OF = re.compile(r"[_ -]?(columns?|cols?|fields?|names?)$", re.IGNORECASE)
_KNOWN_ERRORS = frozenset(get_args(ErrorType))


class Settings(BaseModel):
    """A frozen section of a configuration; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    secret_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys in which `${NAME}` is not replaced, and whose values errors never show."""
    lists: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Description of the items of each list, by key, for error messages."""
    explained_by: ClassVar[str] = ""
    """The command that explains the keys of a section, for error messages."""
    refused: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Keys of the base class that a section refuses, each with the reason."""

    @model_validator(mode="wrap")
    @classmethod
    def _name_similar_keys(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Add similar keys to errors of unknown keys, which Pydantic only calls "extra"."""
        for key, why in cls.refused.items():
            if isinstance(value, dict) and value.get(key) is not None:
                msg = f"`{key}` must not be set: {why}"
                raise ValueError(msg)
        try:
            return handler(value)
        except ValidationError as error:
            known_keys = [
                field.alias or name
                for name, field in cls.model_fields.items()
                if name not in cls.refused
            ]
            raise ValidationError.from_exception_data(
                cls.__name__,
                [_add_hint(detail, known_keys) for detail in error.errors(include_url=False)],
            ) from None


def json_schema(kind: type[Settings]) -> dict[str, JsonValue]:
    """Return the JSON Schema of a section, draft 2020-12, with the docstrings of its fields.

    Pydantic could read the docstrings when a class is created, but that would slow every command.
    """
    schema = kind.model_json_schema()
    for section in {kind, *_iterate_subclasses(Settings)}:
        name = section.__name__
        described = schema if section is kind else schema.get("$defs", {}).get(name, {})
        bases = [parent for parent in reversed(section.__mro__) if issubclass(parent, Settings)]
        for base in bases[1:] if described else ():
            for key, description in _read_field_docs(base).items():
                described.get("properties", {}).get(key, {})["description"] = description
        for key in section.refused if described else ():
            del described["properties"][key]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _iterate_subclasses(kind: type[Settings]) -> Iterator[type[Settings]]:
    for section in kind.__subclasses__():
        yield section
        yield from _iterate_subclasses(section)


@cache
def _read_field_docs(kind: type[Settings]) -> dict[str, str]:
    """Return the docstring of each field of a section, by key."""
    descriptions = {}
    section = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    for field, below in pairwise(section.body if isinstance(section, ast.ClassDef) else []):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        model_field = kind.model_fields.get(field.target.id)
        text = (
            below.value.value
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            else None
        )
        if model_field is not None and isinstance(text, str):
            descriptions[model_field.alias or field.target.id] = " ".join(text.split())
    return descriptions


def _add_hint(error: ErrorDetails, known_keys: Sequence[str]) -> InitErrorDetails:
    kind: str | PydanticCustomError = error["type"]
    place, context = error["loc"], error.get("ctx", {})
    if kind == "extra_forbidden" and len(place) == 1:
        # Keys of other programs, and plurals: `identity_columns`, `text_column`.
        bare = _COLUMN_OF.sub("", str(place[0]))
        hint = did_you_mean(bare, known_keys) or did_you_mean(place[0], known_keys)
        hint = hint or f" Known keys: {', '.join(known_keys)}."
        kind = PydanticCustomError(UNKNOWN_KEY, "unknown key.{hint}", {"hint": hint})
    elif kind == UNKNOWN_KEY:
        kind = PydanticCustomError(UNKNOWN_KEY, "unknown key.{hint}", dict(context))
    elif isinstance(kind, str) and kind not in _KNOWN_ERRORS:
        # Errors of Pydantic's own types, such as paths.
        kind = PydanticCustomError(kind, "{rule}", {"rule": error["msg"]})
    details = InitErrorDetails(type=kind, loc=place, input=error["input"])
    return details | {"ctx": dict(context)} if isinstance(kind, str) else details


NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_. -]{0,99}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""A name that is also valid as a folder name and as part of an MLflow key."""
NAME_RULE = (
    "must be at most 100 letters, digits, spaces and characters of `_.-`, and start with a letter "
    "or digit"
)


def make_slice_name(text: str) -> str:
    """Return a text as the name of a slice, with `_` for invalid characters.

    Letters, their marks and digits of every script are valid. The name is normalized (NFC).

    Examples
    --------
    >>> print(make_slice_name("language.हिन्दी"), make_slice_name("topic.war/peace"))
    language.हिन्दी topic.war_peace
    """
    return "".join(
        character if character in "_. -" or unicodedata.category(character)[0] in "LMN" else "_"
        for character in unicodedata.normalize("NFC", text)
    )


def check_slice_name(text: str) -> str:
    """Return the normalized name of a slice; raise a ValueError if it is invalid."""
    name = make_slice_name(text)
    if name != unicodedata.normalize("NFC", text) or not name[:1].isalnum() or len(name) > 100:
        raise ValueError(NAME_RULE)
    return name


SliceName = Annotated[str, AfterValidator(check_slice_name)]
"""A slice of a set."""


def resolve_config_path(value: Any, info: ValidationInfo) -> Any:
    """Resolve a relative path against the folder of the configuration file."""
    if not isinstance(value, str | Path):
        return value
    base = (info.context or {}).get("folder")
    path = Path(value).expanduser()
    return path if base is None else Path(os.path.normpath(Path(base) / path))


ConfigPath = Annotated[Path, BeforeValidator(resolve_config_path)]
"""A path; relative paths start at the folder of the configuration file."""


def expand_variables(value: Any, where: str) -> Any:
    """Replace `${NAME}` and `${NAME:-default}` in every string of a configuration.

    The value `${NAME:-}` becomes null if NAME is not set, as if its key were left out. The values
    of all variables are masked in errors and logs from then on.
    """
    if isinstance(value, dict):
        return {key: expand_variables(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [expand_variables(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name, default = match.group("name", "default")
        variable = os.environ.get(name)
        if variable:
            register_secret(name, variable)
        replacement = variable or default
        if replacement is None:
            msg = (
                f"environment variable {name} must be set; it is not ({where}). "
                f"Set it, or write ${{{name}:-default}}."
            )
            raise InputError(msg)
        return replacement

    expanded = _VARIABLE.sub(replace, value)
    return None if not expanded and _VARIABLE.fullmatch(value) else expanded
