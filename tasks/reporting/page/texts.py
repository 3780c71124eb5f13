"""The comments that tell most about a candidate: only if a user asks to see them.

Their texts are abusive and personal. They are in the one page that the user asked for, and nowhere
else: in no step's parameters or results, no log, and not in MLflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from biasgate.tasks.common.arrow_arrays import as_numpy
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.evidence.rows import CANDIDATE
from biasgate.tasks.reporting.tables import plus_minus

# Comments of each identity and class, and characters of each.
QUOTED, LONGEST = 3, 400
# Several comments may have the same text; this many are looked at to find others.
_LOOKED_AT = 4 * QUOTED
_ROWS_A_BATCH = 65_536


@dataclass(frozen=True)
class Quote:
    """A comment with its score."""

    score: str
    text: str


@dataclass(frozen=True)
class Quoted:
    """Harmless comments that mention an identity with the highest scores, toxic with the lowest."""

    name: str
    harmless: tuple[Quote, ...]
    toxic: tuple[Quote, ...]


def require_texts(sources: Iterable[SourceSettings]) -> None:
    """Refuse sets without texts, before any work."""
    for source in sources:
        if not source.has_text:
            msg = (
                f"`--with-texts` needs sets with texts; {source.name!r} has none. "
                "Name the column with `text`, or leave the option out."
            )
            raise InputError(msg)


def quote(
    evidence: EvidenceFile, frozen: EvaluationSet, shown: Sequence[str]
) -> tuple[Quoted, ...]:
    """Return the comments that tell most about some identities."""
    rows = evidence.rows()
    scores = rows.scores[CANDIDATE]
    places = {
        name: (
            _first(-scores, rows.members[name] & ~rows.labels),
            _first(scores, rows.members[name] & rows.labels),
        )
        for name in shown
    }
    ids = as_numpy(evidence.ids())
    wanted = {str(ids[at]) for both in places.values() for found in both for at in found}
    texts = _texts(frozen, wanted)

    def quotes(found: npt.NDArray[np.intp]) -> tuple[Quote, ...]:
        distinct: dict[str, Quote] = {}
        for at in found:
            text = _short(texts[str(ids[at])])
            distinct.setdefault(text, Quote(plus_minus(f"{scores[at]:.3g}"), text))
        return tuple(distinct.values())[:QUOTED]

    return tuple(Quoted(name, *map(quotes, both)) for name, both in places.items())


def quotes_of(
    output: Path, sets: Mapping[str, EvaluationSet], shown: Mapping[tuple[str, str], Sequence[str]]
) -> Iterator[tuple[tuple[str, str], tuple[Quoted, ...]]]:
    """Yield set and candidate with the comments to quote."""
    for (of_set, candidate), names in shown.items():
        evidence = EvidenceFile(output / of_set / candidate / "evidence.parquet")
        yield (of_set, candidate), quote(evidence, sets[of_set], names)


def _first(order: npt.NDArray[np.floating], among: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return the places of the lowest values among some rows; of equal ones the first."""
    rows = np.flatnonzero(among)
    return rows[np.argsort(order[rows], kind="stable")[:_LOOKED_AT]]


def _texts(frozen: EvaluationSet, ids: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    wanted = pa.array(sorted(ids), pa.string())
    for batch in frozen.batches(["id", "text"], _ROWS_A_BATCH):
        rows = batch.filter(pc.is_in(batch["id"].cast(pa.string()), value_set=wanted))
        texts = ("" if one is None else one for one in rows["text"].to_pylist())
        found |= dict(zip(map(str, as_numpy(rows["id"])), texts, strict=True))
    return found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST].rstrip()} …"
