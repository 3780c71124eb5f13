"""The things in a store that can be made again, and the folders of old nights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.sizes import size_of
from biasgate.tasks.common.untrusted import read_json

_NIGHT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{6}Z(-\d+)?")
# Where things are in a store: by kind, and how deep below its folder.
_PLACES = {"scores": 2, "sets": 1, "models": 1, "work": 1, "downloads": 1}
# What a removal that was killed leaves behind.
LEFT = ".removed-"
SUMMARY, RECORD = "summary.json", "record.json"


@dataclass(frozen=True)
class Thing:
    """Something that takes space."""

    kind: str
    """What it is."""
    path: Path
    """Its folder or file."""
    size: int
    """Bytes."""
    used: float
    """When it was used last, in seconds since 1970."""


def things_of(store: Path, nights: Path | None = None) -> Iterator[Thing]:
    """Yield everything in a store that an evaluation can make again, and old nights.

    Links are neither followed nor named: what they lead to is not the store's.
    """
    for kind, depth in _PLACES.items():
        for path in _below(store / kind, depth):
            if not _is_linked(path, store):
                yield _thing("work" if path.name.startswith(LEFT) else kind, path)
    if nights is not None:
        for path in _below(nights, 1):
            is_left = path.name.startswith(LEFT)
            if (is_left or _NIGHT.fullmatch(path.name)) and path.is_dir() and not path.is_symlink():
                yield _thing("work" if is_left else "nights", path)


def _below(folder: Path, depth: int) -> list[Path]:
    """Return what is so deep below a folder, without hidden files such as locks."""
    found = [folder] if folder.is_dir() else []
    for _ in range(depth):
        found = [one for each in found if each.is_dir() for one in sorted(each.iterdir())]
        found = [one for one in found if one.name.startswith(LEFT) or one.name[0] != "."]
    return found


def _is_linked(path: Path, store: Path) -> bool:
    """Whether the path, or a folder between it and the store, is a symbolic link."""
    inner = (path, *path.parents)
    return any(one.is_symlink() for one in inner[: inner.index(store)])


def _thing(kind: str, path: Path) -> Thing:
    """Measure something; one that disappears meanwhile has no size."""
    try:
        used = path.stat().st_mtime
        if kind == "work":  # a folder with a lock does not change while it is used
            used = max((one.stat().st_mtime for one in path.rglob("*")), default=used)
    except FileNotFoundError:
        used = 0.0
    return Thing(kind, path, size_of(path), used)


def digests_of(thing: Thing) -> tuple[str, str] | None:
    """Return the digests of set and candidate of kept scores; None if its record has none."""
    record = _record(thing.path / RECORD)
    found = record.get("set_digest"), record.get("candidate_digest")
    return (str(found[0]), str(found[1])) if all(found) else None


def set_of(thing: Thing) -> tuple[str, str] | None:
    """Return name and digest of a frozen set; None if its record has none."""
    record = _record(thing.path / RECORD)
    found = record.get("name"), record.get("digest")
    return (str(found[0]), str(found[1])) if all(found) else None


def runs_of(thing: Thing) -> set[str] | None:
    """Return the runs of a night's verdicts; None if its summary cannot be read."""
    try:
        summary = read_json(thing.path / SUMMARY, str(thing.path / SUMMARY))
        return {str(one["run_id"]) for one in summary["verdicts"]}
    except FileNotFoundError:
        return set()  # a night that failed has none
    except (OSError, InputError, KeyError, TypeError):
        return None


def _record(path: Path) -> dict[str, object]:
    try:
        found = read_json(path, str(path))
    except (OSError, InputError):
        return {}
    return found if isinstance(found, dict) else {}
