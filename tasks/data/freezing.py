"""First step of every evaluation: freeze the set of a section of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow as pa
from pydantic import BeforeValidator, JsonValue, SerializeAsAny, TypeAdapter

from biasgate.tasks.common.catalogue import Catalogue
from biasgate.tasks.common.errors import Result, SourceError, withhold_message
from biasgate.tasks.common.files import hold_lock, json_digest
from biasgate.tasks.common.folders import Folder
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.data.columns import conform_rows
from biasgate.tasks.data.evaluation_set import SAMPLED_FROM, EvaluationSet, freeze_rows
from biasgate.tasks.data.hashed_parts import draw_sample
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.store import Workplace

_PACKAGE = "biasgate.tasks.data"
SOURCE_KINDS = Catalogue(
    key="source",
    group="biasgate.sources",
    base=SourceSettings,
    own={
        "table": f"{_PACKAGE}.table:TableSource",
        "templates": f"{_PACKAGE}.templates:TemplatesSource",
        "huggingface": f"{_PACKAGE}.huggingface:HuggingFaceSource",
        "civil_comments": f"{_PACKAGE}.civil_comments:CivilCommentsSource",
    },
    written={"mitigated": "biasgate.tasks.mitigating.source:MitigatedSource"},
    hints=dict.fromkeys(
        ("csv", "tsv", "json", "jsonl", "parquet", "file"),
        "Write `source: table`: it reads CSV, JSON lines and Parquet.",
    )
    | {"shards": "To count shards, write a separate file without `evaluation_sets`."},
)
Source = Annotated[SerializeAsAny[SourceSettings], BeforeValidator(SOURCE_KINDS.read)]
SOURCES: TypeAdapter[SourceSettings] = TypeAdapter(Source)


def freeze_source(source: SourceSettings, store: Path) -> EvaluationSet:
    """Return the frozen set of a source, written once per content of its files and options.

    Sets are written to `store/sets`, downloads to `store/downloads`; an existing set is verified.
    If the source raises another exception than InputError, its message is withheld, because it may
    quote a comment.
    """
    source = source.model_copy()  # reading changes the source's notes; keep the caller's unchanged
    check_source(source)
    source = _call_source(source, partial(source.prepare, store / "downloads"))
    check_source(source)
    provenance = _call_source(source, source.provenance)
    key = json_digest([source.name, provenance, source.split_name()])[:16]
    folder = store / "sets" / f"{source.name}-{key}"
    with hold_lock(folder):
        if folder.exists():
            Folder(str(folder)).touch()
            return EvaluationSet.load(folder)
        chunks: Iterable[pa.Table] = _yield_chunks(source)
        sampled: dict[str, JsonValue] = {}
        if source.sample is not None:
            chunks, n_all = draw_sample(chunks, source.sample)
            if n_all > sum(chunk.num_rows for chunk in chunks):
                sampled = {SAMPLED_FROM: n_all}
        return freeze_rows(
            chunks,
            folder,
            name=source.name,
            split=source.split_name(),
            source=provenance,
            notes=lambda: _call_source(source, source.notes) | sampled,
        )


def check_source(source: SourceSettings) -> None:
    """Raise an error if a source cannot be read, before any work starts."""
    _call_source(source, source.check)


def _yield_chunks(source: SourceSettings) -> Iterator[pa.Table]:
    """Yield the rows of a source, checked."""
    end = pa.table({})
    chunks = _call_source(source, lambda: iter(source.chunks()))
    while (chunk := _call_source(source, partial(next, chunks, end))) is not end:
        yield conform_rows(chunk, source.name)


def _call_source(source: SourceSettings, method: Callable[[], Result]) -> Result:
    """Call a method of a source; withhold the message of an exception that may quote a comment."""
    subject = f"source {source.source!r} of evaluation set {source.name!r}"
    return withhold_message(method, subject, SourceError)


@task(name="freeze evaluation set", task_run_name="freeze {source.name}")
def freeze_evaluation_set(source: SourceSettings, workplace: Workplace) -> str:
    """Read a source, write the frozen set and return its folder. Safe to retry."""
    log_message(f"freezing {source.name}")
    frozen = freeze_source(source, workplace.store)
    total = "" if frozen.sampled_from is None else f" of {frozen.sampled_from:,}"
    counts = f"{frozen.n_rows:,}{total} rows, identities: {len(frozen.identities)}"
    log_message(f"frozen {frozen.name}: {counts}, digest: {frozen.digest[:12]}")
    return str(frozen.folder)
