"""Civil Comments with Jigsaw's labels (the Kaggle 2019 task), in any published layout.

The data set has two million comments of news sites, with fractions of raters for toxicity and its
subtypes. About a fifth of the rows have ratings of 24 identities (Borkan et al. 2019,
arXiv:1903.04561; CC0). Columns and archives are those of the Kaggle 2019 task and of TensorFlow
Datasets. The single file with the splits train, val and test is that of WILDS (Koh et al. 2021).
"""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import (
    Field,
    JsonValue,
    PrivateAttr,
    StringConstraints,
    field_validator,
    model_validator,
)

from biasgate.tasks.common.errors import InputError, format_place
from biasgate.tasks.common.files import refuse_full_disk, require_space, whole_file
from biasgate.tasks.common.settings import ConfigPath
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import Chunk, read_chunks, read_column_names, require_columns
from biasgate.tasks.data.download import Sha256, download_file, locate_download
from biasgate.tasks.data.evaluation_set import IDENTITY, SLICE
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.unpacked import refuse_bomb

Identity = Literal[
    "male",
    "female",
    "transgender",
    "other_gender",
    "heterosexual",
    "homosexual_gay_or_lesbian",
    "bisexual",
    "other_sexual_orientation",
    "christian",
    "jewish",
    "muslim",
    "hindu",
    "buddhist",
    "atheist",
    "other_religion",
    "black",
    "white",
    "asian",
    "latino",
    "other_race_or_ethnicity",
    "physical_disability",
    "intellectual_or_learning_disability",
    "psychiatric_or_mental_illness",
    "other_disability",
]
IDENTITIES: tuple[Identity, ...] = get_args(Identity)
JIGSAW_NINE: tuple[Identity, ...] = (
    "male",
    "female",
    "homosexual_gay_or_lesbian",
    "christian",
    "jewish",
    "muslim",
    "black",
    "white",
    "psychiatric_or_mental_illness",
)
"""The identities of the Kaggle task: those with more than 500 mentions in its test set."""

Label = Literal[
    "toxicity",
    "severe_toxicity",
    "obscene",
    "identity_attack",
    "insult",
    "threat",
    "sexual_explicit",
]
Split = Literal["train", "val", "test", "test_public", "test_private"]

_BUCKET = "https://storage.googleapis.com/jigsaw-unintended-bias-in-toxicity-classification"
OFFICIAL_URL = f"{_BUCKET}/civil_comments_v1.2.zip"
KNOWN_ARCHIVES: Mapping[str, tuple[int, str]] = {
    f"{_BUCKET}/civil_comments.zip": (
        414_947_977,
        "767b71a3d9dc7a2eceb234d0c3e7e38604e11f59c12ba1cbb888ffd4ce6b6271",
    ),
    f"{_BUCKET}/civil_comments_v1.1.zip": (
        417_158_441,
        "73641ce4b370c55316fef4ba5210853d4100695604f968dae424e7c80c05d228",
    ),
    OFFICIAL_URL: (
        448_174_578,
        "89a60573acbbfaf189b2c77278115eefcbc1654dbd8235dd8fbecc1b83f1585c",
    ),
}
"""Size and SHA-256 of the public archives, as TensorFlow Datasets publishes them."""


LAYOUTS: tuple[Mapping[str, str], ...] = (
    {
        "train": "train.csv",
        "test_public": "test_public_expanded.csv",
        "test_private": "test_private_expanded.csv",
    },
    dict.fromkeys(("train", "test_public", "test_private"), "civil_comments.csv"),
    dict.fromkeys(("train", "test"), "all_data.csv"),
    dict.fromkeys(("train", "val", "test"), "all_data_with_identities.csv"),
)
"""Files by split in Kaggle's files, the public archive, Kaggle's single file and WILDS.

The first matching layout is used. A file of all splits has a column `split`.
"""

_DAMAGE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
)
_MIB = 2**20


class _ArchiveEntry(NamedTuple):
    """A file in an archive: its name without folders, its unpacked size, and its opener."""

    name: str
    size: int
    open: Callable[[], IO[bytes] | None]


