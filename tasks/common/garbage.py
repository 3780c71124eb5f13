"""How often Python looks for garbage in cycles."""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Look for garbage in cycles less often than Python does: after 50,000 new objects, not 700.

    Imports make a million objects that stay. To look through them again and again took about
    a tenth of the time of an evaluation. Almost all garbage is in no cycle, and is freed at once.
    """
    gc.set_threshold(50_000)
