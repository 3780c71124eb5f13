"""Removal of old items of a store that an evaluation can make again.

Sets and scores of a verdict that moved `champion` are never removed.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from filelock import FileLock, Timeout

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import measure_size
from biasgate.tasks.common.untrusted import read_json
from biasgate.tasks.ledger.entry import MOVE_ACTIONS
from biasgate.tasks.ledger.ledger import LEDGER_SUFFIX, Ledger
from biasgate.tasks.ledger.sound import find_problems
from biasgate.tasks.mlflow_server.runs import Gateway

_AGE = re.compile(r"(\d+)([dw])")
_DAYS = {"d": 1, "w": 7}
# Depth of the items below the folder of their kind.
ITEM_DEPTHS = {
    "scores": 2,
    "sets": 1,
    "models": 1,
    "downloads": 1,
    "tokens": 2,
    "logs": 1,
    "work": 1,
}
# The prefix of an item during its removal. It remains if the process is killed.
REMOVAL_PREFIX = ".removed-"


def read_age(text: str) -> timedelta:
    """Read an age such as `30d`.

    It must be at least a day, because a running evaluation may use newer items.
    """
    match = _AGE.fullmatch(text)
    try:
        age = timedelta(days=int(match[1]) * _DAYS[match[2]]) if match else timedelta(0)
    except OverflowError:
        age = timedelta(0)
    if age < timedelta(days=1):
        msg = (
            f"`--keep` must be an age of at least a day in days or weeks, such as 30d or 8w; got "
            f"{text!r}."
        )
        raise InputError(msg)
    return age


@dataclass(frozen=True)
class StoreItem:
    """A part of a store that an evaluation can make again."""

    kind: str
    """A folder of the store, as in `PLACES`; `work` for remains of a killed process."""
    path: Path
    """Its folder or file."""
    size: int
    """Bytes."""
    used: float
    """The time of its last use, in seconds since 1970."""


def iter_store_items(store: Path) -> Iterator[StoreItem]:
    """Yield the items of a store; links are not followed."""
    for kind, depth in ITEM_DEPTHS.items():
        for path in _list_paths(store / kind, depth):
            chain = (path, *path.parents)
            if not any(folder.is_symlink() for folder in chain[: chain.index(store)]):
                yield _measure_item("work" if path.name.startswith(REMOVAL_PREFIX) else kind, path)


def _list_paths(folder: Path, depth: int) -> list[Path]:
    """Return the paths at a depth, except hidden files such as locks."""
    paths = [folder] if folder.is_dir() else []
    for _ in range(depth):
        paths = [path for parent in paths if parent.is_dir() for path in sorted(parent.iterdir())]
        paths = [
            path for path in paths if path.name.startswith(REMOVAL_PREFIX) or path.name[0] != "."
        ]
    return paths


def _measure_item(kind: str, path: Path) -> StoreItem:
    try:
        used = path.stat().st_mtime
        if kind == "work":  # use changes the files in it, not the folder itself
            used = max((file.stat().st_mtime for file in path.rglob("*")), default=used)
    except FileNotFoundError:  # removed meanwhile
        used = 0.0
    return StoreItem(kind, path, measure_size(path), used)


@dataclass(frozen=True)
class VerdictReferences:
    """The sets and scores of the verdicts behind promotions, rollbacks and resets."""

    sets: frozenset[str] = frozenset()
    """Digests of sets."""
    names: frozenset[str] = frozenset()
    """Names of sets whose digest is unknown, since the run of the verdict no longer exists."""
    scores: frozenset[tuple[str, str]] = frozenset()
    """Digests of set and candidate."""

    @classmethod
    def from_ledgers(cls, gateway: Gateway) -> VerdictReferences:
        """Read all ledgers of a registry; refuse an incomplete or changed ledger."""
        sets, names, scores = set[str](), set[str](), set[tuple[str, str]]()
        for run_id, name in _iter_move_verdicts(gateway):
            tags = gateway.get_run_tags(run_id) or {}
            set_digest = tags.get("biasgate.set_digest")
            candidate_digest = tags.get("biasgate.candidate_digest")
            if set_digest is None or candidate_digest is None:
                names.add(name)
            else:
                sets.add(set_digest)
                scores.add((set_digest, candidate_digest))
        return cls(frozenset(sets), frozenset(names), frozenset(scores))

    def includes(self, item: StoreItem) -> bool:
        """Return whether a move of `champion` is based on an item."""
        if item.kind not in {"sets", "scores"}:
            return False
        try:
            record = read_json(item.path / "record.json", str(item.path))
        except (OSError, InputError):
            return False
        if not isinstance(record, dict):
            return False
        if item.kind == "sets":
            return str(record.get("name")) in self.names or str(record.get("digest")) in self.sets
        digests = str(record.get("set_digest")), str(record.get("candidate_digest"))
        return digests in self.scores


def _iter_move_verdicts(gateway: Gateway) -> Iterator[tuple[str, str]]:
    """Yield run and set of each verdict that moved `champion`."""
    # Also for models without a ledger: their verdicts may name entries of a deleted ledger.
    for model in dict.fromkeys(name.removesuffix(LEDGER_SUFFIX) for name in gateway.list_models()):
        ledger = Ledger(gateway, model)
        problem = next(
            iter([*ledger.find_foreign_versions(), *find_problems(ledger, ledger.chain)]), None
        )
        if problem is not None:
            msg = (
                f"the ledger {ledger.name} must be whole and unchanged before anything is removed, "
                f"because remaining references are unknown; {problem}"
            )
            raise InputError(msg)
        for entry in ledger.read_entries():
            if entry.content.action in MOVE_ACTIONS:
                for verdict in entry.content.verdicts:
                    yield verdict.run_id, verdict.set


@dataclass(frozen=True)
class CleaningPlan:
    """The items of a store that cleaning removes and keeps."""

    removed: tuple[StoreItem, ...]
    kept: tuple[StoreItem, ...]
    referenced: tuple[StoreItem, ...]
    """Kept only because a move of `champion` is based on them."""


def plan_cleaning(
    store: Path, age: timedelta, referenced: VerdictReferences, now: float | None = None
) -> CleaningPlan:
    """Choose the items to remove: those that were not used within an age.

    `now` is in seconds since 1970. The store is only read.
    """
    oldest = (time.time() if now is None else now) - age.total_seconds()
    removed, kept, needed = list[StoreItem](), list[StoreItem](), list[StoreItem]()
    for item in iter_store_items(store):
        destination = removed if item.used < oldest else kept
        (needed if referenced.includes(item) else destination).append(item)
    return CleaningPlan(tuple(removed), tuple(kept), tuple(needed))


def remove_items(items: Sequence[StoreItem]) -> Iterator[StoreItem]:
    """Remove items, except those in use; yield the removed items."""
    for item in items:
        try:
            if _remove_work_folder(item.path) if item.kind == "work" else _remove_unused_item(item):
                yield item
        except (Timeout, FileNotFoundError):
            continue


def _remove_unused_item(item: StoreItem) -> bool:
    """Remove an item that no process locks and that was not used since it was measured."""
    lock = item.path.parent / f".{item.path.name}.lock"
    if lock.is_symlink():
        return False
    with FileLock(lock, timeout=0):
        if item.path.stat().st_mtime > item.used:
            return False
        # Renamed first, so that a killed removal does not leave an item that looks complete.
        renamed = item.path.with_name(f"{REMOVAL_PREFIX}{os.getpid()}-{item.path.name}")
        item.path.rename(renamed)
        _delete_path(renamed)
    return True


def _remove_work_folder(path: Path) -> bool:
    """Remove a file, or a folder whose lock is free, that a killed process left."""
    lock = path / ".lock"
    if path.is_dir() and lock.is_file():
        with FileLock(lock, timeout=0):
            shutil.rmtree(path, ignore_errors=True)
    else:
        _delete_path(path)
    return not path.exists()


def _delete_path(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
