"""Configuration files are read, or refused with the place in the file."""

import textwrap

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import ConfigPath, Settings, expand_variables
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.gating.policy import Policy, read_policy
from biasgate.tasks.reading_evaluation import read_evaluation


class Small(Settings):
    number: int
    path: ConfigPath | None = None


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.yaml"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), "utf-8")
        return path

    return write


@pytest.fixture
def evaluation(write, tmp_path):
    """Write an evaluation file with a valid set and a valid candidate, and the given changes."""
    (tmp_path / "rows.csv").write_text("id,label,group\n1,0,1\n2,1,1\n")
    (tmp_path / "scores.csv").write_text("id,prediction\n1,0.1\n2,0.7\n")

    def evaluation(**changed):
        parts = {
            "set": "{name: rows, source: table, path: rows.csv, identities: [group]}",
            "candidate": "{name: one, kind: scores, path: scores.csv}",
            "more": "",
        } | changed
        return write(
            f"""\
            name: test
            evaluation_sets:
              - {parts["set"]}
            candidates:
              - {parts["candidate"]}
            {parts["more"]}
            """
        )

    return evaluation


def test_a_relative_path_starts_at_the_folder_of_its_file(write, tmp_path):
    settings = read_settings(write("number: 1\npath: ../a/b.csv"), Small)
    assert settings.path == tmp_path.parent / "a" / "b.csv"


def test_environment_variables_expand_with_defaults(monkeypatch):
    monkeypatch.setenv("BIASGATE_A", "x")
    monkeypatch.delenv("BIASGATE_B", raising=False)
    given = {"one": ["${BIASGATE_A}/y"], "two": "${BIASGATE_B:-z}", "three": 3}
    assert expand_variables(given, "file") == {"one": ["x/y"], "two": "z", "three": 3}


def test_an_unset_variable_is_named_with_its_key(write, monkeypatch):
    monkeypatch.delenv("BIASGATE_B", raising=False)
    with pytest.raises(InputError, match=r"BIASGATE_B must be set; it is not .*key .number"):
        read_settings(write("number: ${BIASGATE_B}"), Small)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("number: 1\nnumber: 2", "the key 'number' is given twice .line 2"),
        ("number: [1", "must be YAML"),
        ("- 1", "must hold keys and values; got list"),
        ("", "must hold keys and values; got nothing"),
        ("a:\n\tnumber: 1", "a line starts with a tab; indent with spaces .line 2, column 1"),
        ("number: x", r"number: Input should be a valid integer.*; got 'x'\."),
        ("number: 1\nnumer: 2", r"numer: unknown key\. Did you mean 'number'\?"),
        ("{}", "number: must be given"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(write, text, message):
    path = write(text)
    with pytest.raises(InputError, match=message) as caught:
        read_settings(path, Small)
    assert str(path) in str(caught.value)


def test_a_merged_mapping_may_be_overridden(write):
    settings = read_settings(write("<<: {number: 1}\nnumber: 2"), Small)
    assert settings.number == 2


def test_a_missing_file_and_one_that_is_not_utf8_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none.yaml does not exist"):
        read_settings(tmp_path / "none.yaml", Small)
    (tmp_path / "latin.yaml").write_bytes(b"number: \xe9")
    with pytest.raises(InputError, match=r"latin.yaml must be UTF-8"):
        read_settings(tmp_path / "latin.yaml", Small)


def test_an_evaluation_holds_its_policy_and_digest(evaluation):
    settings = read_evaluation(evaluation())
    assert settings.policy.name == "default"
    assert settings.content()["policy_digest"] == settings.policy.digest
    assert settings.evaluation_sets[0].path.name == "rows.csv"
    assert settings.evaluation_sets[0].path.is_absolute()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"set": "{name: rows, source: magic}"}, r"evaluation_sets.0: .*'table'"),
        ({"candidate": "{name: one, kind: magic}"}, r"candidates.0: .*'scores'"),
        (
            {"set": "{name: a/b, source: table, path: rows.csv, identities: [group]}"},
            "evaluation_sets.0.name",
        ),
        ({"candidate": "{name: one, kind: scores, path: no.csv}"}, r"no.csv does not exist"),
        (
            {"candidate": "{name: one, kind: scores, path: scores.csv, score: p}"},
            r"scores.csv must have the column 'p'; it has 'id', 'prediction'",
        ),
        (
            {"set": "{name: rows, source: table, path: rows.csv, identities: [martian]}"},
            r"rows.csv must have the column 'martian'",
        ),
        ({"more": "policy: no-such"}, "`policy` must be a file or one of civil_comments, default"),
        (
            {"candidate": "{name: one, kind: tfidf, train_on: {name: t, source: templates}}"},
            "to the model that its version is registered under",
        ),
        ({"candidate": "{name: one, kind: tfidf}"}, "give the training set with `train_on`"),
        (
            {"candidate": "{name: one, kind: mlflow, model: toxicity}"},
            "candidates.0.model",
        ),
    ],
)
def test_a_wrong_evaluation_is_refused_before_any_work(evaluation, changed, message):
    with pytest.raises(InputError, match=message):
        read_evaluation(evaluation(**changed))


