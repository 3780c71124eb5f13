"""The JSON Schema of evaluation files, and the explanations of its keys."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.counting.settings import read_count_file
from biasgate.tasks.evaluation_file import (
    CATALOGUES,
    evaluation_schema,
    explain_basics,
    explain_section,
    list_sections,
)
from biasgate.tasks.gating.policy import list_policy_sections, make_policy_schema
from biasgate.tasks.reading_evaluation import read_evaluation, read_file

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.glob("deployments/evaluations/*.yaml"), *ROOT.glob("docs/reproduce/*.yaml")]
SCHEMA = evaluation_schema()


def list_errors(content):
    validator = jsonschema.Draft202012Validator(SCHEMA)
    return {(error.json_path, error.message) for error in validator.iter_errors(content)}


@pytest.mark.parametrize("path", sorted(FILES), ids=lambda path: path.name)
def test_every_evaluation_file_of_the_repository_is_valid(path):
    assert list_errors(yaml.safe_load(path.read_text("utf-8"))) == set()


def test_a_wrong_key_is_found_where_it_stands_by_the_kind_of_its_section():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    content = yaml.safe_load((ROOT / "docs/reproduce/toxic_bert.yaml").read_text("utf-8"))
    content["candidates"][0]["vectorizer"] = 1
    content["evaluation_sets"][0]["label_treshold"] = 0.5
    assert {place for place, _ in list_errors(content)} == {
        "$.candidates[0]",
        "$.evaluation_sets[0]",
    }


def test_variables_names_alone_and_kinds_of_other_packages_are_allowed():
    table = {"name": "t", "source": "table", "path": "a.csv", "terms": ["gay"]}
    content = {
        "name": "mine",
        "evaluation_sets": [table | {"label_threshold": "${THRESHOLD:-0.5}"}],
        "candidates": [{"name": "a", "kind": "of_acme", "anything": 1}],
        "analyses": ["intersections"],
    }
    assert list_errors(content) == set()
    assert list_errors(content | {"analyses": [1]}) != set()
    assert (
        list_errors(content | {"evaluation_sets": [table | {"label_threshold": "half"}]}) != set()
    )


def test_each_kind_has_the_keys_that_its_class_reads_and_words_for_each():
    sections = list_sections(SCHEMA)
    for catalogue in CATALOGUES.values():
        for kind in catalogue.own:
            fields = catalogue.find_class(kind).model_fields
            keys = {field.alias or name for name, field in fields.items()}
            assert set(sections[kind]["properties"]) == keys
    words = list(explain_section("table"))
    assert "label_threshold: a number at most 1 and above 0, default 0.5" in words
    assert words[words.index('label: text or a list of text, default "label"') + 1].strip()


def test_each_section_that_is_named_can_be_asked_for():
    listed = {*list_sections(SCHEMA), *list_policy_sections(make_policy_schema())}
    named = set()
    for line in (line for section in listed for line in explain_section(section) if line[0] != " "):
        named |= set(re.findall(r"\ba section (\w+)", line))
        for kinds in re.findall(r"^\w+: .*kind of: (.+?)(?:, must be given)?$", line):
            named |= set(kinds.split(", "))
    assert {"NamedIdentities", "RuleSettings", "table", "tfidf", "topic", "swap"} <= named <= listed
    assert "mitigated" not in listed


@pytest.mark.parametrize(
    "sections",
    [
        "evaluation_sets: [{name: a, source: csv, path: a.csv}]",
        "evaluation_sets: [{name: a, source: shards, path: a.csv}]",
        "source: foo\nevaluation_sets: []",
        "candidates: [{name: a, kind: llm}]",
        "candidates: [{name: a, kind: http, judge: {x: 1}}]",
        "mitigation: {pool: {name: a, source: table, x: 1}, methods: [pol]}",
        "notifications: [{kind: webhook, wrong: 1}]",
    ],
)
def test_each_command_that_an_error_names_explains_a_section(tmp_path, sections):
    file = tmp_path / "file.yaml"
    file.write_text(f"name: mine\n{sections}\n")
    with pytest.raises(InputError) as caught:
        read_evaluation(file)
    named = re.findall(r"`biasgate schema (\w+)`", str(caught.value))
    assert named
    for section in named:
        list(explain_section(section))


def test_a_file_that_counts_shards_is_for_one_command(tmp_path):
    file = tmp_path / "chats.yaml"
    file.write_text("name: c\nsource: shards\npath: a.csv\n")
    with pytest.raises(InputError, match=r"which only `biasgate evaluate` takes\.$"):
        read_evaluation(file)


def test_the_command_prints_it_and_says_which_sections_there_are():
    assert json.loads(CliRunner().invoke(app, ["schema", "--json"]).stdout) == SCHEMA
    assert CliRunner().invoke(app, ["schema", "table"]).stdout.startswith("name: text")
    with pytest.raises(InputError, match=r"one of evaluation, table,.*Did you mean 'table'"):
        list(explain_section("tabel"))


@pytest.mark.parametrize(
    ("wrong", "section"), [("label_treshold: 1", "table"), ("nme: 1", "scores")]
)
def test_an_error_says_what_explains_the_keys(tmp_path, wrong, section):
    extra = {"table": "", "scores": ""} | {section: f", {wrong}"}
    file = tmp_path / "file.yaml"
    file.write_text(
        "name: mine\n"
        "evaluation_sets: "
        f"[{{name: t, source: table, path: a.csv, terms: [gay]{extra['table']}}}]\n"
        f"candidates: [{{name: a, kind: scores, path: s.csv{extra['scores']}}}]\n"
    )
    with pytest.raises(InputError, match=f"To list the keys: .*`biasgate schema {section}`"):
        read_evaluation(file)


def test_the_keys_of_a_count_file_are_explained_where_one_is_wrong(tmp_path):
    file = tmp_path / "chats.yaml"
    wrong = "name: c\nsource: shards\npath: a.csv\ncandidate: {name: n, score: s}\nbitz: 3\n"
    file.write_text(wrong)
    with pytest.raises(InputError, match=r"To list the keys: `biasgate schema count`\.$"):
        read_count_file(file)
    words = list(explain_section("count"))
    assert "candidate: a section CountedModel, must be given" in words
    assert "bits: a whole number at least 0 and at most 20, default 12" in words
    assert not [line for line in words if line.startswith("slices:")]
    assert any(line.startswith("threshold: a number") for line in explain_section("CountedModel"))


def test_a_kind_of_notification_is_no_section_of_its_own(tmp_path):
    file = tmp_path / "file.yaml"
    file.write_text("name: mine\nnotifications: [{kind: apprise, wrong: 1}]\n")
    with pytest.raises(InputError, match=r"To list the keys: `biasgate schema evaluation`\.$"):
        read_evaluation(file)


def test_the_basic_keys_are_25_that_the_schema_has():
    lines = list(explain_basics())
    keys = [line.strip().partition(":")[0] for line in lines if re.match(r"  \w", line)]
    assert len(keys) == 25
    assert [line for line in lines if line[0] != " "] == ["evaluation:", "table:", "scores:"]


def test_the_form_of_files_is_shared_by_all_that_have_none(tmp_path):
    table = {"name": "t", "source": "table", "path": "t.csv", "identities": ["gay"]}
    scores = {"name": "a", "kind": "scores", "path": "a.csv"}
    content = {
        "name": "e",
        "separator": ";",
        "decimal": ",",
        "encoding": "latin-1",
        "evaluation_sets": [table, table | {"name": "own", "separator": "|"}],
        "candidates": [scores],
        "champion": scores | {"name": "old", "decimal": "."},
    }
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(content), "utf-8")
    evaluation = read_file(tmp_path / "e.yaml")
    first, own = evaluation.evaluation_sets
    assert (first.separator, first.decimal, first.encoding) == (";", ",", "iso8859-1")
    assert (own.separator, own.decimal) == ("|", ",")
    assert (evaluation.candidates[0].separator, evaluation.champion.decimal) == (";", ".")


@pytest.mark.parametrize("encoding", ["utf-16", "klingon", "cp037"])
def test_an_encoding_without_ascii_is_refused(tmp_path, encoding):
    table = {"name": "t", "source": "table", "path": "t.csv", "identities": ["gay"]}
    scores = {"name": "a", "kind": "scores", "path": "a.csv"}
    content = {
        "name": "e",
        "encoding": encoding,
        "evaluation_sets": [table],
        "candidates": [scores],
    }
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(content), "utf-8")
    with pytest.raises(InputError, match="must be an encoding that Python knows"):
        read_file(tmp_path / "e.yaml")
