"""Hostile archives: encryption, decompression bombs, links, and paths outside the target."""

import io
import os
import tarfile
import zipfile

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import unpacked
from biasgate.tasks.data.civil_comments import extract_file, list_archived_files

NAME = "rows.csv"
BOMB = b"0" * 3_000_000
CONTENT = os.urandom(200_000)


def build_zip(content, *names):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or [NAME]:
            archive.writestr(name, content)
    return stream.getvalue()


def build_tar(content, name=NAME):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def mark_encrypted(archive):
    """Set the flag of encryption in both headers of a zip's file."""
    changed = bytearray(archive)
    changed[archive.index(b"PK\3\4") + 6] |= 1
    changed[archive.index(b"PK\1\2") + 8] |= 1
    return bytes(changed)


def test_an_encrypted_archive_is_refused(tmp_path):
    (tmp_path / "a.zip").write_bytes(mark_encrypted(build_zip(b"id,label\n")))
    with pytest.raises(InputError, match=r"a.zip must not be encrypted; it is. Unpack it"):
        extract_file(tmp_path / "a.zip", NAME, tmp_path / NAME)


@pytest.mark.parametrize("pack", [build_zip, build_tar])
def test_a_file_far_larger_than_its_archive_is_refused_and_not_kept(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(unpacked, "_ALWAYS_ALLOWED", 100_000)
    (tmp_path / "a").write_bytes(pack(BOMB))
    with pytest.raises(InputError, match="50 times the size of the compressed file; it has more"):
        extract_file(tmp_path / "a", NAME, tmp_path / "out" / NAME)
    assert not list(tmp_path.glob("out/*"))


def test_a_small_file_may_be_packed_as_well_as_can_be(tmp_path):
    (tmp_path / "a.zip").write_bytes(build_zip(BOMB))
    extract_file(tmp_path / "a.zip", NAME, tmp_path / NAME)
    assert (tmp_path / NAME).read_bytes() == BOMB


def test_a_tar_whose_other_files_are_far_larger_than_the_archive_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacked, "_ALWAYS_ALLOWED", 100_000)
    (tmp_path / "a").write_bytes(build_tar(BOMB))
    with pytest.raises(InputError, match=r"archive .*a must have at most 0 MiB when"):
        list_archived_files(tmp_path / "a")


ELSEWHERE = ["../../rows.csv", "/rows.csv", "a/../../../rows.csv"]


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("pack", [build_zip, build_tar])
def test_a_name_that_leads_elsewhere_is_unpacked_where_we_say(tmp_path, pack, name):
    inside, path = tmp_path / "a" / "b" / "c", tmp_path / "archive"
    path.write_bytes(pack(CONTENT, name))
    assert list_archived_files(path) == [NAME]
    extract_file(path, NAME, inside / NAME)
    assert (inside / NAME).read_bytes() == CONTENT
    assert list(tmp_path.rglob(NAME)) == [inside / NAME]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "archive"]


@pytest.mark.parametrize("pack", [build_zip, build_tar])
def test_a_truncated_archive_is_named_and_leaves_no_file(tmp_path, pack):
    (tmp_path / "a.zip").write_bytes(pack(CONTENT)[:-5000])
    with pytest.raises(InputError, match=r"a\.zip must be a whole zip or tar archive"):
        extract_file(tmp_path / "a.zip", NAME, tmp_path / NAME)
    assert not (tmp_path / NAME).exists()


def test_a_damaged_byte_in_a_zip_is_found(tmp_path):
    content = bytearray(build_zip(CONTENT))
    content[len(content) // 2] ^= 1
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        extract_file(tmp_path / "a.zip", NAME, tmp_path / NAME)


def test_a_file_that_does_not_fit_is_refused_before_it_is_unpacked(tmp_path, set_free_bytes):
    path, target = tmp_path / "a.zip", tmp_path / "in" / NAME
    path.write_bytes(build_zip(b"0" * 100_000, NAME, "other"))
    set_free_bytes(99_999)
    with pytest.raises(
        InputError, match=r"0\.1 MB free to unpack rows\.csv of a\.zip; it has .*`folder:`\.$"
    ):
        extract_file(path, NAME, target)
    assert not target.parent.exists()
    set_free_bytes(100_000)
    extract_file(path, NAME, target)
    assert target.stat().st_size == 100_000


@pytest.mark.parametrize("pack", [build_zip, build_tar])
def test_a_disk_that_fills_up_while_a_file_is_unpacked_keeps_no_half_file(
    tmp_path, disk, set_free_bytes, pack
):
    folder, change = disk
    change("size=128k")
    path, target = tmp_path / "a.zip", folder / "in" / NAME
    path.write_bytes(pack(CONTENT))
    set_free_bytes(10**9)
    with pytest.raises(InputError, match=rf"disk of {target.parent} must have .*; it is full"):
        extract_file(path, NAME, target)
    assert list(folder.rglob("*")) == [target.parent]
    change("size=64m")
    extract_file(path, NAME, target)
    assert target.read_bytes() == CONTENT


def test_an_archive_with_two_files_of_one_name_is_refused(tmp_path):
    (tmp_path / "a.zip").write_bytes(build_zip(b"1", f"x/{NAME}", f"y/{NAME}"))
    with pytest.raises(InputError, match=r"must hold file 'rows\.csv' once; it holds 2"):
        extract_file(tmp_path / "a.zip", NAME, tmp_path / NAME)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_link_in_a_tar_is_not_followed(tmp_path, kind):
    secret, path = tmp_path / "secret", tmp_path / "archive.tar"
    secret.write_text("not part of the archive")
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
