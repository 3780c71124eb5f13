"""First step of every evaluation: from a section of the configuration to a frozen set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, SerializeAsAny, TypeAdapter

from biasgate.tasks.common.catalogue import Catalogue
from biasgate.tasks.common.files import json_digest, locked
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.columns import conformed
from biasgate.tasks.data.evaluation_set import EvaluationSet, freeze_rows
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.store import Workplace

_HERE = "biasgate.tasks.data"
SOURCE_KINDS = Catalogue(
    key="source",
    group="biasgate.sources",
    base=SourceSettings,
    own={
        "table": f"{_HERE}.table:TableSource",
        "templates": f"{_HERE}.templates:TemplatesSource",
        "civil_comments": f"{_HERE}.civil_comments:CivilCommentsSource",
    },
    hints=dict.fromkeys(
        ("csv", "tsv", "json", "jsonl", "parquet", "file"),
        "Write `source: table`: it reads CSV, JSON lines and Parquet.",
    ),
)
Source = Annotated[SerializeAsAny[SourceSettings], BeforeValidator(SOURCE_KINDS.read)]
SOURCES: TypeAdapter[SourceSettings] = TypeAdapter(Source)


def freeze(source: SourceSettings, store: Path) -> EvaluationSet:
    """Return the frozen set of a source; it is frozen once per content of its files and options.

    Parameters
    ----------
    source : SourceSettings
        Checked section of a configuration.
    store : Path
        The set is written below `store/sets`, downloads below `store/downloads`.

    Returns
    -------
    EvaluationSet
        The set; an existing one is verified.
    """
    source = source.model_copy()  # its notes on the rows must not outlive this call
    source.check()
    source = source.prepare(store / "downloads")
    source.check()
    provenance = source.provenance()
    key = json_digest([source.name, provenance, source.split_name()])[:16]
    folder = store / "sets" / f"{source.name}-{key}"
    with locked(folder):
        if folder.exists():
            return EvaluationSet.load(folder)
        return freeze_rows(
            (conformed(chunk, source.name) for chunk in source.chunks()),
            folder,
            name=source.name,
            split=source.split_name(),
            source=provenance,
            notes=source.notes,
        )


@task(name="freeze evaluation set", task_run_name="freeze {source.name}")
def freeze_evaluation_set(source: SourceSettings, workplace: Workplace) -> str:
    """Read the source, write the frozen set, return its folder. Safe to retry."""
    say(f"freezing {source.name}")
    frozen = freeze(source, workplace.store)
    counts = f"{frozen.n_rows:,} rows, identities: {len(frozen.identities)}"
    say(f"frozen {frozen.name}: {counts}, digest: {frozen.digest[:12]}", aside=True)
    return str(frozen.folder)
