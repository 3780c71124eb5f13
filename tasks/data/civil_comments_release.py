"""Published forms of Civil Comments: columns, file layouts, archives.

Columns and archives as in the Kaggle 2019 task and the catalogue of TensorFlow Datasets; the
single file with its splits train, val and test is that of WILDS (Koh et al. 2021).
"""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Literal, get_args

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file
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
"""The identities of the Kaggle task: the ones with more than 500 mentions in its test set."""

Label = Literal[
    "toxicity",
    "severe_toxicity",
    "obscene",
    "identity_attack",
    "insult",
    "threat",
    "sexual_explicit",
]
RATER_COUNT = "toxicity_annotator_count"
"""How many raters were asked about toxicity and its subtypes."""
Split = Literal["train", "val", "test", "test_public", "test_private"]

_HOME = "https://storage.googleapis.com/jigsaw-unintended-bias-in-toxicity-classification"
OFFICIAL_URL = f"{_HOME}/civil_comments_v1.2.zip"
KNOWN_ARCHIVES: Mapping[str, tuple[int, str]] = {
    f"{_HOME}/civil_comments.zip": (
        414_947_977,
        "767b71a3d9dc7a2eceb234d0c3e7e38604e11f59c12ba1cbb888ffd4ce6b6271",
    ),
    f"{_HOME}/civil_comments_v1.1.zip": (
        417_158_441,
        "73641ce4b370c55316fef4ba5210853d4100695604f968dae424e7c80c05d228",
    ),
    OFFICIAL_URL: (
        448_174_578,
        "89a60573acbbfaf189b2c77278115eefcbc1654dbd8235dd8fbecc1b83f1585c",
    ),
}
"""Size and SHA-256 of the public archives, as TensorFlow Datasets publishes them."""


@dataclass(frozen=True)
class Layout:
    """One published form of the data."""

    files: Mapping[str, str]
    """File of each split."""
    tests: tuple[str, ...]
    """The splits that `test` means, which is also the default."""
    by_column: bool = True
    """Whether one file holds all splits, with a column `split`."""

    @property
    def described(self) -> str:
        """The names of its files."""
        return " + ".join(dict.fromkeys(self.files.values()))

    def resolve(self, chosen: Collection[Split] | None) -> tuple[str, ...] | None:
        """Return the chosen splits in one fixed order; None if this layout lacks one."""
        found: set[str] = set()
        for split in chosen or ["test"]:
            if split in self.files:
                found.add(split)
            elif split == "test":
                found |= set(self.tests)
            else:
                return None
        return tuple(sorted(found))


def _one_file(name: str, *splits: str) -> Layout:
    tests = tuple(split for split in splits if split.startswith("test"))
    return Layout(dict.fromkeys(splits, name), tests)


LAYOUTS: tuple[Layout, ...] = (
    Layout(
        {
            "train": "train.csv",
            "test_public": "test_public_expanded.csv",
            "test_private": "test_private_expanded.csv",
        },
        tests=("test_public", "test_private"),
        by_column=False,
    ),
    _one_file("civil_comments.csv", "train", "test_public", "test_private"),
    _one_file("all_data.csv", "train", "test"),
    _one_file("all_data_with_identities.csv", "train", "val", "test"),
)
"""Kaggle's files, the public archive, Kaggle's single file, WILDS; the first match is used."""


_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
)
_MIB = 2**20
_Opener = Callable[[], IO[bytes] | None]


def archived_files(path: Path) -> list[str]:
    """Return the names, without folders, of the files in an archive.

    Raises
    ------
    InputError
        If it is not a whole zip or tar archive.
    """
    with _opened(path) as files:
        return [name for name, _ in files]


def extract_file(path: Path, name: str, target: Path) -> None:
    """Write the one file of this name, in any folder of the archive, to `target`.

    Paths inside the archive are never used, so that it cannot write anywhere else.

    Raises
    ------
    InputError
        If the archive is damaged or does not hold exactly one such file, or the file is more
        than 50 times as large as the archive.
    """
    with _opened(path) as files:
        found = [opener for other, opener in files if other == name]
        if len(found) != 1:
            msg = f"archive {path} must hold one file {name!r}; it holds {len(found)}."
            raise InputError(msg)
        with whole_file(target) as temporary, temporary.open("wb") as out:
            stream = found[0]()
            if stream is None:
                msg = f"file {name!r} of archive {path} must be a plain file."
                raise InputError(msg)
            with stream:
                while part := stream.read(_MIB):
                    out.write(part)
                    refuse_bomb(path, out.tell(), f"file {name!r} of archive {path}")


@contextmanager
def _opened(path: Path) -> Iterator[list[tuple[str, _Opener]]]:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield list(_zipped(archive))
        else:
            with tarfile.open(path) as tar:
                yield list(_tarred(tar, path))
    except NotImplementedError as error:
        msg = f"archive {path} is compressed in an unknown way: {error}."
        raise InputError(msg) from error
    except RuntimeError as error:
        if "encrypted" not in str(error):
            raise
        msg = f"archive {path} must not be encrypted; it is. Unpack it, and name the folder."
        raise InputError(msg) from error
    except _DAMAGED as error:
        msg = (
            f"file {path} must be a whole zip or tar archive; it is truncated, damaged or of "
            "another type. Delete it and download it again."
        )
        raise InputError(msg) from error


def _zipped(archive: zipfile.ZipFile) -> Iterator[tuple[str, _Opener]]:
    for entry in archive.infolist():
        if not entry.is_dir():
            yield PurePosixPath(entry.filename).name, partial(archive.open, entry)


def _tarred(archive: tarfile.TarFile, path: Path) -> Iterator[tuple[str, _Opener]]:
    size = 0
    for entry in archive:
        size += entry.size  # a later entry is found only after this one was unpacked
        refuse_bomb(path, size, f"archive {path}")
        if entry.isfile():
            yield PurePosixPath(entry.name).name, partial(archive.extractfile, entry)
