"""Cleaning removes items that were not used lately, except those that a promotion is based on."""

import json
import os
import re
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks import cleaning
from biasgate.tasks.cleaning import (
    VerdictReferences,
    iter_store_items,
    plan_cleaning,
    read_age,
    remove_items,
)
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import measure_size, measure_store
from biasgate.tasks.mlflow_server.runs import Gateway

NOW, DAY = time.time(), 86_400
A, B, C = "a" * 64, "b" * 64, "c" * 64


def write_folder(path, days, size=100, record=None, file="rows"):
    """Make a folder that was used some days ago."""
    path.mkdir(parents=True)
    (path / file).write_bytes(b"x" * size)
    if record is not None:
        (path / "record.json").write_text(json.dumps(record), "utf-8")
    os.utime(path, (NOW - days * DAY,) * 2)
    return path


@pytest.fixture
def store(tmp_path):
    place = tmp_path / "store"
    write_folder(place / "sets" / "comments-1", 40, record={"name": "comments", "digest": A})
    write_folder(place / "sets" / "comments-2", 2, record={"name": "comments", "digest": B})
    record = {"set_digest": A, "candidate_digest": C}
    write_folder(place / "scores" / A[:16] / C[:16], 50, record=record)
    write_folder(place / "scores" / A[:16] / B[:16], 45, record=record | {"candidate_digest": B})
    write_folder(place / "models" / "0123", 60, size=5000)
    for file in ("downloads/archive.zip", "tokens/01/0123.npz", "logs/own.log"):
        write_folder((place / file).parent, 0, file=(place / file).name)
        os.utime(place / file, (NOW - 35 * DAY,) * 2)
    write_folder(place / "mlartifacts" / "comments", 90)
    (place / "mlflow.db").write_bytes(b"x")
    return place


def list_names(items):
    return sorted(f"{item.kind}/{item.path.name}" for item in items)


def plan_store(store, keep, referenced=None):
    return plan_cleaning(store, read_age(keep), referenced or VerdictReferences(), NOW)


def test_what_was_not_used_lately_is_removed_and_mlflows_runs_never_are(store):
    plan = plan_store(store, "30d")
    assert list_names(plan.removed) == [
        "downloads/archive.zip",
        "logs/own.log",
        "models/0123",
        "scores/bbbbbbbbbbbbbbbb",
        "scores/cccccccccccccccc",
        "sets/comments-1",
        "tokens/0123.npz",
    ]
    assert list_names(plan.kept) == ["sets/comments-2"]


def test_what_was_used_within_a_day_is_never_removed(store):
    os.utime(store / "models" / "0123", (NOW - DAY / 2,) * 2)
    assert "models/0123" in list_names(plan_store(store, "1d").kept)


def test_what_an_entry_rests_on_is_kept(store):
    referenced = VerdictReferences(sets=frozenset({A}), scores=frozenset({(A, C)}))
    plan = plan_store(store, "1d", referenced=referenced)
    assert list_names(plan.referenced) == ["scores/cccccccccccccccc", "sets/comments-1"]
    assert "scores/bbbbbbbbbbbbbbbb" in list_names(plan.removed)


def test_a_set_whose_digest_is_unknown_keeps_all_of_its_name(store):
    plan = plan_store(store, "1d", referenced=VerdictReferences(names=frozenset({"comments"})))
    assert list_names(plan.referenced) == ["sets/comments-1", "sets/comments-2"]


def test_links_are_neither_followed_nor_removed(store, tmp_path):
    outside = write_folder(tmp_path / "outside" / "set", 99)
    (store / "sets" / "link").symlink_to(outside)
    (store / "scores" / "link").symlink_to(outside.parent)
    assert "link" not in " ".join(list_names(iter_store_items(store)))
    assert not any(item.path.name == "set" for item in iter_store_items(store))


def test_removing_leaves_nothing_that_looks_whole_and_nothing_else_is_touched(store):
    plan = plan_store(store, "30d")
    assert list_names(remove_items(plan.removed)) == list_names(plan.removed)
    assert sorted(path.name for path in (store / "sets").iterdir() if path.name[0] != ".") == [
        "comments-2"
    ]
    assert (store / "mlartifacts" / "comments" / "rows").exists()
    assert list_names(plan_store(store, "30d").removed) == []


def test_what_is_locked_or_was_used_meanwhile_stays(store):
    plan = plan_store(store, "30d")
    os.utime(store / "models" / "0123")
    with FileLock(store / "sets" / ".comments-1.lock"):
        removed = list_names(remove_items(plan.removed))
    assert not {"models/0123", "sets/comments-1"} & set(removed)
    assert "scores/bbbbbbbbbbbbbbbb" in removed
    assert (store / "sets" / "comments-1" / "rows").exists()


