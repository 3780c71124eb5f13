"""The rows of several nights in one file of evidence.

Each night's evidence holds the rows of all nights before it, so that it alone decides. What is
written here is checked again when a verdict is recomputed: every night has the rows whose digest
its record names, and no row is in two nights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from biasgate.tasks.common.arrow_arrays import as_numpy
from biasgate.tasks.common.errors import InputError, shown_id
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.plain import plain
from biasgate.tasks.evidence.file import NIGHT, RECORD, RIVALS, SCORE, EvidenceFile
from biasgate.tasks.records import Choices, JudgedNights, NightRecord, NightsRecord

BOUND = "normal mixture"
# What must be the same every night; numbers of rows differ.
SAME_CHOICES = tuple(one.name for one in fields(Choices) if not one.name.startswith("n_"))


def new_because(tonight: EvidenceFile, earlier: EvidenceFile) -> str | None:
    """Return why the rows of earlier nights cannot be pooled with tonight's; None if they can."""
    now, then = tonight.record, earlier.record
    if then.nights is None:
        return "earlier rows were not kept to be pooled"
    if now.scores.get("candidate") != then.scores.get("candidate"):
        return "the candidate is another one"
    for role in RIVALS:
        if now.scores.get(role) != then.scores.get(role) and not _is_itself(role, tonight):
            return f"the {role} is another one"
    first, second = (
        {key: getattr(evidence_record.choices, key) for key in SAME_CHOICES}
        for evidence_record in (now, then)
    )
    if first != second or now.power_mean_groups != then.power_mean_groups:
        return "options of the set are others"
    rivals = [SCORE + role for role in RIVALS if _is_itself(role, tonight)]
    if _types(tonight, rivals) != _types(earlier, rivals):
        return "the set has other columns"
    return None


def ids_before(earlier: EvidenceFile) -> pa.Table:
    """Return the ids of all nights, each with its night."""
    with pq.ParquetFile(earlier.path) as file:
        return file.read(["id", NIGHT])


def other_options(choices: Choices, earlier: EvidenceFile) -> bool:
    """Say whether a set is measured otherwise than on earlier nights."""
    then = earlier.record.choices
    return any(getattr(choices, key) != getattr(then, key) for key in SAME_CHOICES)


def _is_itself(role: str, evidence: EvidenceFile) -> bool:
    """Say whether the candidate is its own rival, as a champion is that is judged again."""
    scores = evidence.record.scores
    return role in scores and scores[role] == scores["candidate"]


def pool(tonight: EvidenceFile, earlier: EvidenceFile | None, began: str) -> EvidenceFile:
    """Write the rows of all nights to tonight's evidence.

    Parameters
    ----------
    tonight : EvidenceFile
        Tonight's rows. Rows of earlier nights in it, from a run that was stopped, are replaced.
    earlier : EvidenceFile or None
        The rows of the nights before; if the last of these is tonight, it counts once. Where
        the candidate is its own rival now, the rival's scores of these rows are the
        candidate's.

    Raises
    ------
    InputError
        If tonight has a row that an earlier night has.
    """
    record = tonight.record
    rows = _rows_of_last(tonight)
    before, digests = _before(earlier, record.set_digest)
    night = np.full(rows.num_rows, len(digests) + 1, dtype=np.int32)
    rows = rows.append_column(NIGHT, pa.array(night))
    if before is not None:
        refuse_known_ids(rows.column("id"), before, len(digests))
        for role in RIVALS:
            if _is_itself(role, tonight):
                before = _with_column(before, SCORE + role, before[SCORE + "candidate"])
        rows = pa.concat_tables([before.select(rows.column_names), rows])
    sets = [*digests, record.set_digest]
    each = [_night(rows, at, of_set) for at, of_set in enumerate(sets, start=1)]
    nights = NightsRecord(began=began, each=each)
    metadata = {RECORD: json.dumps(plain(replace(record, nights=nights)))}
    with whole_file(tonight.path) as temporary:
        pq.write_table(rows.replace_schema_metadata(metadata), temporary, compression="zstd")
    return EvidenceFile(tonight.path)


def nights_of(evidence: EvidenceFile) -> NightsRecord:
    """Return the nights of evidence that pools some."""
    assert evidence.record.nights is not None  # noqa: S101 - callers know it
    return evidence.record.nights


