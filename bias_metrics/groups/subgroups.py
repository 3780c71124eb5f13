"""Categories that join the subgroups of a hierarchy; for Python users, not used by a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from bias_metrics._core.checks import BoolArray, check_subgroups
from bias_metrics._core.index import require_aligned
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.tables import Row, Tabular

IDENTITY_HIERARCHY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gender": ("male", "female", "transgender", "other_gender"),
        "sexual_orientation": (
            "heterosexual",
            "homosexual_gay_or_lesbian",
            "bisexual",
            "other_sexual_orientation",
        ),
        "religion": (
            "christian",
            "jewish",
            "muslim",
            "hindu",
            "buddhist",
            "atheist",
            "other_religion",
        ),
        "race_or_ethnicity": ("black", "white", "asian", "latino", "other_race_or_ethnicity"),
        "disability": (
            "physical_disability",
            "intellectual_or_learning_disability",
            "psychiatric_or_mental_illness",
            "other_disability",
        ),
    }
)
"""The identities of Civil Comments by category, Borkan et al. (2019), Table 4, under the
names of their columns in the Jigsaw 2019 data."""


@dataclass(frozen=True, eq=False)
class RollUp(Tabular):
    """Categories that join subgroups."""

    masks: Mapping[str, BoolArray]
    """Rows that belong to any of the category's subgroups."""
    members: dict[str, tuple[str, ...]]
    """The subgroups that each category joins."""
    missing: dict[str, tuple[str, ...]]
    """Subgroups of the hierarchy that were not given, by category. A category with missing
    subgroups has fewer rows than its name suggests; a category without subgroups lacks a mask."""
    unassigned: tuple[str, ...]
    """Subgroups without a category."""

    def to_dict(self) -> dict[str, Any]:
        """Return names and numbers of rows by category, as plain values."""
        return {
            "categories": {
                name: {"members": list(self.members[name]), "n": int(mask.sum())}
                for name, mask in self.masks.items()
            },
            "missing": {name: list(names) for name, names in self.missing.items()},
            "unassigned": list(self.unassigned),
        }

    def rows(self) -> list[Row]:
        """Return a record per category."""
        return [
            {
                "category": name,
                "n": int(mask.sum()),
                "members": ", ".join(self.members[name]),
                "missing": ", ".join(self.missing.get(name, ())),
            }
            for name, mask in self.masks.items()
        ]


@require_aligned
def roll_up(
    subgroups: Subgroups,
    hierarchy: Mapping[str, Sequence[str]] = IDENTITY_HIERARCHY,
) -> RollUp:
    """Join subgroups into the categories of a hierarchy, such as any mention of a religion.

    A category has more rows than its identities, so it can be measured if they are too small. It
    can also hide differences: if comments about only some religions are over-flagged, the number
    of the category is in between.

    Parameters
    ----------
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Subgroup names and memberships. Threshold identity fractions with `>= 0.5`
        first; the largest fraction of a category is not a fraction of raters.
    hierarchy : mapping of str to sequence of str
        Subgroups by category; default `IDENTITY_HIERARCHY`.

    Returns
    -------
    RollUp
        Memberships by category, in the order of the hierarchy, and the missing subgroups.

    Raises
    ------
    ValueError
        If a length differs or a membership is not 0 or 1.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    Borkan et al. (2019), Table 4.

    Examples
    --------
    >>> rolled = roll_up({"muslim": [1, 0, 0], "jewish": [0, 1, 0], "blind": [0, 0, 1]})
    >>> rolled.masks["religion"]
    array([ True,  True, False])
    >>> rolled.unassigned
    ('blind',)
    """
    masks_by_name = check_subgroups(subgroups)
    members = {
        category: tuple(name for name in names if name in masks_by_name)
        for category, names in hierarchy.items()
    }
    members = {category: names for category, names in members.items() if names}
    missing = {
        category: tuple(name for name in names if name not in masks_by_name)
        for category, names in hierarchy.items()
    }
    assigned = {name for names in members.values() for name in names}
    return RollUp(
        masks={
            category: np.logical_or.reduce([masks_by_name[name] for name in names])
            for category, names in members.items()
        },
        members=members,
        missing={category: names for category, names in missing.items() if names},
        unassigned=tuple(name for name in masks_by_name if name not in assigned),
    )
