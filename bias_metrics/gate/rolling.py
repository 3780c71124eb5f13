"""Where a group is judged that is too small to be judged alone: in the category above it.

Support is decided by counts alone, before any score is looked at. The category is judged like an
identity, at the same confidence. Only then does the small group's own result matter: it lacks
evidence, so it can fail (it is shown to be worse) but not pass. This order is that of a
gatekeeping procedure.

References
----------
Borkan et al. (2019), Table 4 (categories). Dmitrienko, Offen and Westfall (2003), Statistics in
Medicine 22 (gatekeeping).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bias_metrics.groups.subgroups import IDENTITY_HIERARCHY

ANY = "any_identity"


@dataclass(frozen=True)
class Hierarchy:
    """Categories of identities, which may be in categories themselves.

    Examples
    --------
    >>> hierarchy = Hierarchy({"religion": ("hindu", "muslim"), "any": ("religion",)})
    >>> hierarchy.joined(["muslim", "hindu", "gay"])
    {'religion': ('hindu', 'muslim'), 'any': ('hindu', 'muslim')}
    >>> list(hierarchy.above("hindu"))
    ['religion', 'any']
    """

    categories: Mapping[str, tuple[str, ...]]
    """By category: its identities, or smaller categories."""

    def __post_init__(self) -> None:
        """Refuse names that are given twice, empty categories, and circles."""
        names = [name for names in self.categories.values() for name in names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"`roll_up` must have each name in one category; {twice[0]} is in two."
            raise ValueError(msg)
        for category, members in self.categories.items():
            if not members:
                msg = f"`roll_up` must have categories with names; {category} has none."
                raise ValueError(msg)
            if category in self._climb(category):
                msg = f"`roll_up` must not go in circles; {category} is within itself."
                raise ValueError(msg)

    def above(self, name: str) -> Iterator[str]:
        """Yield the category of an identity, the category of that one, and so on."""
        yield from self._climb(name)

    def grounds(self, name: str) -> Iterator[str]:
        """Yield the categories whose result may stand for an identity.

        Those above it, but for the last one where that is a category of categories: what joins
        everybody says nothing about somebody.

        Examples
        --------
        >>> hierarchy = Hierarchy({"religion": ("hindu", "muslim"), "any": ("religion",)})
        >>> list(hierarchy.grounds("hindu"))
        ['religion']
        """
        above = self._climb(name)
        yield from above[: max(len(above) - 1, 1)]

    def _climb(self, name: str) -> list[str]:
        parents = {name: one for one, names in self.categories.items() for name in names}
        found: list[str] = []
        while name in parents and parents[name] not in found:
            name = parents[name]
            found.append(name)
        return found

    def joined(self, identities: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return which of some identities each category joins.

        Categories without any are left out, and so are those that are called like an identity.
        """
        found: dict[str, tuple[str, ...]] = {}
        for category in self.categories:
            members = tuple(self._members(category, set(identities)))
            if members and category not in identities:
                found[category] = members
        return found

    def _members(self, category: str, identities: set[str]) -> Iterator[str]:
        for name in self.categories[category]:
            if name in identities:
                yield name
            elif name in self.categories:
                yield from self._members(name, identities)


CIVIL_COMMENTS = Hierarchy(
    {
        **{name: tuple(names) for name, names in IDENTITY_HIERARCHY.items()},
        ANY: (*IDENTITY_HIERARCHY,),
    }
)
"""The identities of Civil Comments in the categories of Borkan et al. (2019), Table 4, and all of
them together."""
