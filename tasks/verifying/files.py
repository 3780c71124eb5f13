"""Comparison of files with the judged ones: the model's, the champion's, the frozen rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.printable import printable
from biasgate.tasks.common.untrusted import read_record, require_regular
from biasgate.tasks.data.evaluation_set import RECORD, ROWS, EvaluationSet
from biasgate.tasks.data.formats import identify_format
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import RestsOn
from biasgate.tasks.mlflow_server.artifact_hosts import without_password
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Bound, Verdict, champion_of
from biasgate.tasks.signing.envelope import Signed
from biasgate.tasks.signing.manifest import Manifest, first_few
from biasgate.tasks.signing.statement import verdict_digest
from biasgate.tasks.verifying.documents import Documents, read_verdict

UNNOTICED = (
    "Anyone with write access to these files can replace rows, report and verdict together: no "
    "check detects that."
)


def described(error: Exception) -> str:
    """Return what went wrong, in one line: our own words, or what kind of error it was.

    Other errors may quote at length what others wrote.
    """
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}."


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    """Policy, report, evidence, tags, verdict, code, model, attestation, signature, record, rule,
    ledger, alias, dataset."""
    holds: bool
    """Whether it is as it should be."""
    sentence: str
    """The result in words. It quotes tags, entries and names that others wrote, so that control
    characters in it are escaped."""
    checked: bool = True
    """Whether anything was compared; what is only reported always holds."""

    def __post_init__(self) -> None:
        """Escape what could rewrite the lines of a terminal."""
        object.__setattr__(self, "sentence", printable(self.sentence))


def not_deployable(what: object, findings: Iterable[Finding]) -> str:
    """Return an error that names what must not be deployed, and the checks that failed."""
    wrong = [f"{finding.what}: {finding.sentence}" for finding in findings if not finding.holds]
    return f"{what} must not be deployed, since these checks failed:\n  " + "\n  ".join(wrong)


def signature_of(what: str, signed: Signed, *, holds: bool, more: str = "") -> Finding:
    """Return the standing of a signature; if no key is trusted, also what no check notices."""
    checked = signed.is_needed and signed.standing != "unchecked"
    text = f"{what} is {signed.words}.{more if checked else f' {UNNOTICED}'}"
    return Finding("signature", holds=holds, sentence=text, checked=checked)


@dataclass(frozen=True)
class VersionFiles:
    """The files of a version as they are now, read once, when a verdict is compared with them."""

    version: ModelVersion
    read: Callable[[], Manifest]
    """Returns their manifest."""
    place: Callable[[], str]
    """Returns where the registry says that they are, for a message."""
    sizes: Callable[[], Mapping[str, int | None]] | None = None
    """Returns their names and sizes without reading them. Files of other names or sizes than
    judged are not read: they may be of any size."""
    required: bool = False
    """Whether a verdict that records no files does not hold."""

    @classmethod
    def of(cls, version: ModelVersion, gateway: Gateway) -> VersionFiles:
        """Look the files up in the registry, as MLflow does when it loads the version."""
        return cls(
            version,
            partial(gateway.manifest, version),
            partial(gateway.place_of, version),
            partial(gateway.sizes, version),
        )

    @cached_property
    def manifest(self) -> Manifest | InputError:
        """Their manifest, or why there is none."""
        try:
            return self.read()
        except InputError as error:
            return error

    def compare(self, verdict: Verdict, name: str) -> Finding:
        """Compare with the files that the verdict on a set names."""
        of = f"the files of {self.version.uri}"
        bound = verdict.candidate.bound
        if bound.what == "nothing":
            text = f"{of} were not recorded with the verdict on {name}. {bound.not_bound}"
            told = f"{text} Not checked."
            return Finding("model", holds=not self.required, sentence=told, checked=False)
        text = f"{of} match the files judged on {name}."
        problem = self._problem(bound)
        sentence = text if problem is None else f"{text} {problem}"
        return Finding("model", holds=problem is None, sentence=sentence)

    def _problem(self, bound: Bound) -> str | None:
        """Return how the files differ from the recorded ones; None if they do not."""
        try:
            recorded = Manifest.of_records(bound.files)
            listed = self.sizes() if self.sizes is not None else None
        except InputError as error:
            return str(error)
        if recorded.digest != bound.digest:
            return "The verdict's list of files does not have the digest that the verdict names."
        # A file of scores is registered once, whatever its name before the ending.
        any_name = bound.what == "scores"
        if listed is not None and not (any_name and [recorded.size] == [*listed.values()]):
            differ = recorded.other_sizes(listed)
            if differ:
                return f"{self._differ(differ)} Not read."
        if isinstance(self.manifest, InputError):
            return str(self.manifest)
        if any_name and _contents(recorded) == _contents(self.manifest):
            return None
        differ = recorded.differences(self.manifest)
        return self._differ(differ) if differ else None

    def _differ(self, differences: Sequence[str]) -> str:
        return f"Different in {without_password(self.place())}: {first_few(differences)}."


def _contents(manifest: Manifest) -> list[tuple[str, tuple[str, bool]]]:
    """Return what is in each file, and how its name says that it is read."""
    return [(file.sha256, identify_format(file.path)) for file in manifest.files]


def champion_files(
    verdict: Verdict, name: str, chain: Chain, gateway: Gateway
) -> Iterator[Finding]:
    """Yield whether the champion's files were, in a comparison, those of its own verdicts.

    Its own verdicts are those that the ledger names for its promotion. Nothing is yielded if there
    was no champion of this ledger.
    """
    champion, uri = verdict.champion, champion_of(verdict)
    if champion is None or uri is None:
        return
    model, _, number = uri.removeprefix("models:/").rpartition("/")
    moves = [link.content for link in chain.moves if link.content.version == number]
    rests_on = [rests for move in moves for rests in move.verdicts]
    text = f"the champion in the comparison on {name}, {uri}, had the files of its own verdicts."
    recorded = [read_recorded(item, gateway) for item in rests_on]
    known = [one for one in recorded if one is not None]
    if len(known) < len(recorded):
        missing = f"{text} A verdict behind its promotion is missing or changed."
        yield Finding("model", holds=False, sentence=missing)
        return
    if not known:
        return
    version = ModelVersion(model, number, None, {})
    read = partial(Manifest.of_records, champion.bound.files)
    files = VersionFiles(version, read, lambda: "the comparison")
    findings = [files.compare(one, one.evaluation_set.name) for one in known]
    holds = any(finding.holds for finding in findings)
    sentence = text if holds else f"{text} {findings[-1].sentence}"
    yield Finding("model", holds=holds, sentence=sentence)


def read_recorded(item: RestsOn, gateway: Gateway) -> Verdict | None:
    """Return a verdict that the ledger names; None if it is not there as it was."""
    try:
        found = read_verdict(item.run_id, gateway)
    except InputError:
        return None
    return found if verdict_digest(found) == item.digest else None


class _SetRecord(TypedDict):
    """What is read of a set's `record.json`."""

    name: str
    digest: str
    split: str
    file_sha256: str
    source: dict[str, Any]


