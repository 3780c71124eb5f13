"""The base class of records, with their conversion to and from JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Self

from pydantic import JsonValue

from biasgate.tasks.common.plain import convert_to_plain, read_plain


@dataclass(frozen=True, kw_only=True)
class Record:
    """A document that biasgate writes, or a part of a document.

    A field with the default None is omitted from the file if its value is None.
    """

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the record as JSON values."""
        return {
            self.key_of(field.name): convert_to_plain(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None or field.default is not None
        }

    @staticmethod
    def key_of(field: str, /) -> str:
        """Return the key of a field in the file; subclasses may override it."""
        return field

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """Create a record from the plain values of `to_dict`, here or in the metrics library.

        Raises
        ------
        ValueError
            If the values have another form.
        """
        return cls.read(json.dumps(convert_to_plain(content)))

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Read the record from a trusted file; use `untrusted.check` for other files.

        Raises
        ------
        ValueError
            If the content has another form.
        """
        return read_plain(cls, text)
