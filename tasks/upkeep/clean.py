"""What can be removed from a store, and removing it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from biasgate.tasks.upkeep.keeping import IN_USE, Keep
from biasgate.tasks.upkeep.resting import Resting
from biasgate.tasks.upkeep.things import LEFT, Thing, things_of


@dataclass(frozen=True)
class Plan:
    """What of a store is removed, and what is kept."""

    removed: tuple[Thing, ...]
    kept: tuple[Thing, ...]
    """Things that can be made again."""
    resting: tuple[Thing, ...]
    """Those that are kept only because an entry of a ledger rests on them."""


def plan_cleaning(
    store: Path, keep: Keep, resting: Resting, nights: Path | None = None, now: float | None = None
) -> Plan:
    """Say what is removed; nothing is touched.

    `nights`: the folder with a folder for each night.
    """
    now = time.time() if now is None else now
    newest_first = sorted(things_of(store, nights), key=lambda one: -one.used)
    removed, kept, needed = [], [], []
    total = sum(one.size for one in newest_first if resting.needs(one))
    for one in newest_first:
        age = now - one.used
        if resting.needs(one):
            needed.append(one)
            continue
        total += one.size
        is_old = keep.age is not None and age > keep.age.total_seconds()
        is_too_much = keep.size is not None and total > keep.size
        if (is_old or is_too_much) and age > IN_USE.total_seconds():
            removed.append(one)
            total -= one.size
        else:
            kept.append(one)
    return Plan(tuple(removed), tuple(kept), tuple(needed))


def remove(things: Sequence[Thing]) -> Iterator[Thing]:
    """Remove things, and yield each that was; one that is in use meanwhile stays."""
    for one in things:
        if _remove_work(one.path) if one.kind == "work" else _remove_unused(one):
            yield one


def _remove_unused(thing: Thing) -> bool:
    """Remove something that nobody locks, and that nobody used since it was looked at."""
    lock = thing.path.parent / f".{thing.path.name}.lock"
    if lock.is_symlink():
        return False
    held = nullcontext() if thing.kind == "nights" else FileLock(lock, timeout=0)
    try:
        with held:
            if thing.path.stat().st_mtime > thing.used:
                return False
            # Away from its name first: a killed removal leaves nothing that looks whole.
            gone = thing.path.with_name(f"{LEFT}{os.getpid()}-{thing.path.name}")
            thing.path.rename(gone)
            _delete(gone)
    except (Timeout, FileNotFoundError):
        return False
    return True


def _remove_work(path: Path) -> bool:
    """Remove what a killed process left: a folder whose lock is free."""
    lock = path / ".lock"
    try:
        if path.is_dir() and lock.is_file():
            with FileLock(lock, timeout=0):
                shutil.rmtree(path, ignore_errors=True)
        else:
            _delete(path)
    except Timeout:
        return False
    return not path.exists()


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