def test_a_misspelled_policy_file_is_told_with_the_file_beside_it(evaluation):
    path = evaluation(more="policy: rules/polcy.yaml")
    (path.parent / "rules").mkdir()
    (path.parent / "rules" / "policy.yaml").write_text("rules: []")
    with pytest.raises(InputError, match=r"Did you mean 'rules/policy\.yaml'\?"):
        read_evaluation(path)


def test_each_wrong_item_of_a_list_is_told_once(evaluation):
    path = evaluation(more="mitigation: {methods: [{kind: swap, copies: 0}, magic]}")
    with pytest.raises(InputError, match=r"has 2 wrong values:") as error:
        read_evaluation(path)
    assert "methods.0.copies" in str(error.value)
    assert "got 'magic'" in str(error.value)
    path = evaluation(more="mitigation: {methods: []}")
    error = r"(?s)has 1 wrong value:.* mitigation.methods: .* at least 1 item"
    with pytest.raises(InputError, match=error):
        read_evaluation(path)


RIVAL = "{name: old, kind: scores, path: scores.csv}"


def test_whom_to_compare_with_is_read(evaluation):
    path = evaluation()
    path.write_text(f"{path.read_text('utf-8')}\nchampion: {RIVAL}\nreference: {RIVAL}\n", "utf-8")
    settings = read_evaluation(path)
    assert settings.champion.name == settings.reference.name == "old"


def test_a_champion_other_than_the_alias_that_moves_is_refused(evaluation):
    path = evaluation()
    more = f"\nregistered_model: toxicity\nchampion: {RIVAL}\n"
    path.write_text(path.read_text("utf-8") + more, "utf-8")
    with pytest.raises(InputError, match=r"must be `model: models:/toxicity@champion`.*got old"):
        read_evaluation(path)


def test_a_reference_margin_without_a_reference_is_refused(evaluation, write):
    write(
        "version: 1\nname: own\nrules: [{metric: auc, scope: overall, reference_margin: 0.1}]",
        "own.yaml",
    )
    path = evaluation()
    text = path.read_text("utf-8").replace("policy: default", "policy: own.yaml")
    path.write_text(text if "own.yaml" in text else f"{text}\npolicy: own.yaml\n", "utf-8")
    with pytest.raises(InputError, match="rule auc/overall has a `reference_margin`; name the"):
        read_evaluation(path)


def test_two_candidates_of_one_name_are_refused(evaluation):
    candidate = "{name: one, kind: scores, path: scores.csv}"
    with pytest.raises(InputError, match="names in `candidates` must differ; one is given twice"):
        read_evaluation(evaluation(candidate=f"{candidate}\n              - {candidate}"))


def test_a_policy_beside_the_evaluation_is_found_by_its_path(write, tmp_path):
    write("version: 1\nname: own\nrules: [{metric: auc, scope: overall, floor: 0.5}]", "own.yaml")
    assert read_policy("own.yaml", tmp_path).name == "own"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("[]", "rules: List should have at least 1 item"),
        ("[{metric: auc, scope: overall, floor: .nan}]", "rules.0.floor"),
        ("[{metric: auc, scope: overall, floor: 0.5, action: warn}]", "passes anything"),
        ("[{metric: gini, scope: each, floor: 0.5}]", "rules.0: .*must be one of subgroup_auc"),
        ("[{metric: auc, scope: overall, floor: 0.5, mode: hoped}]", "rules.0.mode"),
        ("[{metric: bpsn_auc, scope: [], floor: 0.5}]", "rules.0.scope"),
        ("[{metric: auc, scope: overall, floor: 0.5, confidence: 95}]", "rules.0.confidence"),
    ],
)
def test_a_policy_that_could_not_gate_is_refused(write, rules, message):
    with pytest.raises(InputError, match=message):
        read_settings(write(f"version: 1\nname: p\nrules: {rules}"), Policy)


def test_a_policy_digest_changes_with_a_limit_and_not_with_the_layout(write):
    rule = "{{metric: auc, scope: overall, floor: {}}}"
    text = "version: 1\nname: p\nrules: [" + rule + "]"
    digests = [
        read_settings(write(given), Policy).digest
        for given in (text.format(0.5), "# c\n" + text.format("0.50"), text.format(0.6))
    ]
    assert digests[0] == digests[1] != digests[2]
