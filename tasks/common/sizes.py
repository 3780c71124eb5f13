"""How many bytes files and folders take."""

from __future__ import annotations

import os
from pathlib import Path


def size_of(path: Path) -> int:
    """Return how many bytes a file, or a folder with all that is in it, takes."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size if os.path.lexists(path) else 0
    total = 0
    for top, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(top, name)).st_size  # noqa: PTH118 - many files
            except FileNotFoundError:
                continue
    return total


def sizes_of(store: Path) -> dict[str, int]:
    """Return how many bytes each part of a store takes, and `total`."""
    sizes = {
        path.name: size_of(path)
        for path in sorted(store.iterdir())
        if not path.name.startswith(".")
    }
    return {**sizes, "total": sum(sizes.values())}
