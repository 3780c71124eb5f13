"""Data and keys: the evaluation file with its inputs, frozen sets, keys, the local clock."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from biasgate.tasks.common.errors import CandidateError, InputError
from biasgate.tasks.common.secrets import masked
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.freezing import freeze
from biasgate.tasks.doctor.check import Check
from biasgate.tasks.doctor.servers import has_runs
from biasgate.tasks.evidence.file import RIVALS
from biasgate.tasks.promoting.rivals import find_rivals
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.scoring.scored import try_candidate
from biasgate.tasks.signing.keys import PRIVATE_KEY, SHORT, PrivateKey, TrustedKeys
from biasgate.tasks.store import Workplace

_FUTURE_S = 300.0


def check_evaluation(config: Path | None) -> Iterator[Check]:
    """Check an evaluation file with its policy and everything that it names."""
    if config is None:
        text = "no evaluation file was named"
        yield Check("data", "ok", text, "Name it to check its data: biasgate doctor CONFIG")
        return
    if not config.is_file():
        yield Check("data", "wrong", f"{config} does not exist", "Name an evaluation file.")
        return
    found = read_evaluation(config)
    sets, candidates = len(found.evaluation_sets), len(found.candidates)
    text = f"{config}: sets {sets}, candidates {candidates}, policy {found.policy.name}"
    yield Check("data", "ok", text)


def check_champion(config: Path | None, store: Path) -> Iterator[Check]:
    """Check that champion and reference can score the sets of an evaluation as they are now.

    Nobody can be judged where they cannot. The sets are frozen, for the evaluation that follows;
    champion and reference are opened.
    """
    if config is None or not config.is_file():
        return
    evaluation, workplace = read_evaluation(config), Workplace(store)
    named = {
        role: one
        for role, one in zip(RIVALS, (evaluation.champion, evaluation.reference), strict=True)
        if one
    }
    registered = evaluation.registered_model if has_runs(store) else None
    if not named and registered is None:
        return
    rivals = find_rivals(
        named,
        registered,
        evaluation.policy,
        evaluation.candidates,
        workplace.gateway,
    )
    frozen = [str(freeze(one, store).folder) for one in evaluation.evaluation_sets if rivals]
    sets = ", ".join(one.name for one in evaluation.evaluation_sets)
    for role, rival in rivals.items():
        name = rival.uri or rival.name
        try:
            try_candidate(rival, frozen, workplace)
        except (CandidateError, InputError) as error:
            text = f"{name} cannot score {sets}, so nobody can be judged: {masked(str(error))}"
            yield Check(role, "wrong", text, "Put it in order before the next evaluation.")
        else:
            yield Check(role, "ok", f"{name} can score {sets}")


def check_store(store: Path) -> Iterator[Check]:
    """Check that frozen sets are as they were frozen, and that no file is from the future."""
    folders = sorted(path for path in (store / "sets").glob("*") if (path / "record.json").exists())
    changed = False
    for folder in folders:
        try:
            EvaluationSet.load(folder)
        except InputError as error:
            changed = True
            do = f"Remove {folder}; the next evaluation freezes it again."
            yield Check("frozen sets", "wrong", str(error), do)
    if folders and not changed:
        text = f"all {len(folders)} in {store} are as they were frozen"
        yield Check("frozen sets", "ok", text)
    ahead = max((folder.stat().st_mtime - time.time() for folder in folders), default=0.0)
    if ahead > _FUTURE_S:
        text = f"files of the store are {ahead / 60:.0f} minutes from the future"
        yield Check("clock", "warning", text, "Let this machine set its clock by NTP.")


def check_keys() -> Iterator[Check]:
    """Check the private key that signs, and the keys that are trusted."""
    own, trusted = PrivateKey.here(), TrustedKeys.here()
    if own is None:
        if trusted:
            text = f"none, but {len(trusted.keys)} are trusted: this machine can only verify"
            do = f"Where evaluations run, set {PRIVATE_KEY}."
            yield Check("signing key", "warning", text, do)
            return
        text = "none: verdicts are not signed, so whoever may write to the registry may forge them"
        do = f"Run `biasgate keys new`, and set {PRIVATE_KEY}."
        yield Check("signing key", "warning", text, do)
        return
    key_id = own.public.key_id
    if trusted.keys[key_id].revoked_since:
        do = "Run `biasgate keys new`, and trust the new key."
        yield Check("signing key", "wrong", f"{key_id[:SHORT]} is revoked", do)
        return
    named = os.environ[PRIVATE_KEY]
    path = Path(named).expanduser() if len(named) < 1024 and "\n" not in named else None
    if path is not None and path.is_file() and path.stat().st_mode & 0o077:
        do = "Let only its owner read it: chmod 600 FILE"
        yield Check("signing key", "warning", f"others may read the file of {key_id[:SHORT]}", do)
        return
    yield Check("signing key", "ok", f"{key_id[:SHORT]} signs; {len(trusted.keys)} are trusted")
