"""Categories of identities, in which groups with too few rows are judged.

Support is decided by counts, before any score is read. The category is judged like an identity, at
the same confidence. The small group's own result comes second: it lacks evidence, so it can fail
(it is significantly worse) but not pass. This order is that of a gatekeeping procedure.

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
    """Categories of identities, which may be nested.

    Examples
    --------
    >>> hierarchy = Hierarchy({"religion": ("hindu", "muslim"), "any": ("religion",)})
    >>> hierarchy.group_identities(["muslim", "hindu", "gay"])
    {'religion': ('hindu', 'muslim'), 'any': ('hindu', 'muslim')}
    >>> hierarchy.list_ancestors("hindu"), hierarchy.list_substitutes("hindu")
    (['religion', 'any'], ['religion'])
    """

    categories: Mapping[str, tuple[str, ...]]
    """The identities, or smaller categories, by category."""

    def __post_init__(self) -> None:
        """Refuse duplicate names, empty categories and circles."""
        names = [name for names in self.categories.values() for name in names]
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            msg = f"`roll_up` must have each name in one category; {duplicates[0]} is in two."
            raise ValueError(msg)
        for category, members in self.categories.items():
            if not members:
                msg = f"`roll_up` must have categories with names; {category} has none."
                raise ValueError(msg)
            if category in self.list_ancestors(category):
                msg = f"`roll_up` must not go in circles; {category} is within itself."
                raise ValueError(msg)

    def list_ancestors(self, name: str) -> list[str]:
        """Return the category of an identity, the category above it, and so on."""
        parents = {
            member: category for category, members in self.categories.items() for member in members
        }
        ancestors: list[str] = []
        while name in parents and parents[name] not in ancestors:
            name = parents[name]
            ancestors.append(name)
        return ancestors

    def list_substitutes(self, name: str) -> list[str]:
        """Return the categories whose result may replace that of an identity.

        The top category is left out if it consists of categories: an aggregate over everyone
        is not evidence about a single group.
        """
        ancestors = self.list_ancestors(name)
        return ancestors[: max(len(ancestors) - 1, 1)]

    def group_identities(self, identities: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the given identities by category.

        Categories without these identities, or with the name of an identity, are left out.
        """
        groups: dict[str, tuple[str, ...]] = {}
        for category in self.categories:
            members = tuple(self._find_members(category, set(identities)))
            if members and category not in identities:
                groups[category] = members
        return groups

    def _find_members(self, category: str, identities: set[str]) -> Iterator[str]:
        for name in self.categories[category]:
            if name in identities:
                yield name
            elif name in self.categories:
                yield from self._find_members(name, identities)


CIVIL_COMMENTS = Hierarchy(
    {
        **{name: tuple(names) for name, names in IDENTITY_HIERARCHY.items()},
        ANY: (*IDENTITY_HIERARCHY,),
    }
)
"""The identities of Civil Comments in the categories of Borkan et al. (2019), Table 4, and a top
category of all categories."""
