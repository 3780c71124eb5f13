"""What a store holds, how large it is, and what of it can be removed.

What the entries of ledgers rest on is never removed.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from filelock import FileLock, Timeout

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import size_of
from biasgate.tasks.common.untrusted import read_json
from biasgate.tasks.ledger.entry import MOVES
from biasgate.tasks.ledger.ledger import LEDGER_SUFFIX, Ledger
from biasgate.tasks.ledger.sound import wrong_with
from biasgate.tasks.mlflow_server.runs import Gateway


@dataclass(frozen=True)
class Plan:
    """What of a store is removed, and what is kept."""

    removed: tuple[StoreItem, ...]
    kept: tuple[StoreItem, ...]
    """Items that can be made again."""
    referenced: tuple[StoreItem, ...]
    """Those that are kept only because a move of `champion` rests on them."""


def plan_cleaning(
    store: Path,
    keep: Keep,
    referenced: Referenced,
    nights: Path | None = None,
    now: float | None = None,
) -> Plan:
    """Say what is removed; nothing is touched.

    `nights`: the folder with a folder for each night.
    """
    now = time.time() if now is None else now
    newest_first = sorted(store_items(store, nights), key=lambda one: -one.used)
    removed, kept, needed = [], [], []
    total = sum(item.size for item in newest_first if referenced.needs(item))
    for one in newest_first:
        age = now - one.used
        if referenced.needs(one):
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


def remove(items: Sequence[StoreItem]) -> Iterator[StoreItem]:
    """Remove items, and yield each that was; one that is in use meanwhile stays."""
    for item in items:
        if _remove_work(item.path) if item.kind == "work" else _remove_unused(item):
            yield item


def _remove_unused(item: StoreItem) -> bool:
    """Remove something that nobody locks, and that nobody used since it was looked at."""
    lock = item.path.parent / f".{item.path.name}.lock"
    if lock.is_symlink():
        return False
    held = nullcontext() if item.kind == "nights" else FileLock(lock, timeout=0)
    try:
        with held:
            if item.path.stat().st_mtime > item.used:
                return False
            # Away from its name first: a killed removal leaves nothing that looks whole.
            gone = item.path.with_name(f"{LEFT}{os.getpid()}-{item.path.name}")
            item.path.rename(gone)
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


_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)")
_AGES = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
# An evaluation may be using what was used within this time, so it is never removed.
IN_USE = timedelta(days=1)


@dataclass(frozen=True)
class Keep:
    """What is kept."""

    age: timedelta | None = None
    """Whatever was used within this time; None for any."""
    size: int | None = None
    """At most so many bytes, of which those that were used last are kept; None for any."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Keep:
        """Read one age, one size, or one of each."""
        age: timedelta | None = None
        size: int | None = None
        for text in texts:
            found = _FORM.fullmatch(text.strip())
            number, unit = (float(found[1]), found[2]) if found else (0.0, "")
            if unit.lower() in _AGES and unit not in _SIZES and age is None:
                age = _age(number * _AGES[unit.lower()], text)
            elif unit.upper() in _SIZES and size is None:
                size = int(number * _SIZES[unit.upper()])
            else:
                raise InputError(_refused(text))
        if age is None and size is None:
            msg = "`--keep` must be given: an age such as 30d, a size such as 20GB, or both."
            raise InputError(msg)
        return cls(age, size)


def _age(days: float, text: str) -> timedelta:
    try:
        found = timedelta(days=days)
    except OverflowError as error:
        raise InputError(_refused(text)) from error
    if found < IN_USE:
        msg = (
            f"`--keep` must be an age of at least a day, since an evaluation may be using what was "
            f"used within one; got {text!r}."
        )
        raise InputError(msg)
    return found


def _refused(text: str) -> str:
    return (
        f"`--keep` must be an age ({', '.join(_AGES)}) such as 30d, or a size such as 20GB, each "
        f"at most once; got {text!r}."
    )


