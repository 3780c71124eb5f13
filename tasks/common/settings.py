"""Building blocks of every section of a configuration file."""

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
from biasgate.tasks.common.secrets import remember

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
    """By key: what a list holds, for the error about something else."""
    explained_by: ClassVar[str] = ""
    """The command that explains the keys of a section, for the error about wrong ones."""
    refused: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Keys of its base class that a section does not take, each with the reason."""

    @model_validator(mode="wrap")
    @classmethod
    def _name_similar_keys(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Suggest a similar key for an unknown one; Pydantic itself only says "extra"."""
        for key, why in cls.refused.items():
            if isinstance(value, dict) and value.get(key) is not None:
                msg = f"`{key}` must not be set: {why}"
                raise ValueError(msg)
        try:
            return handler(value)
        except ValidationError as error:
            known = [
                field.alias or name
                for name, field in cls.model_fields.items()
                if name not in cls.refused
            ]
            raise ValidationError.from_exception_data(
                cls.__name__,
                [_with_hint(problem, known) for problem in error.errors(include_url=False)],
            ) from None


def json_schema(kind: type[Settings]) -> dict[str, JsonValue]:
    """Return the JSON Schema of a section, draft 2020-12; keys have the words of their fields.

    Pydantic could read these words when a class is made, but that would slow down every command.
    """
    schema = kind.model_json_schema()
    for section in {kind, *_below(Settings)}:
        name = section.__name__
        described = schema if section is kind else schema.get("$defs", {}).get(name, {})
        bases = [one for one in reversed(section.__mro__) if issubclass(one, Settings)]
        for base in bases[1:] if described else ():
            for key, words in _words(base).items():
                described.get("properties", {}).get(key, {})["description"] = words
        for key in section.refused if described else ():
            del described["properties"][key]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _below(kind: type[Settings]) -> Iterator[type[Settings]]:
    for section in kind.__subclasses__():
        yield section
        yield from _below(section)


@cache
def _words(kind: type[Settings]) -> dict[str, str]:
    """Return the text under the field of each key of a section."""
    found = {}
    section = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    for field, below in pairwise(section.body if isinstance(section, ast.ClassDef) else []):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        known = kind.model_fields.get(field.target.id)
        text = (
            below.value.value
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            else None
        )
        if known is not None and isinstance(text, str):
            found[known.alias or field.target.id] = " ".join(text.split())
    return found


def _with_hint(error: ErrorDetails, known: Sequence[str]) -> InitErrorDetails:
    kind: str | PydanticCustomError = error["type"]
    place, context = error["loc"], error.get("ctx", {})
    if kind == "extra_forbidden" and len(place) == 1:
        # Of other programs, and of keys in the plural: `identity_columns`, `text_column`.
        bare = _COLUMN_OF.sub("", str(place[0]))
        hint = did_you_mean(bare, known) or did_you_mean(place[0], known)
        hint = hint or f" Known keys: {', '.join(known)}."
        kind = PydanticCustomError(UNKNOWN_KEY, "unknown key.{hint}", {"hint": hint})
    elif kind == UNKNOWN_KEY:
        kind = PydanticCustomError(UNKNOWN_KEY, "unknown key.{hint}", dict(context))
    elif (
        isinstance(kind, str) and kind not in _KNOWN_ERRORS
    ):  # of Pydantic's own types, such as paths
        kind = PydanticCustomError(kind, "{rule}", {"rule": error["msg"]})
    details = InitErrorDetails(type=kind, loc=place, input=error["input"])
    return details | {"ctx": dict(context)} if isinstance(kind, str) else details


NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_. -]{0,99}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""A name that is also a folder name and part of an MLflow key."""
NAME_RULE = (
    "must be at most 100 letters, digits, spaces and characters of `_.-`, and start with a letter "
    "or digit"
)


def slice_name(text: str) -> str:
    """Return a text as the name of a slice: `_` stands for what no name has.

    Letters, the marks on them and digits stay, of every script; in one form (NFC).

    Examples
    --------
    >>> print(slice_name("language.हिन्दी"), slice_name("topic.war/peace"))
    language.हिन्दी topic.war_peace
    """
    return "".join(
        one if one in "_. -" or unicodedata.category(one)[0] in "LMN" else "_"
        for one in unicodedata.normalize("NFC", text)
    )


def checked_slice(text: str) -> str:
    """Return the name of a slice; raise a ValueError if no slice has such a name."""
    name = slice_name(text)
    if name != unicodedata.normalize("NFC", text) or not name[:1].isalnum() or len(name) > 100:
        raise ValueError(NAME_RULE)
    return name


SliceName = Annotated[str, AfterValidator(checked_slice)]
"""A slice of a set."""


def relative_to_configuration(value: Any, info: ValidationInfo) -> Any:
    """Resolve a relative path against the folder of the configuration file."""
    if not isinstance(value, str | Path):
        return value
    base = (info.context or {}).get("folder")
    path = Path(value).expanduser()
    return path if base is None else Path(os.path.normpath(Path(base) / path))


ConfigPath = Annotated[Path, BeforeValidator(relative_to_configuration)]
"""A path; a relative one starts at the folder of the configuration file."""


def expand_variables(value: Any, where: str) -> Any:
    """Replace `${NAME}` and `${NAME:-default}` in every string of a configuration.

    A value that is nothing but `${NAME:-}` is null if NAME is not set: as if its key were left out.
    What a variable holds is masked in errors and logs from then on.
    """
    if isinstance(value, dict):
        return {key: expand_variables(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [expand_variables(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name, default = match.group("name", "default")
        held = os.environ.get(name)
        if held:
            remember(name, held)
        found = held or default
        if found is None:
            msg = (
                f"environment variable {name} must be set; it is not ({where}). "
                f"Set it, or write ${{{name}:-default}}."
            )
            raise InputError(msg)
        return found

    expanded = _VARIABLE.sub(replace, value)
    return None if not expanded and _VARIABLE.fullmatch(value) else expanded
