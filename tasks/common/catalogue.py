"""Classes of settings by name: biasgate's own, and those of packages, added by entry point."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Generic, TypeVar

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError, PydanticKnownError

from biasgate.tasks.common.settings import Settings

SettingsType = TypeVar("SettingsType", bound=Settings)
steps = logging.getLogger("biasgate.steps")


@dataclass(frozen=True)
class Catalogue(Generic[SettingsType]):
    """The classes that one key of a section chooses from; each is imported at its first use."""

    key: str
    """The key that holds the name, such as `kind`."""
    group: str
    """The entry point group by which a package adds classes."""
    base: type[SettingsType]
    """Their base class."""
    own: Mapping[str, str]
    """biasgate's own classes: name to `package.module:Class`."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Other words that people use for a name, and what to tell them."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Further own classes, which only files that biasgate writes may name."""

    def names(self) -> list[str]:
        """Return all names: biasgate's own first."""
        others = {entry_point.name for entry_point in self._installed()}
        return [*self.own, *sorted(others.difference(self._ours))]

    def named(self, name: str) -> type[SettingsType]:
        """Import and return the class of a name; biasgate's own wins, with a warning.

        Raises KeyError if no class has this name, and ValueError, which names the package, if
        several do or one cannot be used.
        """
        found = [entry_point for entry_point in self._installed() if entry_point.name == name]
        if name in self._ours:
            for point in found:
                _warn_of(point, self.key)
            own: type[SettingsType] = EntryPoint(name, self._ours[name], self.group).load()
            return own
        if not found:
            raise KeyError(name)
        if len(found) > 1:
            packages = " and ".join(
                f"{_whose(entry_point)} ({entry_point.value})" for entry_point in found
            )
            msg = (
                f"`{self.key}: {name}` must be defined once; {packages} define it. Uninstall one "
                "of them, or ask its author to rename it."
            )
            raise ValueError(msg)
        return self._loaded(found[0])

    def added_by(self, name: str) -> str | None:
        """Return the package that adds a name, with its version; None for biasgate's own."""
        if name in self._ours:
            return None
        return next(
            (_whose(entry_point) for entry_point in self._installed() if entry_point.name == name),
            None,
        )

    def read(self, value: Any, info: ValidationInfo) -> SettingsType:
        """Create an object of the class that a section names; a validator for Pydantic."""
        if isinstance(value, self.base):
            return value
        if not isinstance(value, dict):
            raise PydanticKnownError("model_type", {"class_name": self.base.__name__})
        key = repr(self.key)
        if self.key not in value:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": key})
        name = str(value[self.key])
        try:
            kind = self.named(name)
        except KeyError:
            names = ", ".join(map(repr, self.names()))
            if name.lower() in self.hints:
                hint = self.hints[name.lower()]
                msg = f"`{self.key}` must be one of {names}; got {name!r}. {hint}"
                raise PydanticCustomError("union_tag_hint", "{msg}", {"msg": msg}) from None
            context = {"discriminator": key, "tag": name, "expected_tags": names}
            raise PydanticKnownError("union_tag_invalid", context) from None
        return kind.model_validate(value, context=info.context)

    @property
    def _ours(self) -> Mapping[str, str]:
        return {**self.own, **self.written}

    def _installed(self) -> EntryPoints:
        return _installed(self.group, tuple(sys.path))

    def _loaded(self, point: EntryPoint) -> type[SettingsType]:
        """Import the class of another package, which may fail in any way."""
        what = f"`{self.key}: {point.name}`, which {_whose(point)} adds as {point.value},"
        try:
            found = point.load()
        except Exception as error:
            msg = (
                f"{what} cannot be imported ({type(error).__name__}: {error}). Reinstall the "
                "package with its dependencies, or report it to its author"
            )
            raise ValueError(msg) from error
        if not (isinstance(found, type) and issubclass(found, self.base)):
            base = f"{self.base.__module__}.{self.base.__qualname__}"
            msg = f"{what} must be a subclass of {base}; report it to its author"
            raise ValueError(msg)  # noqa: TRY004 - Pydantic reports these
        return found


@cache
def _installed(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of the packages on Python's path; they are read once per path."""
    del path
    return entry_points(group=group)


@cache
def _warn_of(point: EntryPoint, key: str) -> None:
    """Warn, once per process, of a package that uses a name of biasgate's own."""
    steps.warning(
        "warning: `%s: %s` is biasgate's own; that of %s (entry point %s) is ignored. "
        "Uninstall the package, or ask its author to rename it.",
        key,
        point.name,
        _whose(point),
        point.value,
    )


def _whose(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "a package"
