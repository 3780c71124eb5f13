"""Settings classes by name: biasgate's own, and those that packages add by entry point."""

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
    """The classes that one key of a section selects from, each imported at its first use."""

    key: str
    """The key that holds the name, such as `kind`."""
    group: str
    """The entry point group in which a package registers classes."""
    base: type[SettingsType]
    """The base class of all entries."""
    own: Mapping[str, str]
    """biasgate's own classes: name to `package.module:Class`."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Common wrong names, each with a hint for the error message."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Further own classes, which only files written by biasgate may name."""

    def list_names(self) -> list[str]:
        """Return all names, biasgate's own first."""
        added = {point.name for point in self._list_entry_points()}
        return [*self.own, *sorted(added.difference(self._own_classes))]

    def find_class(self, name: str) -> type[SettingsType]:
        """Import and return the class of a name.

        biasgate's own class takes precedence over that of a package, with a warning.

        Raises
        ------
        KeyError
            If the name is unknown.
        ValueError
            If several packages define the name, or its class cannot be used. The text names the
            packages.
        """
        points = [point for point in self._list_entry_points() if point.name == name]
        if name in self._own_classes:
            for point in points:
                _warn_of_shadowing(point, self.key)
            own: type[SettingsType] = EntryPoint(name, self._own_classes[name], self.group).load()
            return own
        if not points:
            raise KeyError(name)
        if len(points) > 1:
            packages = " and ".join(f"{_format_package(point)} ({point.value})" for point in points)
            msg = (
                f"`{self.key}: {name}` must be defined once; {packages} define it. Uninstall one "
                "of them, or ask its author to rename it."
            )
            raise ValueError(msg)
        return self._load_class(points[0])

    def find_package(self, name: str) -> str | None:
        """Return the package that adds a name, with its version; None for biasgate's own class."""
        if name in self._own_classes:
            return None
        points = (point for point in self._list_entry_points() if point.name == name)
        return next(map(_format_package, points), None)

    def read(self, value: Any, info: ValidationInfo) -> SettingsType:
        """Create an object of the class that a section names. A validator for Pydantic."""
        if isinstance(value, self.base):
            return value
        if not isinstance(value, dict):
            raise PydanticKnownError("model_type", {"class_name": self.base.__name__})
        key = repr(self.key)
        if self.key not in value:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": key})
        name = str(value[self.key])
        try:
            kind = self.find_class(name)
        except KeyError:
            names = ", ".join(map(repr, self.list_names()))
            if name.lower() in self.hints:
                hint = self.hints[name.lower()]
                msg = f"`{self.key}` must be one of {names}; got {name!r}. {hint}"
                raise PydanticCustomError("union_tag_hint", "{msg}", {"msg": msg}) from None
            context = {"discriminator": key, "tag": name, "expected_tags": names}
            raise PydanticKnownError("union_tag_invalid", context) from None
        return kind.model_validate(value, context=info.context)

    @property
    def _own_classes(self) -> Mapping[str, str]:
        return {**self.own, **self.written}

    def _list_entry_points(self) -> EntryPoints:
        return _read_entry_points(self.group, tuple(sys.path))

    def _load_class(self, point: EntryPoint) -> type[SettingsType]:
        """Import the class of another package; any failure becomes a ValueError."""
        subject = (
            f"`{self.key}: {point.name}`, which {_format_package(point)} adds as {point.value},"
        )
        try:
            loaded = point.load()
        except Exception as error:
            msg = (
                f"{subject} cannot be imported ({type(error).__name__}: {error}). Reinstall the "
                "package with its dependencies, or report it to its author"
            )
            raise ValueError(msg) from error
        if not (isinstance(loaded, type) and issubclass(loaded, self.base)):
            base = f"{self.base.__module__}.{self.base.__qualname__}"
            msg = f"{subject} must be a subclass of {base}; report it to its author"
            raise ValueError(msg)  # noqa: TRY004 - Pydantic reports these
        return loaded


@cache
def _read_entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of all packages on the given `sys.path`; read once per path."""
    del path
    return entry_points(group=group)


@cache
def _warn_of_shadowing(point: EntryPoint, key: str) -> None:
    """Warn once per process that a package uses the name of a class of biasgate."""
    steps.warning(
        "warning: `%s: %s` is biasgate's own; that of %s (entry point %s) is ignored. "
        "Uninstall the package, or ask its author to rename it.",
        key,
        point.name,
        _format_package(point),
        point.value,
    )


def _format_package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "a package"
