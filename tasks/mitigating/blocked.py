"""Results of a blocked candidate as the input of a mitigation (`--from`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.included import find_evaluation_file
from biasgate.tasks.mitigating.sets import MitigationSets
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.records import Summary, Verdict
from biasgate.tasks.records.record import Record
from biasgate.tasks.reporting.results import SUMMARY


@dataclass(frozen=True, kw_only=True)
class Blocked(Record):
    """A candidate that did not pass an earlier evaluation."""

    folder: str
    """Its results on one set."""
    candidate: str
    evaluation_set: str
    failed: tuple[str, ...]
    """The identities with a failed check; empty if only checks of overall numbers failed."""

    @classmethod
    def from_results(cls, folder: Path) -> Blocked:
        """Read the verdict in a folder of results."""
        path = folder / "verdict.json"
        try:
            verdict = Verdict.read(path.read_bytes())
            name, set_name = verdict.candidate.name, verdict.evaluation_set.name
            results, outcome = verdict.results, verdict.outcome
        except (OSError, ValueError) as error:
            msg = (
                f"`--from` must be a folder of results, OUTPUT/SET/CANDIDATE, with verdict.json; "
                f"{folder} has none that can be read ({type(error).__name__})."
            )
            raise InputError(msg) from error
        if outcome == "pass":
            msg = (
                f"`--from` must be a candidate that did not pass; {name} passed on {set_name} "
                f"({path})."
            )
            raise InputError(msg)
        failed = [
            result.group
            for result in results
            if result.outcome == "fail" and result.group is not None
        ]
        return cls(
            folder=str(folder),
            candidate=name,
            evaluation_set=set_name,
            failed=tuple(dict.fromkeys(failed)),
        )


def find_results_config(folder: Path | None) -> Path:
    """Return the evaluation file that produced the results of a candidate."""
    if folder is None:
        msg = "give CONFIG, or `--from` with the results of a candidate that did not pass."
        raise InputError(msg)
    path = folder.resolve().parent.parent / SUMMARY
    try:
        summary = Summary.read(path.read_bytes())
        config = find_evaluation_file(summary.config)
    except (OSError, ValueError) as error:
        msg = (
            f"`--from` must be a folder of results, OUTPUT/SET/CANDIDATE; {path} does not name an "
            f"evaluation file ({type(error).__name__}). Also give CONFIG."
        )
        raise InputError(msg) from error
    if not config.is_file():
        msg = f"the evaluation file of {folder} must exist; {config} does not. Also give CONFIG."
        raise InputError(msg)
    return config


@task(name="read verdict")
def read_blocked(folder: str | None, output: str) -> Blocked | None:
    """Read the verdict of a blocked candidate, if a folder is given. Safe to retry: only reads."""
    return load_blocked(None if folder is None else Path(folder), Path(output))


def load_blocked(folder: Path | None, output: Path) -> Blocked | None:
    """Return the blocked candidate of a folder, if it is given; refuse `output` around it."""
    if folder is None:
        return None
    blocked = Blocked.from_results(folder)
    results = folder.resolve()
    if output.resolve() in (results, *results.parents):
        msg = (
            f"`--output` must be another folder than that of the blocked candidate, {output}: its "
            "results would be replaced."
        )
        raise InputError(msg)
    return blocked


def refuse_other_results(
    blocked: Blocked, candidates: Collection[str], evaluation_sets: Collection[str]
) -> None:
    """Refuse results whose candidate or set is not in the evaluation file."""
    for kind, name, names in (
        ("a candidate with `train_on`", blocked.candidate, candidates),
        ("a set", blocked.evaluation_set, evaluation_sets),
    ):
        if name not in names:
            msg = (
                f"`--from` must be results of {kind} of this evaluation file; {blocked.folder} has "
                f"those of {name} (known: {', '.join(names) or 'none'}). Give the evaluation file "
                "that they were made with."
            )
            raise InputError(msg)


def limit_to_failed(
    blocked: Blocked | None, mitigation: Mitigation, sets: MitigationSets
) -> Mitigation:
    """Limit the settings to the identities that failed, unless the file sets `only`."""
    if blocked is None or mitigation.only is not None:
        return mitigation
    identities = sets.training.load().identities
    failed = tuple(name for name in blocked.failed if name in identities)
    return mitigation.model_copy(update={"only": failed}) if failed else mitigation