def list_archived_files(path: Path) -> list[str]:
    """Return the names, without folders, of the files in a zip or tar archive."""
    with _open_archive(path) as files:
        return [file.name for file in files]


def extract_file(path: Path, name: str, target: Path) -> None:
    """Write the only file with this name, in any folder of the archive, to `target`.

    Paths inside the archive are never used, so that it cannot write anywhere else. Refuse a file
    that does not fit on the disk, or is more than 50 times as large as the archive.
    """
    purpose = f"to unpack {name} of {path.name}"
    with refuse_full_disk(target.parent, purpose), _open_archive(path) as files:
        matches = [file for file in files if file.name == name]
        if len(matches) != 1:
            msg = f"archive {path} must hold file {name!r} once; it holds {len(matches)}."
            raise InputError(msg)
        require_space(target.parent, matches[0].size, purpose, _ALTERNATIVE)
        with whole_file(target) as temporary, temporary.open("wb") as out:
            stream = matches[0].open()
            if stream is None:
                msg = f"file {name!r} of archive {path} must be a plain file."
                raise InputError(msg)
            with stream:
                while part := stream.read(_MIB):
                    out.write(part)
                    refuse_bomb(path, out.tell(), f"file {name!r} of archive {path}")


@contextmanager
def _open_archive(path: Path) -> Iterator[list[_ArchiveEntry]]:
    """Open a zip or tar archive and yield its files; refuse a damaged or encrypted archive."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield [
                    _ArchiveEntry(
                        PurePosixPath(entry.filename).name,
                        entry.file_size,
                        partial(archive.open, entry),
                    )
                    for entry in archive.infolist()
                    if not entry.is_dir()
                ]
        else:
            with tarfile.open(path) as tar:
                yield list(_list_tar_entries(tar, path))
    except NotImplementedError as error:
        msg = f"archive {path} uses an unknown compression: {error}."
        raise InputError(msg) from error
    except RuntimeError as error:
        if "encrypted" not in str(error):
            raise
        msg = f"archive {path} must not be encrypted; it is. Unpack it and give the folder."
        raise InputError(msg) from error
    except _DAMAGE_ERRORS as error:
        msg = (
            f"file {path} must be a whole zip or tar archive; it is truncated, damaged or of "
            "another type. Delete it and download it again."
        )
        raise InputError(msg) from error


def _list_tar_entries(archive: tarfile.TarFile, path: Path) -> Iterator[_ArchiveEntry]:
    """Yield the files of a tar archive; refuse a decompression bomb."""
    size = 0
    for entry in archive:
        size += entry.size  # finding the next entry unpacks this entry
        refuse_bomb(path, size, f"archive {path}")
        if entry.isfile():
            name = PurePosixPath(entry.name).name
            yield _ArchiveEntry(name, entry.size, partial(archive.extractfile, entry))


SHORT_LENGTH = 100
"""Short comments, as in Borkan et al., have fewer characters than this."""

_ALTERNATIVE = "Or download the archive elsewhere, unpack it and give its folder as `folder:`."
_EXPANSION = 5.0
"""Disk space for archive, unpacked file and frozen set, in multiples of the archive's size.

