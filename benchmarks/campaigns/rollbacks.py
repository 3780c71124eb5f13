"""Rollbacks that are killed at every step, repeated, and made by two processes at once.

    python -m benchmarks.campaigns.rollbacks --pairs 50

Each trial starts from a registry in which version 2 replaced version 1. A process rolls back and is
killed just before a call of MLflow's client, or two processes roll back at once. Then `rollback` is
called twice more. Version 1 must be champion after the first call, by a single rollback in the
ledger.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.campaigns.disturbing import (
    KILLED,
    MODEL,
    UNDISTURBED,
    Trial,
    WatchedClient,
    be_quiet,
    kill,
    list_faults,
    report_trials,
)
from benchmarks.campaigns.faults import FORK, World, promote_second
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.by_hand import roll_back

ONE_ROLLBACK = [("promotion", "1"), ("promotion", "2"), ("rollback", "1")]


@dataclass(frozen=True, kw_only=True)
class DisturbedRollback(Trial):
    """The state after a disturbed rollback, or two at once, and two more."""

    has_moved: bool
    """True if `champion` was version 1 before the next call."""


def _attempt(uri: str, nth: int, barrier: Any) -> None:
    """Roll back in this process, killed before the nth call; exits, never returns."""
    be_quiet()
    gateway, numbers = Gateway(uri), itertools.count(1)

    def kill_at_call(*_: Any) -> None:
        if next(numbers) == nth:
            kill()

    gateway.__dict__["client"] = WatchedClient(gateway.client, kill_at_call)
    barrier.wait(60)
    try:
        roll_back(MODEL, "complaints", gateway)
    except BaseException:  # noqa: BLE001 - the exit code shows it
        os._exit(1)
    os._exit(UNDISTURBED)


def run_trial(world: World, kind: str, numbers: tuple[int, ...]) -> DisturbedRollback:
    """Roll back in one process for each number, killed before that call of the client; check.

    Number 0 is never killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        uri = f"sqlite:///{world.copy_database(Path(folder))}"
        barrier = FORK.Barrier(len(numbers))
        processes = [FORK.Process(target=_attempt, args=(uri, nth, barrier)) for nth in numbers]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
        gateway, exit_codes = Gateway(uri), [process.exitcode for process in processes]
        has_moved = _read_champion(gateway) == "1"
        problems = []
        if not set(exit_codes) <= {KILLED, UNDISTURBED}:
            problems.append(f"exit codes are {exit_codes}")
        for call in ("first", "second"):
            roll_back(MODEL, "complaints", gateway)
            if _read_champion(gateway) != "1":
                problems.append(f"champion is {_read_champion(gateway)} after the {call} call")
        entries = Ledger(gateway, MODEL).read_entries()
        moves = [
            (entry.content.action, entry.content.version)
            for entry in entries
            if entry.state == "done"
        ]
        if moves != ONE_ROLLBACK:
            problems.append(f"the moves in the ledger are {moves}")
        if "open" in [entry.state for entry in entries]:
            problems.append("an entry is open")
        problems += list_faults(gateway, world.folder)
    n_fired = exit_codes.count(KILLED) if any(numbers) else 1
    return DisturbedRollback(kind=kind, n_fired=n_fired, problems=problems, has_moved=has_moved)


def _read_champion(gateway: Gateway) -> str | None:
    champion = gateway.get_alias(MODEL, "champion")
    return champion and champion.version


def make_world(folder: Path) -> World:
    """Create the registry that every trial starts from."""
    world = World.make(folder)
    promote_second(Gateway.from_store(folder), world.verdict)
    return world


def kill_each_call(world: World) -> Iterator[DisturbedRollback]:
    """Yield a trial for each call of the client, until a rollback makes no such call."""
    for nth in itertools.count(1):
        trial = run_trial(world, "kill before a call", (nth,))
        if trial.n_fired or trial.problems:
            yield trial
        if not trial.n_fired:
            return


def main() -> None:
    """Run the trials and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=50)
    options = parser.parse_args()
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(Path(folder))
        pairs = (run_trial(world, "two at once", (0, 0)) for _ in range(options.pairs))
        report_trials(itertools.chain(kill_each_call(world), pairs))


if __name__ == "__main__":
    main()
