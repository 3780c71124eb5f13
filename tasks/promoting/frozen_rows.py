"""Whether the frozen rows in a store are the ones that a verdict was decided on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.untrusted import check, read_json, require_regular
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


_RECORDS = TypeAdapter(_Record)


def frozen_rows(store: Path, documents: Documents, name: str) -> Iterator[Finding]:
    """Compare the rows in a store with the digest that a verdict names.

    The verdict's report says which source the rows are of, and so in which folder they are: what
    the record beside the rows says decides nothing. The folder of a report that names no source,
    of an earlier release, is found by the record.

    Parameters
    ----------
    store : Path
        The store.
    documents : Documents
        Verdict and report.
    name : str
        The set.
    """
    digest = documents.verdict["evaluation_set"]["digest"]
    choices: Any = documents.report["evaluation_set"]["choices"]
    sets = store / "sets"
    if choices.get("source") is not None:
        key = json_digest([name, choices["source"], choices.get("split")])[:16]
        folders = [sets / f"{name}-{key}"]
    else:
        folders = [one for one in sorted(sets.glob("*")) if one.name.rpartition("-")[0] == name]
    there = [one for one in folders if one.is_dir()]
    if not there:
        text = f"the rows of {name} are not in {store}, so they are not compared with the verdict."
        yield Finding("dataset", holds=True, sentence=text)
        return
    found = {one: _digest(one) for one in there}
    same = [one for one in there if found[one] == digest]
    text = f"the rows of {name} in {there[0] if len(there) == 1 else sets} are the verdict's."
    told = "" if same else f" {'; '.join(_problem(one, found[one]) for one in there)}"
    yield Finding("dataset", holds=bool(same), sentence=text + told)


def _digest(folder: Path) -> str | InputError:
    """Compute the digest of the rows of a folder; return what is wrong if that is not possible."""
    record, rows = folder / RECORD, folder / ROWS
    try:
        known = check(read_json(record, str(record)), _RECORDS, str(record))
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
