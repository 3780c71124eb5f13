"""Comparison of deployed files with judged files; errors name the files that differ.

`test_tampering.py` has the changes of a champion's files.
"""

import os
import shutil
import tempfile
from dataclasses import replace

import pytest
from support.partial import partial
from support.promoted import MODEL, bound, edit_json
from support.registry import Template

import biasgate
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.promoting.by_hand import promote_version, roll_back
from biasgate.tasks.promoting.verify import NotVerifiedError, require_champion, verify_model
from biasgate.tasks.records import Rival
from biasgate.tasks.reporting.version_tags import FILES_DIGEST, build_tags


def promote_two(registry):
    registry.promote_next()
    registry.promote_next()


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A store whose second version is champion."""
    return Template(promote_two, tmp_path_factory)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files, which tests must leave empty."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def test_an_untouched_champion_is_opened_as_a_copy_that_later_changes_do_not_reach(
    registry, temporary
):
    assert registry.failed == set()
    assert list(temporary.iterdir()) == []
    assert not list((registry.store / "work").glob("*"))
    folder = biasgate.open_champion(MODEL, registry.store, folder=temporary)
    assert folder.parent == temporary
    assert folder.stat().st_mode & 0o077 == 0
    champion = require_champion(MODEL, registry.gateway)
    assert champion.tags[FILES_DIGEST] == registry.gateway.read_manifest(champion).digest
    (registry.find_files(2) / "weights").write_text("third")
    assert (folder / "weights").read_text() == "v1"
    assert (folder / "tokenizer" / "vocabulary").read_text() == "a b c"


def test_the_folder_in_which_a_champion_is_opened_must_exist(store, tmp_path):
    with pytest.raises(ValueError, match=r"`folder` must be an existing folder; got .*missing"):
        biasgate.open_champion(MODEL, store, folder=tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def replace_folder(folder):
    shutil.rmtree(folder)
    folder.write_text("weights")


def forbid_reading(folder):
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (folder / "weights").chmod(0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (replace_folder, "added, 7 bytes"),
        (lambda folder: os.mkfifo(folder / "pipe"), "pipe must be a regular file"),
        (forbid_reading, "weights must be readable"),
    ],
)
def test_what_cannot_be_copied_is_an_error_in_one_sentence_that_leaves_nothing(
    registry, temporary, change, said
):
    change(registry.find_files(2))
    with pytest.raises(InputError, match=said):
        biasgate.open_champion(MODEL, registry.store)
    assert list(temporary.iterdir()) == []


def test_the_file_that_mlflow_writes_when_it_loads_a_version_changes_nothing(registry):
    files = registry.find_files(2)
    note = files / "registered_model_meta"
    note.write_text("model_name: toxicity\nmodel_version: '2'\n")
    assert registry.failed == set()
    folder = biasgate.open_champion(MODEL, registry.store, folder=registry.folder)
    assert not (folder / note.name).exists()
    (files / "tokenizer" / note.name).write_text("")
    assert f"tokenizer/{note.name}: added" in registry.describe_failures()
    note.unlink()
    note.symlink_to("weights")
    assert "registered_model_meta must be a regular file" in registry.describe_failures()


def change_weights(registry, number):
    weights = registry.find_files(number) / "weights"
    weights.write_text(weights.read_text().swapcase())


@pytest.mark.parametrize(
    "act",
    [
        lambda gateway: promote_version(MODEL, "1", "why", gateway),
        lambda gateway: roll_back(MODEL, "x", gateway),
    ],
)
def test_a_changed_version_is_neither_promoted_by_hand_nor_rolled_back_to(registry, act):
    change_weights(registry, 1)
    expected = r"model: the files of models:/toxicity/1 .*chang"
    with pytest.raises(NotVerifiedError, match=expected):
        act(registry.gateway)
    assert registry.find_alias() == "2"


def test_a_version_whose_files_changed_since_they_were_scored_is_not_promoted(registry):
    champion = registry.get_version()
    version, verdict, _ = registry.judge_next(seed=4)
    settings = {"name": "champion", "kind": "mlflow", "model": champion.uri, "digest": "d"}
    rival = Rival(**settings, bound=bound(registry.gateway, champion))
    change_weights(registry, version.version)
    with pytest.raises(InputError, match=r"toxicity/3 must not become champion: .*weights: chan"):
        registry.promote((version, replace(verdict, champion=rival)))
    assert registry.find_alias() == "2"


# ------------------------------------------------------------------ the list in the verdict


def rewrite_verdict(registry, change):
    """Change the champion's verdict, and its digest and tags consistently."""
    version = registry.get_version()
    for name in ("verdict.json", "report.json"):
        edit_json(registry.find_file(name), change)
    verdict = registry.gateway.read_json(version.run_id, "verdict.json")
    registry.gateway.tag_version(
        version, build_tags([partial(verdict | {"run_id": version.run_id})])
    )


def test_a_verdict_that_does_not_say_which_files_were_judged_is_none(registry):
    edit_json(registry.find_file("verdict.json"), lambda verdict: verdict["candidate"].pop("bound"))
    expected = "the verdict on comments must be as biasgate writes it; candidate.bound: Field"
    assert expected in registry.describe_failures()


def test_a_verdict_that_binds_no_file_is_told_and_cannot_be_opened(registry):
    nothing = {"what": "nothing", "digest": None, "files": [], "not_bound": "It is elsewhere."}
    rewrite_verdict(registry, lambda verdict: verdict["candidate"].update(bound=nothing))
    findings = verify_model(MODEL, None, registry.gateway, registry.store)
    own, rival = (finding for finding in findings if finding.what == "model")
    text = "the files of models:/toxicity/2 were not recorded with the verdict on comments."
    assert (own.holds, rival.holds) == (True, True)
    assert own.sentence == f"{text} It is elsewhere. Not checked."
    assert rival.sentence.startswith("the champion in the comparison on comments")
    with pytest.raises(NotVerifiedError, match=r"model: .* It is elsewhere. Not checked"):
        biasgate.open_champion(MODEL, registry.store)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda files: files.pop(), "does not have the digest that the verdict names"),
        (lambda files: files[0].update(path="../x"), "must differ and stay inside the folder"),
    ],
)
def test_a_list_of_files_that_was_edited_is_found(registry, change, told):
    rewrite_verdict(registry, lambda content: change(content["candidate"]["bound"]["files"]))
    assert told in registry.describe_failures()
