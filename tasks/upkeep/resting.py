"""What the entries of ledgers rest on: it is never removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.entry import MOVES
from biasgate.tasks.ledger.ledger import LEDGER_SUFFIX, Ledger, is_ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.upkeep.things import Thing, digests_of, runs_of, set_of


@dataclass(frozen=True)
class Resting:
    """What entries rest on."""

    sets: frozenset[str] = frozenset()
    """Digests of sets."""
    names: frozenset[str] = frozenset()
    """Names of sets whose digest is unknown, since the run of the verdict is no longer there."""
    scores: frozenset[tuple[str, str]] = frozenset()
    """Digests of set and candidate."""
    runs: frozenset[str] = frozenset()
    """Runs of verdicts behind a promotion, a rollback or a reset."""

    @classmethod
    def here(cls, gateway: Gateway) -> Resting:
        """Read all ledgers of a registry.

        Refused if a part of a ledger cannot be read: nothing may be removed then.
        """
        sets, names, scores, runs = set[str](), set[str](), set[tuple[str, str]](), set[str]()
        for run_id, name, moved in _verdicts(gateway):
            tags = gateway.run_tags(run_id)
            of_set = tags.get("biasgate.set_digest") if tags is not None else None
            candidate = tags.get("biasgate.candidate_digest") if tags is not None else None
            if of_set is None or candidate is None:
                names.add(name)
            else:
                sets.add(of_set)
                scores.add((of_set, candidate))
            if moved:
                runs.add(run_id)
        return cls(frozenset(sets), frozenset(names), frozenset(scores), frozenset(runs))

    def needs(self, thing: Thing) -> bool:
        """Whether an entry rests on something, or it is unknown whether one does."""
        if thing.kind == "sets":
            found = set_of(thing)
            return found is not None and (found[0] in self.names or found[1] in self.sets)
        if thing.kind == "scores":
            return digests_of(thing) in self.scores
        if thing.kind == "nights":
            runs = runs_of(thing)
            return runs is None or bool(runs & self.runs)
        return False


def _verdicts(gateway: Gateway) -> Iterator[tuple[str, str, bool]]:
    """Yield run and set of each verdict that an entry names, and whether `champion` moved on it."""
    for name in gateway.models():
        if not is_ledger(name):
            continue
        ledger = Ledger(gateway, name.removesuffix(LEDGER_SUFFIX))
        problem = next(iter(ledger.foreign()), None)
        if problem is not None:
            msg = (
                f"every version of {name} must be an entry before anything is removed, since "
                f"nobody knows on what others rest; {problem}"
            )
            raise InputError(msg)
        for entry in ledger.entries():
            for one in entry.content.verdicts:
                yield one.run_id, one.set, entry.content.action in MOVES