def test_what_a_killed_process_left_is_removed_unless_it_is_in_use(store):
    left = write_folder(store / "work" / "left", 3, file=".lock")
    used = write_folder(store / "work" / "used", 3, file=".lock")
    half = write_folder(store / "sets" / ".removed-7-comments-3", 0.5)
    for path in (left, used):
        os.utime(path / ".lock", (NOW - 3 * DAY,) * 2)
    for path in (half, half / "rows"):
        os.utime(path, (NOW - 3 * DAY,) * 2)
    plan = plan_store(store, "2d")
    assert {"work/left", "work/used", "work/.removed-7-comments-3"} <= set(list_names(plan.removed))
    with FileLock(used / ".lock"):
        removed = list_names(remove_items(plan.removed))
    assert "work/left" in removed
    assert "work/.removed-7-comments-3" in removed
    assert (left.exists(), used.exists(), half.exists()) == (False, True, False)


def test_sizes_are_those_of_the_files(store, tmp_path):
    assert measure_size(store / "models" / "0123") == 5000
    assert measure_size(tmp_path / "no") == 0
    sizes = measure_store(store)
    assert sizes["models"] == 5000
    assert sizes["total"] == sum(size for name, size in sizes.items() if name != "total")


def test_the_guide_names_each_part_of_a_store():
    guide = (Path(__file__).parents[2] / "docs/guides/operate.md").read_text("utf-8")
    table = guide.partition("### Disk space")[2].partition("```")[0]
    rows = re.findall(r"^\| `(\w+)` .*\| (\w+)", table, re.MULTILINE)
    assert dict(rows) == dict.fromkeys(cleaning.ITEM_DEPTHS, "yes")


@pytest.mark.parametrize(("text", "days"), [("30d", 30), ("8w", 56)])
def test_an_age_is_a_number_of_days_or_weeks(text, days):
    assert read_age(text) == timedelta(days=days)


@pytest.mark.parametrize("text", ["all", "-3d", "0d", "36h", "2m", "1.5w", "9" * 30 + "d", ""])
def test_what_is_not_an_age_of_at_least_a_day_is_refused(text):
    with pytest.raises(InputError, match=f"must be an age of at least a day .* got '{text}'"):
        read_age(text)


class Registry:
    """A registry with the ledger of one model, and the tags of its runs."""

    def list_models(self):
        return ["toxicity", "toxicity-promotions"]

    def get_run_tags(self, run_id):
        tags = {"r1": {"biasgate.set_digest": A, "biasgate.candidate_digest": C}, "r2": {}}
        return tags.get(run_id)


def entry(action, *runs):
    verdicts = [SimpleNamespace(run_id=run, set=f"set of {run}") for run in runs]
    return SimpleNamespace(content=SimpleNamespace(action=action, verdicts=verdicts))


@pytest.fixture
def ledger(monkeypatch):
    """A fake ledger, whose problems and entries a test can set."""
    state = SimpleNamespace(name="toxicity-promotions", foreign=[], wrong=[], moves=[], chain=None)
    fake = SimpleNamespace(
        name=state.name,
        find_foreign_versions=lambda: state.foreign,
        chain=None,
        read_entries=lambda: state.moves,
    )
    monkeypatch.setattr(cleaning, "Ledger", lambda *_: fake)
    monkeypatch.setattr(cleaning, "find_problems", lambda *_: state.wrong)
    return state


def test_moves_rest_on_the_sets_and_scores_of_their_verdicts_and_blocks_on_none(ledger):
    ledger.moves = [entry("promotion", "r1", "r2"), entry("blocked", "r4"), entry("rollback", "r3")]
    assert VerdictReferences.from_ledgers(Registry()) == VerdictReferences(
        sets=frozenset({A}),
        names=frozenset({"set of r2", "set of r3"}),
        scores=frozenset({(A, C)}),
    )


@pytest.mark.parametrize(
    "problem", [{"foreign": ["version 3 is none."]}, {"wrong": ["missing is entry 2"]}]
)
def test_nothing_is_removed_while_a_ledger_cannot_be_read_or_was_changed(ledger, problem):
    vars(ledger).update(problem)
    [[words]] = problem.values()
    with pytest.raises(InputError, match=f"toxicity-promotions must be whole .*; {words}"):
        VerdictReferences.from_ledgers(Registry())


@pytest.fixture
def clean(store, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(Gateway, "from_store", lambda _: None)
    monkeypatch.setattr(
        VerdictReferences, "from_ledgers", lambda _: VerdictReferences(sets=frozenset({A}))
    )
    return lambda *arguments: CliRunner().invoke(app, ["clean", "--store", str(store), *arguments])


def test_the_command_only_says_what_it_would_remove_until_it_is_told_to(clean, store):
    preview = clean("--keep", "30d")
    assert (preview.exit_code, (store / "models" / "0123").exists()) == (0, True)
    assert "Run again with --yes to remove them." in preview.output
    assert "models/0123" in preview.output.replace("\n", "")
    report = json.loads(clean("--keep", "30d", "--yes", "--json").stdout)
    assert (report["dry_run"], (store / "models" / "0123").exists()) == (False, False)
    assert report["removed"] == report["to_remove"]
    assert [item["path"] for item in report["kept_for_a_ledger"]] == [
        str(store / "sets" / "comments-1")
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--keep", "all"], "`--keep` must be an age"),
        (["--keep", "30d", "--store", "/no/where"], "must be a folder that an evaluation wrote"),
    ],
)
def test_the_command_refuses_what_it_cannot_use(clean, given, words):
    result = clean(*given)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
