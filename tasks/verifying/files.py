"""Comparison of current files with the judged files: of models, champions and frozen sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.untrusted import read_record, require_regular
from biasgate.tasks.data.evaluation_set import RECORD, ROWS, EvaluationSet
from biasgate.tasks.data.formats import identify_format
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import VerdictReference
from biasgate.tasks.mlflow_server.artifact_hosts import strip_password
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Bound, Verdict, get_champion_uri
from biasgate.tasks.signing.envelope import SignatureCheck
from biasgate.tasks.signing.manifest import Manifest, join_differences
from biasgate.tasks.signing.statement import compute_verdict_digest
from biasgate.tasks.verifying.documents import Documents, read_verdict

UNDETECTED = (
    "Anyone with write access to these files can replace rows, report and verdict together: no "
    "check detects that."
)


def describe_error(error: Exception) -> str:
    """Return the text of an input error, or only the type of another error.

    Other errors may contain long quotes from untrusted files.
    """
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}."


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    """The checked object: policy, report, evidence, tags, verdict, code, model, attestation,
    signature, record, rule, ledger, alias or dataset."""
    holds: bool
    """True if the check succeeded."""
    sentence: str
    """The result in words. Control characters are escaped, because the sentence quotes untrusted
    tags, entries and names."""
    checked: bool = True
    """True if anything was compared. Otherwise the finding only reports the missing comparison."""

    def __post_init__(self) -> None:
        """Escape control characters, which could change the output of a terminal."""
        object.__setattr__(self, "sentence", escape_invisible(self.sentence))


def describe_failures(what: object, findings: Iterable[Finding]) -> str:
    """Return an error message: `what` must not be deployed, with the failed checks."""
    failures = [f"{finding.what}: {finding.sentence}" for finding in findings if not finding.holds]
    return f"{what} must not be deployed, since these checks failed:\n  " + "\n  ".join(failures)


def report_signature(
    subject: str, signed: SignatureCheck, *, holds: bool, note: str = ""
) -> Finding:
    """Return a finding about a signature; without trusted keys, it warns of undetected changes.

    `subject`: the signed object. `note`: a further sentence, if the signature was checked.
    """
    checked = signed.is_required and signed.status != "unchecked"
    text = f"{subject} is {signed.description}.{note if checked else f' {UNDETECTED}'}"
    return Finding("signature", holds=holds, sentence=text, checked=checked)


@dataclass(frozen=True)
class VersionFiles:
    """The current files of a version, read once at the first comparison."""

    version: ModelVersion
    read: Callable[[], Manifest]
    """Function that reads the files and returns their manifest."""
    place: Callable[[], str]
    """Function that returns the registered location of the files, for messages."""
    sizes: Callable[[], Mapping[str, int | None]] | None = None
    """Function that returns file sizes by name. Files with other names or sizes than the judged
    files are not read, since they may be arbitrarily large."""
    required: bool = False
    """True if a verdict that does not record files fails."""

    @classmethod
    def from_registry(cls, version: ModelVersion, gateway: Gateway) -> VersionFiles:
        """Return the registered files of a version, as MLflow would load them."""
        return cls(
            version,
            partial(gateway.read_manifest, version),
            partial(gateway.find_files_uri, version),
            partial(gateway.list_file_sizes, version),
        )

    @cached_property
    def manifest(self) -> Manifest | InputError:
        """The manifest of the files, or the error from reading them."""
        try:
            return self.read()
        except InputError as error:
            return error

    def compare(self, verdict: Verdict, name: str) -> Finding:
        """Compare the files with those that a verdict records; `name` is the verdict's set."""
        subject = f"the files of {self.version.uri}"
        bound = verdict.candidate.bound
        if bound.what == "nothing":
            text = f"{subject} were not recorded with the verdict on {name}. {bound.not_bound}"
            sentence = f"{text} Not checked."
            return Finding("model", holds=not self.required, sentence=sentence, checked=False)
        text = f"{subject} match the files judged on {name}."
        problem = self._find_problem(bound)
        sentence = text if problem is None else f"{text} {problem}"
        return Finding("model", holds=problem is None, sentence=sentence)

    def _find_problem(self, bound: Bound) -> str | None:
        """Return how the files differ from the recorded files; None if they are equal."""
        try:
            recorded = Manifest.from_records(bound.files)
            listed = self.sizes() if self.sizes is not None else None
        except InputError as error:
            return str(error)
        if recorded.digest != bound.digest:
            return "The verdict's list of files does not have the digest that the verdict names."
        # A file of scores is registered once, whatever its name before the ending.
        any_name = bound.what == "scores"
        if listed is not None and not (any_name and [recorded.size] == [*listed.values()]):
            differences = recorded.list_size_differences(listed)
            if differences:
                return f"{self._describe_differences(differences)} Not read."
        if isinstance(self.manifest, InputError):
            return str(self.manifest)
        if any_name and _list_contents(recorded) == _list_contents(self.manifest):
            return None
        differences = recorded.list_differences(self.manifest)
        return self._describe_differences(differences) if differences else None

    def _describe_differences(self, differences: Sequence[str]) -> str:
        return f"Different in {strip_password(self.place())}: {join_differences(differences)}."


