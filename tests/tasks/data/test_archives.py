"""Archives that attack: encrypted ones, small ones of very much, and names that lead elsewhere."""

import io
import tarfile
import zipfile

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import unpacked
from biasgate.tasks.data.civil_comments import archived_files, extract_file

NAME = "rows.csv"
BOMB = b"0" * 3_000_000


def zipped(content):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(NAME, content)
    return stream.getvalue()


def in_tar(content):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        entry = tarfile.TarInfo(NAME)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def encrypted(archive):
    """Set the flag that says so in both headers of a zip's file."""
    changed = bytearray(archive)
    changed[archive.index(b"PK\3\4") + 6] |= 1
    changed[archive.index(b"PK\1\2") + 8] |= 1
    return bytes(changed)


def test_an_encrypted_archive_is_refused(tmp_path):
    (tmp_path / "a.zip").write_bytes(encrypted(zipped(b"id,label\n")))
    with pytest.raises(InputError, match=r"a.zip must not be encrypted; it is. Unpack it"):
        extract_file(tmp_path / "a.zip", NAME, tmp_path / NAME)


@pytest.mark.parametrize("pack", [zipped, in_tar])
def test_a_file_far_larger_than_its_archive_is_refused_and_not_kept(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(unpacked, "_ALWAYS_ALLOWED", 100_000)
    (tmp_path / "a").write_bytes(pack(BOMB))
    with pytest.raises(InputError, match="50 times the size of the compressed file; it has more"):
        extract_file(tmp_path / "a", NAME, tmp_path / "out" / NAME)
    assert not list(tmp_path.glob("out/*"))


def test_a_small_file_may_be_packed_as_well_as_can_be(tmp_path):
    (tmp_path / "a.zip").write_bytes(zipped(BOMB))
    extract_file(tmp_path / "a.zip", NAME, tmp_path / NAME)
    assert (tmp_path / NAME).read_bytes() == BOMB


def test_a_tar_whose_other_files_are_far_larger_than_the_archive_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacked, "_ALWAYS_ALLOWED", 100_000)
    (tmp_path / "a").write_bytes(in_tar(BOMB))
    with pytest.raises(InputError, match=r"archive .*a must have at most 0 MiB when"):
        archived_files(tmp_path / "a")


ELSEWHERE = ["../../rows.csv", "/rows.csv", "a/../../../rows.csv"]


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_name_that_leads_elsewhere_is_unpacked_where_we_say(tmp_path, kind, name):
    inside, path = tmp_path / "a" / "b" / "c", tmp_path / f"archive.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, b"id\n")
    else:
        with tarfile.open(path, "w") as archive:
            entry = tarfile.TarInfo(name)
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"id\n"))
    extract_file(path, NAME, inside / NAME)
    assert (inside / NAME).read_bytes() == b"id\n"
    assert list(tmp_path.rglob(NAME)) == [inside / NAME]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_link_in_a_tar_is_not_followed(tmp_path, kind):
    secret, path = tmp_path / "secret", tmp_path / "archive.tar"
    secret.write_text("what is not theirs")
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo(NAME)
        entry.type, entry.linkname = kind, str(secret)
        archive.addfile(entry)
    with pytest.raises(InputError, match=NAME):
        extract_file(path, NAME, tmp_path / "out" / NAME)
    assert not (tmp_path / "out" / NAME).exists()


def test_a_link_in_a_zip_is_unpacked_as_the_text_that_it_is(tmp_path):
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        entry = zipfile.ZipInfo(NAME)
        entry.create_system, entry.external_attr = 3, 0o120777 << 16
        archive.writestr(entry, str(tmp_path / "secret"))
    extract_file(path, NAME, tmp_path / "out" / NAME)
    assert not (tmp_path / "out" / NAME).is_symlink()
    assert (tmp_path / "out" / NAME).read_text() == str(tmp_path / "secret")
