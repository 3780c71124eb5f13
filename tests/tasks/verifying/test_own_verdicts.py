"""The champion is opened with the options of its own verdict; tags do not affect scores."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.made import candidate_of, verdict_of
from support.packages import install
from support.promoted import MODEL, edit_json, judge_version

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
FIRST = f"models:/{MODEL}/1"


def find_rival(gateway, role="champion", policy="default", candidates=(), **named):
    """Return how a rival is opened; `named`: its settings in the evaluation file."""
    settings = {"name": role, "kind": "mlflow", "model": FIRST} | named
    rivals = {role: CANDIDATES.validate_python(settings)} if named or role != "champion" else {}
    model = MODEL if role == "champion" else None
    return find_rivals(rivals, model, read_policy(policy, Path()), list(candidates), gateway)[role]


def make_candidate(**options):
    return CANDIDATES.validate_python({"name": "again", "model": FIRST, **options})


@pytest.fixture
def champion(registry):
    """A champion that was judged with all its tokens."""
    return registry.promote_next(opened_as=LONG)


@pytest.fixture
def untagged(registry, gateway):
    """A version under `champion` whose verdict no tag names."""
    version, _, _ = registry.judge_next()
    for name in version.tags:
        gateway.client.delete_model_version_tag(MODEL, version.version, name)
    gateway.set_alias(MODEL, "champion", version.version)
    return version


@pytest.mark.usefixtures("champion")
@pytest.mark.parametrize(
    ("options", "is_itself"),
    [(LONG, True), (SHORT, False), (LONG | {"precision": "bfloat16"}, False)],
)
def test_a_candidate_is_its_own_champion_only_if_it_is_opened_in_the_same_way(
    gateway, options, is_itself
):
    candidate = make_candidate(**options)
    rival = find_rival(gateway, candidates=[candidate])
    assert (rival is candidate) == is_itself
    assert rival.max_tokens == 512


@pytest.mark.usefixtures("champion")
@pytest.mark.parametrize(("own", "used"), [({"threshold": 0.6}, 0.6), ({}, 0.4)])
def test_a_rival_that_is_a_candidate_too_has_the_threshold_that_it_names(gateway, own, used):
    candidate = make_candidate(**LONG, threshold=0.4)
    settings = {**LONG, "name": "again", **own}
    assert find_rival(gateway, "reference", candidates=[candidate], **settings).threshold == used


def test_a_rival_is_read_as_it_was_judged_unless_the_file_says_otherwise(registry, gateway):
    registry.judge_next(opened_as={"kind": "mlflow", "output": "toxicity", "label": "toxic"})
    rival = find_rival(gateway, "reference")
    assert (rival.output, rival.label) == ("toxicity", "toxic")
    rival = find_rival(gateway, "reference", label="hateful")
    assert (rival.output, rival.label) == ("toxicity", "hateful")


@pytest.mark.mlflow
def test_a_tag_does_not_choose_how_the_champion_is_opened(gateway, champion):
    gateway.tag_version(champion[0], {OPENED_AS: json.dumps(SHORT)})
    assert find_rival(gateway).max_tokens == 512


def test_tags_that_name_another_verdict_do_not_choose_either(gateway, store, champion, tmp_path):
    version, _, scores = champion
    judge_version(gateway, store, tmp_path / "again", version, scores, opened_as=SHORT)
    assert find_rival(gateway).max_tokens == 512


def test_a_verdict_behind_the_promotion_that_was_edited_does_not_count(registry, gateway, champion):
    edit_json(
        registry.find_file("verdict.json"),
        lambda verdict: verdict["candidate"].update(opened_as=SHORT),
    )
    gateway.tag_version(champion[0], {OPENED_AS: json.dumps(SHORT)})
    with pytest.raises(InputError, match="must have a verdict that records how it was opened"):
        find_rival(gateway)


def test_a_bare_tag_is_refused_and_the_error_says_what_to_write(gateway, untagged):
    assert find_rival(gateway).kind == "mlflow"  # a plain model needs no verdict
    gateway.tag_version(untagged, {OPENED_AS: json.dumps(SHORT)})
    with pytest.raises(InputError, match=r"Set it in the evaluation file, as in `champion: \{name"):
        find_rival(gateway)
    assert find_rival(gateway, **LONG | {"model": f"models:/{MODEL}@champion"}).max_tokens == 512


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


@pytest.mark.usefixtures("key")
def test_a_version_that_was_never_promoted_is_opened_as_its_signed_verdict_says(
    registry, gateway, store, attacker
):
    version, first, scores = registry.judge_next(opened_as=LONG)
    assert find_rival(gateway, "reference").max_tokens == 512
    place = gateway, store, registry.folder / "forged"
    forged = attacker(judge_version, *place, version, scores, opened_as=SHORT)
    with (
        gateway.open_run_files(first.run_id) as signed,
        gateway.open_run_files(forged.run_id) as beside,
    ):
        shutil.copy(signed / ATTESTATION, beside / ATTESTATION)
    gateway.tag_version(version, {OPENED_AS: json.dumps(SHORT)})
    with pytest.raises(InputError, match="must have a verdict that records how it was opened"):
        find_rival(gateway, "reference")


def test_a_candidate_is_its_own_reference_where_no_verdict_says_how_it_was_opened(
    gateway, untagged
):
    gateway.tag_version(untagged, {OPENED_AS: json.dumps(LONG)})  # what anybody can write
    candidate = make_candidate(**SHORT)
    assert find_rival(gateway, "reference", candidates=[candidate]) is candidate


@pytest.mark.usefixtures("untagged")
@pytest.mark.parametrize(("precision", "is_itself"), [("bfloat16", False), ("float32", True)])
def test_where_the_file_says_how_a_rival_is_opened_a_candidate_is_it_only_if_opened_alike(
    gateway, precision, is_itself
):
    rivals = {"champion": make_candidate(**LONG | {"name": "full precision"})}
    candidate = make_candidate(**LONG | {"name": "served", "precision": precision})
    policy = read_policy("no-worse", Path())
    rival = find_rivals(rivals, None, policy, [candidate], gateway)["champion"]
    assert (rival is candidate) == is_itself
    assert rival.precision == "float32"