def frozen_rows(store: Path, documents: Documents, name: str) -> Iterator[Finding]:
    """Compare the rows in a store with the digest that a verdict names.

    The verdict's report says which source the rows are of, and so in which folder they are: what
    the record beside the rows says decides nothing.
    """
    digest = documents.verdict.evaluation_set.digest
    choices = documents.report.evaluation_set.choices
    key = json_digest([name, choices.source, choices.split])[:16]
    folder = store / "sets" / f"{name}-{key}"
    if not folder.is_dir():
        text = f"the rows of {name} are not in {store}, so they are not compared with the verdict."
        yield Finding("dataset", holds=True, sentence=text, checked=False)
        return
    found = _rows_digest(folder)
    text = f"the rows of {name} in {folder} match the verdict."
    problem = f"Their digest is {found}."
    if isinstance(found, InputError):
        problem = str(found)
    told = "" if found == digest else f" {problem}"
    yield Finding("dataset", holds=found == digest, sentence=text + told)


def _rows_digest(folder: Path) -> str | InputError:
    """Compute the digest of the rows of a folder; return what is wrong if that is not possible."""
    record, rows = folder / RECORD, folder / ROWS
    try:
        read_record(record, _SetRecord)
        require_regular(rows, str(rows))
        return EvaluationSet.load(folder).compute_digest()
    except InputError as error:
        return error
    except Exception as error:  # noqa: BLE001 - rows of others may make any library fail anyhow
        return InputError(f"{rows} must be the rows of a frozen set; got: {described(error)}")