def _list_contents(manifest: Manifest) -> list[tuple[str, tuple[str, bool]]]:
    """Return the digest and the format per file; the file name determines the format."""
    return [(file.sha256, identify_format(file.path)) for file in manifest.files]


def check_champion_files(
    verdict: Verdict, name: str, chain: Chain, gateway: Gateway
) -> Iterator[Finding]:
    """Check that the champion in a comparison had the files of its own verdicts.

    The ledger names a champion's own verdicts in the entry of its promotion. Without such an entry
    there is no finding.
    """
    champion, uri = verdict.champion, get_champion_uri(verdict)
    if champion is None or uri is None:
        return
    model, _, number = uri.removeprefix("models:/").rpartition("/")
    moves = [link.content for link in chain.moves if link.content.version == number]
    references = [reference for move in moves for reference in move.verdicts]
    text = f"the champion in the comparison on {name}, {uri}, had the files of its own verdicts."
    recorded = [read_recorded_verdict(reference, gateway) for reference in references]
    own_verdicts = [own_verdict for own_verdict in recorded if own_verdict is not None]
    if len(own_verdicts) < len(recorded):
        missing = f"{text} A verdict behind its promotion is missing or changed."
        yield Finding("model", holds=False, sentence=missing)
        return
    if not own_verdicts:
        return
    version = ModelVersion(model, number, None, {})
    read = partial(Manifest.from_records, champion.bound.files)
    files = VersionFiles(version, read, lambda: "the comparison")
    findings = [
        files.compare(own_verdict, own_verdict.evaluation_set.name) for own_verdict in own_verdicts
    ]
    holds = any(finding.holds for finding in findings)
    sentence = text if holds else f"{text} {findings[-1].sentence}"
    yield Finding("model", holds=holds, sentence=sentence)


def read_recorded_verdict(reference: VerdictReference, gateway: Gateway) -> Verdict | None:
    """Return a verdict that the ledger names; None if it is missing or changed."""
    try:
        verdict = read_verdict(reference.run_id, gateway)
    except InputError:
        return None
    return verdict if compute_verdict_digest(verdict) == reference.digest else None


class _SetRecord(TypedDict):
    """The required keys of a set's `record.json`."""

    name: str
    digest: str
    split: str
    file_sha256: str
    source: dict[str, Any]


def check_frozen_rows(store: Path, documents: Documents, name: str) -> Iterator[Finding]:
    """Compare the rows of a set in a store with the digest that a verdict names.

    The report's source determines the folder of the rows. The record next to the rows is validated,
    but its content is not trusted.
    """
    digest = documents.verdict.evaluation_set.digest
    choices = documents.report.evaluation_set.choices
    key = json_digest([name, choices.source, choices.split])[:16]
    folder = store / "sets" / f"{name}-{key}"
    if not folder.is_dir():
        text = f"the rows of {name} are not in {store}, so they are not compared with the verdict."
        yield Finding("dataset", holds=True, sentence=text, checked=False)
        return
    current = _compute_rows_digest(folder)
    text = f"the rows of {name} in {folder} match the verdict."
    problem = f"Their digest is {current}."
    if isinstance(current, InputError):
        problem = str(current)
    ending = "" if current == digest else f" {problem}"
    yield Finding("dataset", holds=current == digest, sentence=text + ending)


def _compute_rows_digest(folder: Path) -> str | InputError:
    """Compute the digest of a folder's rows; return an error if they cannot be read."""
    record, rows = folder / RECORD, folder / ROWS
    try:
        read_record(record, _SetRecord)
        require_regular(rows, str(rows))
        return EvaluationSet.load(folder).compute_digest()
    except InputError as error:
        return error
    except Exception as error:  # noqa: BLE001 - rows of others may make any library fail anyhow
        return InputError(f"{rows} must be the rows of a frozen set; got: {describe_error(error)}")
