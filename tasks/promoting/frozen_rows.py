"""Whether the frozen rows in a store are the ones that a verdict was decided on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.untrusted import read_record, require_regular
from biasgate.tasks.data.evaluation_set import RECORD, ROWS, EvaluationSet
from biasgate.tasks.promoting.documents import Documents
from biasgate.tasks.promoting.findings import Finding, described


class _Record(TypedDict):
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
        yield Finding("dataset", holds=True, sentence=text)
        return
    found = _digest(folder)
    text = f"the rows of {name} in {folder} are the verdict's."
    told = "" if found == digest else f" {_problem(folder, found)}"
    yield Finding("dataset", holds=found == digest, sentence=text + told)


def _digest(folder: Path) -> str | InputError:
    """Compute the digest of the rows of a folder; return what is wrong if that is not possible."""
    record, rows = folder / RECORD, folder / ROWS
    try:
        known = read_record(record, _Record)
        require_regular(rows, str(rows))
        return EvaluationSet.load(folder).content_digest() if known else ""
    except InputError as error:
        return error
    except Exception as error:  # noqa: BLE001 - rows of others may make any library fail anyhow
        return InputError(f"{rows} must be the rows of a frozen set; got: {described(error)}")


def _problem(folder: Path, found: str | InputError) -> str:
    if isinstance(found, InputError):
        return str(found)
    return f"Those in {folder} have another digest: {found}."
