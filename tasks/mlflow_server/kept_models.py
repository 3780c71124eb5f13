"""The files of model versions, downloaded once for each store.

Every task that opens a version works on a copy that nobody else writes to. Where versions are on
another machine, the copy is kept in the store for the next task and the next night. It is used
again if it is as it was downloaded, and the server still lists files of the same names and sizes.
Whether their bytes are the same is checked before `champion` moves, and by `biasgate verify`, on
files that are downloaded for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest, locked, whole_folder, write_json
from biasgate.tasks.mlflow_server.artifacts import ADDED_BY_MLFLOW, fetch, listed_at
from biasgate.tasks.records import FileRecord
from biasgate.tasks.records.record import Record
from biasgate.tasks.signing.manifest import Manifest

FOLDER, FILES, RECORD = "models", "files", "record.json"
_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class _Kept(Record):
    """What a kept copy is of, and its files as they were downloaded."""

    version: str
    files: list[FileRecord]


@contextmanager
def kept_files(place: str, tracking_uri: str, version: str, store: Path) -> Iterator[Path]:
    """Yield a kept copy of a version's files, only to be read.

    `version`: what the version is called, and when the registry created it.
    """
    folder = store / FOLDER / json_digest([tracking_uri, version, place])[:_DIGITS]
    with locked(folder):  # tasks at the same time wait for one download
        if not _is_whole(folder, listed_at(place, tracking_uri)):
            with whole_folder(folder, durable=False) as temporary:
                download = temporary / "download"
                download.mkdir()
                fetch(place, tracking_uri, download).rename(temporary / FILES)
                found = Manifest.of(temporary / FILES)
                write_json(temporary / RECORD, _Kept(version=version, files=[*found.files]))
        os.utime(folder)  # `biasgate clean` keeps what was used lately
    yield folder / FILES


def _is_whole(folder: Path, listed: Mapping[str, int | None]) -> bool:
    """Whether a kept copy is as it was downloaded, and the server's files look the same."""
    try:
        kept = Manifest.of_records(_Kept.read((folder / RECORD).read_bytes()).files)
        if kept.differences(Manifest.of(folder / FILES, leaving_out=ADDED_BY_MLFLOW)):
            return False
    except (OSError, ValueError, InputError):
        return False
    return not kept.other_sizes(listed)
