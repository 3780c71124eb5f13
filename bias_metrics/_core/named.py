"""Numbers by name, read as items or as attributes."""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")


class Named(dict[str, V], Generic[V]):
    """Numbers by the name of their metric: `found["bpsn_auc"]` is `found.bpsn_auc`.

    This way the path to a number is the same through attributes and in `to_dict()`.
    """

    def __getattr__(self, name: str) -> V:
        try:
            return self[name]
        except KeyError:
            msg = f"there is no {name!r} (known: {', '.join(self) or 'none'})"
            raise AttributeError(msg) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]