Real comments with the columns of the release unpack to 2.8 to 3.0 times their zip. The frozen set
is as large as the zip.
"""


class CivilCommentsSource(SourceSettings):
    """Civil Comments from its public archive or from a folder."""

    not_frozen: ClassVar[frozenset[str]] = SourceSettings.not_frozen | {
        "folder",
        "url",
        "size",
        "sha256",
        "split",
        "identities",
    }

    source: Literal["civil_comments"]
    folder: ConfigPath | None = None
    """Folder with `train.csv`, `test_public_expanded.csv` and `test_private_expanded.csv`, or with
    `civil_comments.csv`, `all_data.csv` or `all_data_with_identities.csv` (WILDS)."""
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^/]+/.*[^/]$")] | None = None
    """A zip or tar archive with such files. Default: the public archive."""
    size: Annotated[int, Field(gt=0)] | None = None
    """Expected size of the archive in bytes; known for the public archives."""
    sha256: Sha256 | None = None
    """Expected SHA-256 of the archive; known for the public archives."""
    split: Annotated[list[Split], Field(min_length=1)] | None = None
    """Splits to use. Default: all test splits of the layout."""
    label: Label = "toxicity"
    """`toxicity` or one of its subtypes."""
    identities: Literal["all"] | Annotated[tuple[Identity, ...], Field(min_length=1)] = JIGSAW_NINE
    """Identities to measure; the frozen set has all 24. Default: the nine of the Kaggle task."""
    _archive: dict[str, str] | None = PrivateAttr(default=None)

    @field_validator("split", mode="before", json_schema_input_type=list[Split] | Split | None)
    @classmethod
    def _wrap_single_split(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_origin(self) -> Self:
        if self.folder is not None and self.url is not None:
            msg = (
                "give `folder` or `url`, not both. A value such as ${BIASGATE_CIVIL_COMMENTS_URL} "
                "is an environment variable: unset one of the two"
            )
            raise ValueError(msg)
        return self

    def downloads(self, cache: Path) -> dict[str, int | None]:
        """Return the archive's name and bytes; empty if cached, or if a folder is given."""
        archive = locate_download(cache, self._archive_url)
        if self.folder is not None or archive.exists():
            return {}
        size, _ = self.expected_archive
        return {archive.name: size}

    def prepare(self, cache: Path) -> Self:
        """Download the archive, extract the needed files, and return a source that reads them."""
        if self.folder is not None:
            return self
        archive, (size, sha256) = locate_download(cache, self._archive_url), self.expected_archive
        digest = download_file(
            self._archive_url,
            archive,
            size=size,
            sha256=sha256,
            alternative=_ALTERNATIVE,
            expansion=_EXPANSION,
        )
        folder = archive.parent / digest[:16]
        layout, splits = self._match_layout(list_archived_files(archive), archive)
        for file_name in sorted({layout[split] for split in splits}):
            if not (folder / file_name).exists():
                extract_file(archive, file_name, folder / file_name)
        local = self.model_copy(update={"folder": folder, "url": None})
        # The digest identifies a release, as a mirror may rename the file.
        release_names = {
            known_sha256: PurePosixPath(url).name
            for url, (_, known_sha256) in KNOWN_ARCHIVES.items()
        }
        local._archive = {"name": release_names.get(digest, archive.name), "sha256": digest}  # noqa: SLF001 - its own class
        return local

    def files(self) -> list[Path]:
        """Return the files that hold the chosen splits."""
        layout, splits = self._choose_layout()
        return sorted({self._local_folder / layout[split] for split in splits})

    def check(self) -> None:
        """Raise an error if the folder lacks files or columns; archives are checked later."""
        if self.folder is not None:
            for path in self.files():
                require_columns(path, self._list_columns(path))

    def split_name(self) -> str:
        """Return the chosen splits in a fixed order."""
        return "+".join(self._choose_layout()[1])

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the checked rows of the chosen splits."""
        layout, splits = self._choose_layout()
        is_clustered = all("article_id" in read_column_names(path) for path in self.files())
        seen: Counter[str] = Counter()
        for path in self.files():
            columns = [*self._list_columns(path), *["article_id"] * is_clustered]
            for chunk in read_chunks(path, columns):
                rows = self._convert_chunk(chunk, is_clustered=is_clustered)
                if _has_split_column(layout):
                    row_splits = chunk.table.column("split")
                    seen.update(row_splits.to_pylist())
                    chosen = pa.array(splits, row_splits.type)
                    rows = rows.filter(pc.is_in(row_splits, value_set=chosen))
                yield rows
        empty_splits = [split for split in splits if not seen[split]]
        if _has_split_column(layout) and empty_splits:
            counts = ", ".join(f"{split or '(empty)'} ({n} rows)" for split, n in seen.items())
            location = format_place(file=self.files()[0], column="split")
            msg = (
                f"split {', '.join(empty_splits)} must have rows; the file has {counts} {location}."
            )
            raise InputError(msg)

    def measured_identities(self, available: list[str]) -> list[str]:
        """Return the identities to measure."""
        return available if self.identities == "all" else list(dict.fromkeys(self.identities))

    def provenance(self) -> dict[str, JsonValue]:
        """Return the inputs of the frozen rows, including the archive."""
        archive: dict[str, JsonValue] = {"archive": {**self._archive}} if self._archive else {}
        return super().provenance() | archive

    @property
    def _archive_url(self) -> str:
        return self.url or OFFICIAL_URL

    @property
    def expected_archive(self) -> tuple[int | None, str | None]:
        """Expected size and SHA-256 of the archive; None if unknown."""
        sha256 = self.sha256 or KNOWN_ARCHIVES.get(self._archive_url, (None, None))[1]
        sizes = {digest: n_bytes for n_bytes, digest in KNOWN_ARCHIVES.values()}
        return self.size or sizes.get(sha256 or ""), sha256

    @property
    def _local_folder(self) -> Path:
        if self.folder is None:
            msg = "prepare() must be called first: it extracts the archive"
            raise RuntimeError(msg)
        return self.folder

    def _choose_layout(self) -> tuple[Mapping[str, str], list[str]]:
        if not self._local_folder.is_dir():
            msg = f"`folder` must be a folder; {self._local_folder} is not."
            raise InputError(msg)
        names = [path.name for path in self._local_folder.iterdir()]
        return self._match_layout(names, self._local_folder)

    def _match_layout(
        self, names: Collection[str], location: Path
    ) -> tuple[Mapping[str, str], list[str]]:
        """Return the first layout with files for the chosen splits, and the names of the splits."""
        chosen, reasons = self.split or ["test"], []
        descriptions = [" + ".join(dict.fromkeys(layout.values())) for layout in LAYOUTS]
        for layout, description in zip(LAYOUTS, descriptions, strict=True):
            if not set(layout.values()) & set(names):
                continue
            if any(split not in layout and split != "test" for split in chosen):
                reasons.append(f"{description} has the splits {', '.join(layout)}")
                continue
            tests = [split for split in layout if split.startswith("test")]
            resolved = [[split] if split in layout else tests for split in chosen]
            splits = sorted(set(chain(*resolved)))
            missing = sorted({layout[split] for split in splits} - set(names))
            if not missing:
                return layout, splits
            reasons.append(f"for {', '.join(splits)} it lacks {', '.join(missing)}")
        if not reasons:
            reasons = ["it has none of " + "; ".join(descriptions)]
        wanted = "the test rows" if self.split is None else f"split {', '.join(self.split)}"
        msg = f"{location} must hold {wanted} of Civil Comments; {'; '.join(reasons)}."
        raise InputError(msg)

    def _list_columns(self, path: Path) -> list[str]:
        split = ["split"] * _has_split_column(self._choose_layout()[0])
        return ["id", "comment_text", self._find_label_column(path), *IDENTITIES, *split]

    def _find_label_column(self, path: Path) -> str:
        """Return the label's column name; `train.csv` names toxicity `target`."""
        columns = read_column_names(path) if self.label == "toxicity" else []
        return "target" if "target" in columns and "toxicity" not in columns else self.label

    def _convert_chunk(self, chunk: Chunk, *, is_clustered: bool) -> pa.Table:
        ids = reading.convert_ids(chunk, "id")
        text = reading.convert_texts(chunk, "comment_text", ids)
        label = reading.convert_fractions(
            chunk, self._find_label_column(chunk.path), ids, nullable=False
        )
        columns = {"id": ids, "text": text, "label": label}
        if is_clustered:
            columns["cluster"] = reading.convert_names(chunk, "article_id", ids)
        for name in IDENTITIES:
            columns[IDENTITY + name] = reading.convert_fractions(chunk, name, ids, nullable=True)
        columns[SLICE + "short"] = pc.less(pc.utf8_length(text), SHORT_LENGTH)
        return pa.table(columns)


def _has_split_column(layout: Mapping[str, str]) -> bool:
    """Check if a single file holds all splits."""
    return len(set(layout.values())) == 1
