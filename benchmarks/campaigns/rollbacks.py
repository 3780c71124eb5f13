"""Rollbacks that are killed at every step, repeated, and made by two at once.

    python -m benchmarks.campaigns.rollbacks --pairs 50

prints what docs/evidence/operation.md says about rollbacks. Each trial starts from a registry in
which version 2 replaced version 1. A process of its own rolls back and is killed just before one
call of MLflow's client; or two processes roll back at once. Then `rollback` is called twice more.
Version 1 must be champion after the first of them, by exactly one rollback in the ledger.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.promoted import MODEL

from benchmarks.campaigns.disturbing import be_quiet, kill
from benchmarks.campaigns.faults import FORK, KILLED, UNDISTURBED, World, promote_second
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.by_hand import roll_back
from biasgate.tasks.promoting.verify import verify_model

ONE_ROLLBACK = [("promotion", "1"), ("promotion", "2"), ("rollback", "1")]


class _Killing:
    """A client that kills the process before its nth call."""

    def __init__(self, client: Any, nth: int) -> None:
        self._client, self._left = client, nth

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                kill()
            return found(*args, **options)

        return call


@dataclass(frozen=True)
class Trial:
    """The state after one disturbed rollback, or two at once, and two more.

    Attributes
    ----------
    ended : list of int
        The exit codes of the disturbed process, or of the two.
    moved : bool
        Whether `champion` was version 1 before the next call.
    problems : list of str
        What is wrong.
    """

    ended: list[int | None]
    moved: bool
    problems: list[str]


def _attempt(uri: str, nth: int, go: Any) -> None:
    """Roll back in this process; exits, never returns."""
    be_quiet()
    gateway = Gateway(uri)
    gateway.__dict__["client"] = _Killing(gateway.client, nth)
    go.wait()
    try:
        roll_back(MODEL, "complaints", gateway)
    except BaseException:  # noqa: BLE001 - the exit code tells
        os._exit(1)
    os._exit(UNDISTURBED)


def run_trial(world: World, nths: tuple[int, ...]) -> Trial:
    """Roll back in one process for each number, killed before that call of the client; check.

    Number 0 is never killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        uri = f"sqlite:///{world.copy_database(Path(folder))}"
        go = FORK.Event()
        processes = [FORK.Process(target=_attempt, args=(uri, nth, go)) for nth in nths]
        for one in processes:
            one.start()
        go.set()
        for one in processes:
            one.join(120)
        return _look(world, Gateway(uri), [one.exitcode for one in processes])


def _look(world: World, gateway: Gateway, ended: list[int | None]) -> Trial:
    moved = _champion(gateway) == "1"
    problems = []
    for call in ("first", "second"):
        roll_back(MODEL, "complaints", gateway)
        if _champion(gateway) != "1":
            problems.append(f"champion is {_champion(gateway)} after the {call} call")
    entries = Ledger(gateway, MODEL).read_entries()
    done = [(one.content.action, one.content.version) for one in entries if one.state == "done"]
    if done != ONE_ROLLBACK:
        problems.append(f"the ledger says {done}")
    if "open" in [one.state for one in entries]:
        problems.append("an entry is open")
    findings = verify_model(MODEL, None, gateway, world.folder)
    problems += [one.sentence for one in findings if not one.holds]
    return Trial(ended, moved, problems)


def _champion(gateway: Gateway) -> str | None:
    found = gateway.get_alias(MODEL, "champion")
    return found and found.version


def make_world(folder: Path) -> World:
    """Create the registry that every trial starts from."""
    world = World.make(folder)
    promote_second(Gateway.from_store(folder), world.verdict)
    return world


def killed(world: World) -> Iterator[Trial]:
    """Yield a trial for each call of the client, until a rollback makes no such call."""
    nth = 1
    while (trial := run_trial(world, (nth,))).ended == [KILLED]:
        yield trial
        nth += 1


def main() -> None:
    """Run the trials and print what was seen."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=50)
    options = parser.parse_args()
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(Path(folder))
        kills = list(killed(world))
        pairs = [run_trial(world, (0, 0)) for _ in range(options.pairs)]
    for one in (*kills, *pairs):
        if one.problems or one.ended not in ([KILLED], [UNDISTURBED, UNDISTURBED]):
            sys.stderr.write(f"{one}\n")
    for name, trials in (("killed before each call", kills), ("two at once", pairs)):
        n_moved, n_wrong = sum(one.moved for one in trials), sum(bool(t.problems) for t in trials)
        sys.stdout.write(f"{name}: {len(trials)}, moved by then {n_moved}, wrong {n_wrong}\n")


if __name__ == "__main__":
    main()