def judged_nights(evidence: EvidenceFile) -> JudgedNights | None:
    """Return what a verdict says of the nights; None if the evidence is that of a single set.

    Raises
    ------
    InputError
        If the rows are not those of the nights that the record names.
    """
    nights = evidence.record.nights
    if nights is None:
        return None
    rows = _whole(evidence)
    each = nights.each
    if not each or each[-1].set_digest != evidence.record.set_digest:
        msg = "the last of the nights in the evidence must be that of the evaluated set; it is not."
        raise InputError(msg)
    known = sum(night.n_rows for night in each)
    for at, one in enumerate(each, start=1):
        if _night(rows, at, one.set_digest) != one:
            msg = f"the rows of night {at} must be those that the evidence names; they are not."
            raise InputError(msg)
    pairs = rows.select(["id", NIGHT]).group_by(["id", NIGHT]).aggregate([])
    if rows.num_rows != known or pairs.num_rows != pc.count_distinct(rows.column("id")).as_py():
        msg = "each row of the evidence must be of one night; some are of none, or of several."
        raise InputError(msg)
    return JudgedNights(
        number=len(each),
        n_rows=rows.num_rows,
        planned_rows=evidence.record.choices.planned_rows or 0,
        bound=BOUND,
        **vars(nights),
    )


def _before(earlier: EvidenceFile | None, set_digest: str) -> tuple[pa.Table | None, list[str]]:
    """Return the rows of the nights before tonight's set, and the digests of their sets."""
    if earlier is None:
        return None, []
    digests = [night.set_digest for night in nights_of(earlier).each]
    rows = _whole(earlier)
    if digests[-1] == set_digest:
        digests = digests[:-1]
        rows = rows.filter(pc.less_equal(rows[NIGHT], len(digests)))
    return (rows, digests) if digests else (None, [])


def _night(rows: pa.Table, number: int, set_digest: str) -> NightRecord:
    """Return the record of one night, from the rows of all."""
    found = rows.filter(pc.equal(rows[NIGHT], number)).drop_columns([NIGHT])
    return NightRecord(set_digest=set_digest, n_rows=found.num_rows, rows_digest=_digest(found))


def _with_column(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    known = rows.drop_columns([name]) if name in rows.column_names else rows
    return known.append_column(name, values)


def refuse_known_ids(ids: pa.ChunkedArray, before: pa.Table, n_nights: int) -> None:
    """Refuse ids of tonight's rows that are among the rows of earlier nights."""
    again = pc.is_in(ids, value_set=before.column("id").combine_chunks())
    count = pc.sum(again).as_py() or 0
    if count:
        first = ids.filter(again)[0]
        night = before[NIGHT].filter(pc.equal(before.column("id"), first))[0].as_py()
        msg = (
            f"rows of a set with `pool_nights` must be fresh; {count:,} of tonight's "
            f"{len(ids):,} were in the {n_nights} nights before, first id {shown_id(first)} "
            f"in night {night}. Give every comment an id of its own, and each night only new ones."
        )
        raise InputError(msg)


def _rows_of_last(evidence: EvidenceFile) -> pa.Table:
    rows = _whole(evidence)
    if NIGHT not in rows.column_names:
        return rows
    last = pc.max(rows[NIGHT])
    return rows.filter(pc.equal(rows[NIGHT], last)).drop_columns([NIGHT])


def _whole(evidence: EvidenceFile) -> pa.Table:
    with pq.ParquetFile(evidence.path) as file:  # `pq.read_table` imports pandas
        return file.read().replace_schema_metadata()


def _types(evidence: EvidenceFile, apart_from: Sequence[str]) -> dict[str, pa.DataType]:
    schema = pq.read_schema(evidence.path)
    return {one.name: one.type for one in schema if one.name not in {NIGHT, *apart_from}}


def _digest(rows: pa.Table) -> str:
    """SHA-256 over the columns of a night's rows, by name."""
    digest = hashlib.sha256()
    for name in sorted(rows.column_names):
        values = as_numpy(rows[name])
        digest.update(json.dumps([name, rows.num_rows]).encode())
        if values.dtype == np.object_:
            texts = [str(value) for value in values]
            digest.update(json.dumps(texts).encode())
        elif values.dtype == np.bool_:
            digest.update(np.packbits(values).tobytes())
        else:
            digest.update(values.astype("<i8" if values.dtype.kind in "iu" else "<f8").tobytes())
    return digest.hexdigest()
