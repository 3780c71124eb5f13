"""Each night has a folder of its own."""

from datetime import datetime
from pathlib import Path

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.own_folders import discard_if_empty, remove_own_folders
from biasgate.tasks.reporting import publish


@pytest.fixture
def _one_second(monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)

    monkeypatch.setattr(publish, "datetime", Clock)


@pytest.mark.usefixtures("_one_second")
def test_nights_that_start_in_the_same_second_have_folders_of_their_own(tmp_path):
    places = str(tmp_path / "nights"), str(tmp_path / "store")
    found = [publish.create_run_folder.fn(*places) for _ in range(3)]
    names = ["2026-01-02T030405Z", "2026-01-02T030405Z-2", "2026-01-02T030405Z-3"]
    assert [Path(one).name for one in found] == names
    assert all(Path(one).is_dir() for one in found)


def fail_night(folder, *, after_writing):
    with discard_if_empty(str(folder)):
        if after_writing:
            (folder / "summary.json").touch()
        raise ZeroDivisionError


@pytest.mark.parametrize("after_writing", [False, True])
def test_a_night_that_fails_leaves_a_folder_only_with_what_it_wrote(tmp_path, after_writing):
    (tmp_path / "night").mkdir()
    with pytest.raises(ZeroDivisionError):
        fail_night(tmp_path / "night", after_writing=after_writing)
    assert (tmp_path / "night").exists() == after_writing


def test_a_night_that_must_end_at_once_leaves_no_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "summary.json").touch()
    with discard_if_empty(str(tmp_path / "empty")), discard_if_empty(str(tmp_path / "full")):
        remove_own_folders()
    assert list(tmp_path.iterdir()) == [tmp_path / "full"]


def test_an_output_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"output .* must be a folder that can be written to"):
        publish.create_run_folder.fn(str(tmp_path / "file"), str(tmp_path / "store"))


@pytest.mark.parametrize(
    ("output", "store"),
    [("a", "a"), ("a", "a/store"), (".", ".biasgate"), ("a/b/../c", "a"), ("link", "a/store")],
)
def test_results_in_a_store_or_a_store_in_results_is_refused(tmp_path, monkeypatch, output, store):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("a")
    for check in (publish.create_run_folder, publish.check_places):
        for places in ((output, store), (store, output)):
            with pytest.raises(InputError, match="must be separate folders, neither inside the"):
                check.fn(*places)
    assert [one.name for one in tmp_path.iterdir()] == ["link"]
    publish.check_places.fn("stored", "store")


@pytest.mark.parametrize("link", ["out/in", "out/set/in"])
@pytest.mark.parametrize("target", ["kept/store", "kept", "kept/store/sets"])
def test_a_link_from_results_into_a_store_is_refused(tmp_path, monkeypatch, link, target):
    """What uploads a folder of results follows links."""
    monkeypatch.chdir(tmp_path)
    Path("kept/store/sets").mkdir(parents=True)
    Path("out/set").mkdir(parents=True)
    Path("out/newest").symlink_to("set")
    publish.check_places.fn("out", "kept/store")
    Path(link).symlink_to((tmp_path / target).absolute())
    for store in ("kept/store", link) if target == "kept/store" else ("kept/store",):
        with pytest.raises(InputError, match="must be separate folders, neither inside the"):
            publish.check_places.fn("out", store)


def test_links_in_a_circle_are_no_place(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for places in (("loop", "store"), ("out", "loop")):
        with pytest.raises(InputError, match="must be a folder; its links lead in a circle"):
            publish.check_places.fn(*(str(tmp_path / one) for one in places))
