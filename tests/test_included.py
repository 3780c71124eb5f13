"""Included evaluations, found by their names."""

import re

import pytest
import yaml
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.civil_comments import IDENTITIES, KNOWN_ARCHIVES, OFFICIAL_URL
from biasgate.tasks.included import FOLDER, format_argument, list_included_names
from biasgate.tasks.reading_evaluation import read_evaluation, read_file


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("", "_URL", "_SHA256"):
        monkeypatch.delenv(f"BIASGATE_CIVIL_COMMENTS{name}", raising=False)


def test_the_help_of_evaluate_lists_them():
    shown = " ".join(re.sub(r"[^\w]+", " ", run("evaluate", "--help").output).split())
    assert "civil_comments demo" in shown


@pytest.mark.parametrize("name", list_included_names())
def test_each_is_read_by_its_name_from_any_folder(name):
    assert read_file(name).name == name


def test_civil_comments_measures_every_identity_of_the_public_release():
    evaluation = read_file("civil_comments")
    [comments] = evaluation.evaluation_sets
    assert (comments.folder, comments.url) == (None, None)
    assert comments.measured_identities(list(IDENTITIES)) == list(IDENTITIES)
    training = evaluation.candidates[0].train_on
    assert (comments.split, training.split) == (["test"], ["train"])


def test_civil_comments_takes_a_folder_or_a_mirror(monkeypatch, tmp_path):
    monkeypatch.setenv("BIASGATE_CIVIL_COMMENTS_URL", OFFICIAL_URL)
    assert read_file("civil_comments").evaluation_sets[0].url == OFFICIAL_URL
    monkeypatch.setenv("BIASGATE_CIVIL_COMMENTS", str(tmp_path))
    with pytest.raises(InputError, match="give `folder` or `url`, not both"):
        read_file("civil_comments")
    monkeypatch.delenv("BIASGATE_CIVIL_COMMENTS_URL")
    assert read_file("civil_comments").evaluation_sets[0].folder == tmp_path


def test_a_mirror_must_have_the_bytes_of_the_public_archive(monkeypatch):
    mirror = "http://127.0.0.1:1/civil_comments_v1.2.zip"
    monkeypatch.setenv("BIASGATE_CIVIL_COMMENTS_URL", mirror)
    comments = read_file("civil_comments").evaluation_sets[0]
    assert (comments.url, comments.expected_archive) == (mirror, KNOWN_ARCHIVES[OFFICIAL_URL])


def test_the_transformer_is_pinned_to_a_commit():
    revision = read_file("civil_comments").candidates[1].revision
    assert re.fullmatch("[0-9a-f]{40}", revision)


def test_an_unknown_name_is_refused_with_those_that_exist():
    found = run("evaluate", "civil_coments", "--output", "out")
    assert found.exit_code == 2
    assert "'civil_coments'. Did you mean 'civil_comments'?" in " ".join(found.stderr.split())


def test_a_file_of_the_current_folder_may_have_the_name_of_an_included_one(tmp_path):
    own = {"name": "own", "policy": "default"}
    own |= {"evaluation_sets": [{"name": "phrases", "source": "templates"}]}
    own |= {"candidates": [{"name": "c", "kind": "mlflow", "model": "models:/m/1"}]}
    (tmp_path / "demo").write_text(yaml.safe_dump(own), "utf-8")
    assert read_file("demo").name == "demo"
    assert read_file("./demo").name == "own"
    assert format_argument("demo") == "demo"
    assert format_argument("./demo") == str(tmp_path / "demo")


def test_save_writes_a_copy_that_reads_the_same(tmp_path):
    found = run("evaluate", "civil_comments", "--save", "mine.yaml")
    assert found.exit_code == 0
    assert "biasgate evaluate mine.yaml --output out" in found.output
    assert (tmp_path / "mine.yaml").read_bytes() == (FOLDER / "civil_comments.yaml").read_bytes()
    assert read_file("mine.yaml") == read_file("civil_comments")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("civil_comments", "--save", "taken"), "file that does not exist; taken does"),
        (("civil_comments", "--save", "no/folder"), "no/folder: No such file or directory"),
        (
            ("own.yaml", "--save", "mine.yaml"),
            "must be one of civil_comments, demo; got 'own.yaml'",
        ),
        (("civil_comments",), "`--output` must be given"),
        (("civil_comments", "--save", "mine.yaml", "--sample", "9"), "`--save` only writes a copy"),
    ],
)
def test_what_cannot_be_saved_is_refused(tmp_path, arguments, words):
    (tmp_path / "taken").write_text("mine", "utf-8")
    found = run("evaluate", *arguments)
    assert found.exit_code == 2
    assert words in " ".join(found.stderr.split())
    assert (tmp_path / "taken").read_text("utf-8") == "mine"
    assert not (tmp_path / "mine.yaml").exists()


def test_a_sample_is_of_all_sets_and_of_those_for_training():
    evaluation = read_evaluation("demo", sample=300)
    assert [source.sample for source in evaluation.evaluation_sets] == [300]
    assert [candidate.train_on.sample for candidate in evaluation.candidates] == [300, 300]
    assert evaluation.evaluation_sets[0].source == "templates"


def test_a_set_that_cannot_be_sampled_is_named(tmp_path):
    own = yaml.safe_load((FOLDER / "demo.yaml").read_text("utf-8"))
    own["evaluation_sets"].append(
        {"name": "listed", "source": "templates", "population": "these_rows"}
    )
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own), "utf-8")
    found = run("evaluate", "own.yaml", "--output", "out", "--sample", "100")
    assert found.exit_code == 2
    message = "`--sample` cannot be used on set 'listed': `sample` and `population: these_rows`"
    assert message in " ".join(found.stderr.split())
