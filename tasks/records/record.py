"""What all records have in common: how they are written and read."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Self

from pydantic import JsonValue

from biasgate.tasks.common.plain import plain, read_plain


@dataclass(frozen=True, kw_only=True)
class Record:
    """A document that biasgate writes, or a part of one.

    A field whose default is None is left out of the file where it is None.
    """

    def to_dict(self) -> dict[str, JsonValue]:
        """Return plain values."""
        return {
            self.key_of(field.name): plain(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None or field.default is not None
        }

    @staticmethod
    def key_of(field: str, /) -> str:
        """Return the key of a field."""
        return field

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """Return the record of plain values that `to_dict` or a result of the library returned.

        Raises
        ------
        ValueError
            If they are of another form.
        """
        return cls.read(json.dumps(plain(content)))

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Return the record of a file that biasgate wrote; `untrusted.check` reads others.

        Raises
        ------
        ValueError
            If it is of another form.
        """
        return read_plain(cls, text)