@dataclass(frozen=True)
class Referenced:
    """On what promotions, rollbacks and resets rest.

    What only blocked a version may be removed: its run in MLflow keeps the evidence.
    """

    sets: frozenset[str] = frozenset()
    """Digests of sets."""
    names: frozenset[str] = frozenset()
    """Names of sets whose digest is unknown, since the run of the verdict is no longer there."""
    scores: frozenset[tuple[str, str]] = frozenset()
    """Digests of set and candidate."""
    runs: frozenset[str] = frozenset()
    """Runs of the verdicts."""

    @classmethod
    def here(cls, gateway: Gateway) -> Referenced:
        """Read all ledgers of a registry.

        Refused if a part of a ledger cannot be read, was changed or is missing: nothing may be
        removed then.
        """
        sets, names, scores, runs = set[str](), set[str](), set[tuple[str, str]](), set[str]()
        for run_id, name in _verdicts_of_moves(gateway):
            tags = gateway.run_tags(run_id)
            of_set = tags.get("biasgate.set_digest") if tags is not None else None
            candidate = tags.get("biasgate.candidate_digest") if tags is not None else None
            if of_set is None or candidate is None:
                names.add(name)
            else:
                sets.add(of_set)
                scores.add((of_set, candidate))
            runs.add(run_id)
        return cls(frozenset(sets), frozenset(names), frozenset(scores), frozenset(runs))

    def needs(self, item: StoreItem) -> bool:
        """Whether a move rests on something, or it is unknown whether one does."""
        if item.kind == "sets":
            found = set_of(item)
            return found is not None and (found[0] in self.names or found[1] in self.sets)
        if item.kind == "scores":
            return digests_of(item) in self.scores
        if item.kind == "nights":
            runs = runs_of(item)
            return runs is None or bool(runs & self.runs)
        return False


def _verdicts_of_moves(gateway: Gateway) -> Iterator[tuple[str, str]]:
    """Yield run and set of each verdict on which `champion` moved."""
    # A model's ledger may be missing as a whole: its verdicts name entries.
    for model in dict.fromkeys(name.removesuffix(LEDGER_SUFFIX) for name in gateway.models()):
        ledger = Ledger(gateway, model)
        problem = next(iter([*ledger.foreign(), *wrong_with(ledger, ledger.chain)]), None)
        if problem is not None:
            msg = (
                f"the ledger {ledger.name} must be whole and unchanged before anything is removed, "
                f"since nobody knows on what the rest rests; {problem}"
            )
            raise InputError(msg)
        for entry in ledger.entries():
            if entry.content.action in MOVES:
                for verdict in entry.content.verdicts:
                    yield verdict.run_id, verdict.set


_NIGHT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{6}Z(-\d+)?")
# Where items are in a store: by kind, and how deep below its folder.
_PLACES = {"scores": 2, "sets": 1, "models": 1, "work": 1, "downloads": 1}
# What a removal that was killed leaves behind.
LEFT = ".removed-"
SUMMARY, RECORD = "summary.json", "record.json"


@dataclass(frozen=True)
class StoreItem:
    """Something that takes space."""

    kind: str
    """What it is."""
    path: Path
    """Its folder or file."""
    size: int
    """Bytes."""
    used: float
    """When it was used last, in seconds since 1970."""


def store_items(store: Path, nights: Path | None = None) -> Iterator[StoreItem]:
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
        found = [path for each in found if each.is_dir() for path in sorted(each.iterdir())]
        found = [one for one in found if one.name.startswith(LEFT) or one.name[0] != "."]
    return found


def _is_linked(path: Path, store: Path) -> bool:
    """Whether the path, or a folder between it and the store, is a symbolic link."""
    inner = (path, *path.parents)
    return any(one.is_symlink() for one in inner[: inner.index(store)])


def _thing(kind: str, path: Path) -> StoreItem:
    """Measure something; one that disappears meanwhile has no size."""
    try:
        used = path.stat().st_mtime
        if kind == "work":  # a folder with a lock does not change while it is used
            used = max((one.stat().st_mtime for one in path.rglob("*")), default=used)
    except FileNotFoundError:
        used = 0.0
    return StoreItem(kind, path, size_of(path), used)


def digests_of(item: StoreItem) -> tuple[str, str] | None:
    """Return the digests of set and candidate of kept scores; None if its record has none."""
    record = _record(item.path / RECORD)
    found = record.get("set_digest"), record.get("candidate_digest")
    return (str(found[0]), str(found[1])) if all(found) else None


def set_of(item: StoreItem) -> tuple[str, str] | None:
    """Return name and digest of a frozen set; None if its record has none."""
    record = _record(item.path / RECORD)
    found = record.get("name"), record.get("digest")
    return (str(found[0]), str(found[1])) if all(found) else None


def runs_of(item: StoreItem) -> set[str] | None:
    """Return the runs of a night's verdicts; None if its summary cannot be read."""
    try:
        summary = read_json(item.path / SUMMARY, str(item.path / SUMMARY))
        return {str(verdict["run_id"]) for verdict in summary["verdicts"]}
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
