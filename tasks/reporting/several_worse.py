"""What to think of if the numbers of several identities are worse."""

from __future__ import annotations

from collections.abc import Sequence

from biasgate.tasks.records import Worsened

SEVERAL = (
    "More than one identity is worse. A number of one identity can be worse because of comments "
    "that also mention another, or because of the comments that it is compared with. Look at the "
    "largest difference first, and at the analysis `intersections`."
)


def said_of_several(worsened: Sequence[Worsened]) -> str:
    """Return the caution, or "" if at most one identity is worse."""
    return SEVERAL if len({one["group"] for one in worsened}) > 1 else ""
