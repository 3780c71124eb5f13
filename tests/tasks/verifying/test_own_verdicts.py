"""The champion is opened with the options of its own verdict; tags do not affect scores."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.made import candidate_of, verdict_of
from support.packages import install
from support.promoted import (
    MODEL,
    judge_version,
    judged_version,
    promote_one,
    signing_key,
    trust,
)

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.gating.policy import read_policy
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.rivals import find_rivals
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.training import OPENED_AS
from biasgate.tasks.signing.statement import FILE as ATTESTATION

LONG = {"kind": "transformer", "toxic_label": "toxic", "max_tokens": 512}
LONG |= {"activation": None, "precision": "float32"}
SHORT = LONG | {"max_tokens": 8}


def find_champion(gateway):
    return find_rivals({}, MODEL, read_policy("default", Path()), [], gateway)["champion"]


def find_reference(gateway, **said):
    """Return the settings to open a version that was never promoted."""
    settings = {"name": "reference", "kind": "mlflow", "model": f"models:/{MODEL}/1", **said}
    named = {"reference": CANDIDATES.validate_python(settings)}
    return find_rivals(named, None, read_policy("default", Path()), [], gateway)["reference"]


@pytest.fixture
def promoted(gateway, store, tmp_path):
    """A champion that was judged with all its tokens."""
    judged = judged_version(gateway, store, tmp_path / "first", opened_as=LONG)
    assert promote_one([judged[1]], judged[0], gateway).promoted
    return judged


@pytest.mark.parametrize(
    ("options", "is_itself"),
    [(LONG, True), (SHORT, False), (LONG | {"precision": "bfloat16"}, False)],
)
def test_a_candidate_is_its_own_champion_only_if_it_is_opened_in_the_same_way(
    gateway, promoted, options, is_itself
):
    settings = {**options, "name": "again", "model": f"models:/{MODEL}/{promoted[0].version}"}
    candidate = CANDIDATES.validate_python(settings)
    policy = read_policy("default", Path())
    rival = find_rivals({}, MODEL, policy, [candidate], gateway)["champion"]
    assert (rival is candidate) == is_itself
    assert rival.max_tokens == 512


@pytest.mark.parametrize(("own", "used"), [({"threshold": 0.6}, 0.6), ({}, 0.4)])
def test_a_rival_that_is_a_candidate_too_has_the_threshold_that_it_names(
    gateway, promoted, own, used
):
    settings = {**LONG, "name": "again", "model": f"models:/{MODEL}/{promoted[0].version}"}
    candidate = CANDIDATES.validate_python(settings | {"threshold": 0.4})
    rivals = {"reference": CANDIDATES.validate_python(settings | own)}
    opened = find_rivals(rivals, None, read_policy("default", Path()), [candidate], gateway)
    assert opened["reference"].threshold == used


def test_a_rival_is_read_as_it_was_judged_unless_the_file_says_otherwise(gateway, store, tmp_path):
    judged = {"kind": "mlflow", "output": "toxicity", "label": "toxic"}
    judged_version(gateway, store, tmp_path / "first", opened_as=judged)
    rival = find_reference(gateway)
    assert (rival.output, rival.label) == ("toxicity", "toxic")
    rival = find_reference(gateway, label="hateful")
    assert (rival.output, rival.label) == ("toxicity", "hateful")


@pytest.mark.mlflow
def test_a_tag_does_not_choose_how_the_champion_is_opened(gateway, promoted):
    gateway.tag_version(promoted[0], {OPENED_AS: json.dumps(SHORT)})
    assert find_champion(gateway).max_tokens == 512


def test_tags_that_name_another_verdict_do_not_choose_either(gateway, store, promoted, tmp_path):
    version, _, scores = promoted
    judge_version(gateway, store, tmp_path / "again", version, scores, opened_as=SHORT)
    assert find_champion(gateway).max_tokens == 512


def test_a_verdict_behind_the_promotion_that_was_edited_does_not_count(gateway, promoted):
    with gateway.open_run_files(promoted[1].run_id) as folder:
        verdict = json.loads((folder / "verdict.json").read_text())
        verdict["candidate"]["opened_as"] = SHORT
        (folder / "verdict.json").write_text(json.dumps(verdict))
    gateway.tag_version(promoted[0], {OPENED_AS: json.dumps(SHORT)})
    with pytest.raises(InputError, match="must have a verdict that records how it was opened"):
        find_champion(gateway)


def test_a_bare_tag_is_refused_and_the_error_says_what_to_write(gateway, store, tmp_path):
    version, _, _ = judged_version(gateway, store, tmp_path / "first", opened_as=LONG)
    for name in version.tags:
        gateway.client.delete_model_version_tag(MODEL, version.version, name)
    gateway.tag_version(version, {OPENED_AS: json.dumps(SHORT)})
    gateway.set_alias(MODEL, "champion", version.version)
    with pytest.raises(InputError, match=r"Set it in the evaluation file, as in `champion: \{name"):
        find_champion(gateway)
    settings = {"name": "champion", "model": f"models:/{MODEL}@champion", **LONG}
    rivals = {"champion": CANDIDATES.validate_python(settings)}
    policy = read_policy("default", Path())
    assert find_rivals(rivals, MODEL, policy, [], gateway)["champion"].max_tokens == 512


def test_a_plain_model_needs_no_verdict(gateway, store, tmp_path):
    version, _, _ = judged_version(gateway, store, tmp_path / "first")
    for name in version.tags:
        gateway.client.delete_model_version_tag(MODEL, version.version, name)
    gateway.set_alias(MODEL, "champion", version.version)
    assert find_champion(gateway).kind == "mlflow"


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("absent", "got kind 'absent'"),
        ("broken", r"package biasgate-broken 1\.0 adds as .* cannot be imported"),
    ],
)
def test_a_champion_whose_verdict_names_a_kind_that_is_not_here_is_refused_in_words(
    kind, problem, tmp_path, monkeypatch
):
    points = "[biasgate.candidates]\nbroken = broken_kind:Broken\n"
    folder = install(tmp_path, "biasgate-broken", points, broken_kind="import no_such_module")
    monkeypatch.syspath_prepend(folder)
    candidate = candidate_of(model="models:/m/3", opened_as={"kind": kind})
    verdict = verdict_of(candidate=candidate).to_dict()
    del verdict["run_id"]  # the file has none
    version = ModelVersion("m", "3", "run", {"biasgate.s.run_id": "r"})
    registry = SimpleNamespace(
        get_alias=lambda *_: version,
        resolve=lambda _: version,
        list_versions=lambda _: [],
        read_json=lambda *_: verdict,
    )
    expected = "on models:/m/3 must name a kind that runs no code of the model.*"
    with pytest.raises(InputError, match=expected + problem):
        find_rivals({}, "m", read_policy("default", Path()), [], registry)


def test_a_version_that_was_never_promoted_is_opened_as_its_signed_verdict_says(
    gateway, store, tmp_path, monkeypatch
):
    key = signing_key(monkeypatch, tmp_path / "secret")
    trust(monkeypatch, tmp_path / "trusted", evaluations=key)
    version, first, scores = judged_version(gateway, store, tmp_path / "first", opened_as=LONG)
    assert find_reference(gateway).max_tokens == 512
    with monkeypatch.context() as patch:
        patch.delenv("BIASGATE_PRIVATE_KEY")
        trust(patch, tmp_path / "nobody")
        options = {"opened_as": SHORT}
        forged = judge_version(gateway, store, tmp_path / "forged", version, scores, **options)
    with (
        gateway.open_run_files(first.run_id) as signed,
        gateway.open_run_files(forged.run_id) as beside,
    ):
        shutil.copy(signed / ATTESTATION, beside / ATTESTATION)
    gateway.tag_version(version, {OPENED_AS: json.dumps(SHORT)})
    with pytest.raises(InputError, match="must have a verdict that records how it was opened"):
        find_reference(gateway)


def test_a_candidate_is_its_own_reference_where_no_verdict_says_how_it_was_opened(
    gateway, store, tmp_path
):
    version, _, _ = judged_version(gateway, store, tmp_path / "first")
    for name in version.tags:
        gateway.client.delete_model_version_tag(MODEL, version.version, name)
    gateway.tag_version(version, {OPENED_AS: json.dumps(LONG)})  # what anybody can write
    candidate = CANDIDATES.validate_python(SHORT | {"model": version.uri, "name": "new"})
    plain = {"name": "reference", "kind": "mlflow", "model": version.uri}
    rivals = {"reference": CANDIDATES.validate_python(plain)}
    opened = find_rivals(rivals, None, read_policy("default", Path()), [candidate], gateway)
    assert opened["reference"] is candidate


@pytest.mark.parametrize(("precision", "is_itself"), [("bfloat16", False), ("float32", True)])
def test_where_the_file_says_how_a_rival_is_opened_a_candidate_is_it_only_if_opened_alike(
    gateway, store, tmp_path, precision, is_itself
):
    version, _, _ = judged_version(gateway, store, tmp_path / "first")
    for name in version.tags:  # then no verdict says how it is opened
        gateway.client.delete_model_version_tag(MODEL, version.version, name)
    of_file = {"model": version.uri, "name": "full precision"}
    rivals = {"champion": CANDIDATES.validate_python(LONG | of_file)}
    options = LONG | {"model": version.uri, "name": "served", "precision": precision}
    candidate = CANDIDATES.validate_python(options)
    policy = read_policy("no-worse", Path())
    rival = find_rivals(rivals, None, policy, [candidate], gateway)["champion"]
    assert (rival is candidate) == is_itself
    assert rival.precision == "float32"
