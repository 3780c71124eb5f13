"""A registry with judged versions, created without flows, for tests of promotion and `verify`."""

import json
import uuid
from datetime import date

import numpy as np
import pyarrow as pa
from support.judging import CHOICES, measured_parts, report_of, write_evidence

from biasgate.tasks.common.files import json_digest, write_json
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.data.evaluation_set import EvaluationSet, freeze_rows
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.ledger.entry import TAG, EntryContent
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.decisions import promote_candidates
from biasgate.tasks.promoting.pinned import read_context
from biasgate.tasks.promoting.succession import JudgedCandidate, SuccessionRule
from biasgate.tasks.records import Bound, Compared, LoggedVerdict
from biasgate.tasks.signing.envelope import pae, sign_message
from biasgate.tasks.signing.keys import (
    PrivateKey,
    TrustedKey,
    TrustedKeys,
    get_timestamp,
    get_trust_file,
)
from biasgate.tasks.signing.statement import attest_verdict
from biasgate.tasks.verifying.documents import write_verdict_tags

MODEL = "toxicity"
LEDGER = f"{MODEL}-promotions"
TODAY = date(2026, 11, 21)
POLICY = Policy.model_validate(
    {
        "version": 1,
        "name": "p",
        "allow_first": True,
        "rules": [
            {"metric": "auc", "scope": "overall", "floor": 0.6, "margin": 0.05},
            {"metric": "bpsn_auc", "scope": "each", "floor": 0.6},
            {"metric": "subgroup_auc", "scope": "each", "floor": 0.6, "min_negatives": 400},
        ],
        "not_measured": [{"identity": "gay", "reason": "few", "expires": "2100-01-01"}],
    }
)


def frozen_set(store, name="comments"):
    """Freeze six hundred rows."""
    rng = np.random.default_rng(5)
    label, gay = rng.random(600) < 0.5, rng.random(600) < 0.5
    rows = pa.table(
        {
            "id": pa.array([f"{one:04d}" for one in range(600)]),
            "label": label.astype(float),
            "identity/gay": gay.astype(float),
        }
    )
    folder = set_folder(store, name)
    return freeze_rows([rows], folder, name=name, split="all", source={"of": name})


def set_folder(store, name="comments"):
    """Return where those rows are frozen."""
    return store / "sets" / f"{name}-{json_digest([name, {'of': name}, 'all'])[:16]}"


def scores_of(store, *, seed, noise):
    """Return six hundred scores, which differ little between seeds."""
    label = EvaluationSet.load(set_folder(store)).column("label").to_numpy() >= 0.5
    common = noise * np.random.default_rng(0).random(600)
    return label + common + 0.01 * np.random.default_rng(seed).random(600)


def registered_version(gateway, folder, name):
    """Register a version from its own run; its weights are its name."""
    (folder / name / "tokenizer").mkdir(parents=True)
    (folder / name / "weights").write_text(name, "utf-8")
    (folder / name / "tokenizer" / "vocabulary").write_text("a b c", "utf-8")
    run_id = gateway.ensure_run(gateway.ensure_experiment("judged"), name, name)
    gateway.log_folder(run_id, folder / name, "model")
    return gateway.register(MODEL, run_id, "model", {})


def bound(gateway, version):
    """Return the files of a version as a report records them."""
    files = gateway.read_manifest(version)
    return Bound(what="files", digest=files.digest, files=list(files.files), not_bound=None)


def judge_version(
    gateway,
    store,
    folder,
    version,
    scores,
    champion=None,
    *,
    policy=POLICY,
    on="comments",
    required_sets=("comments",),
    run_id=None,
    opened_as=None,
    sampled_from=None,
    today=TODAY,
    copy_of=None,
):
    """Judge a version against the champion's scores; log and tag the verdict, return it.

    `sampled_from`: rows of the whole set, if the rows are to be a sample. `copy_of`: the version
    whose files it has.
    """
    choices = CHOICES if sampled_from is None else CHOICES | {"sampled_from": sampled_from}
    rows = EvaluationSet.load(set_folder(store, on))
    label = rows.column("label").to_numpy() >= 0.5
    gay = rows.column("identity/gay").to_numpy() >= 0.5
    columns = {"id": rows.column("id"), "label": label, "identity/gay": gay}
    columns["score/candidate"] = scores
    digests, rivals = {"candidate": f"scores of {(copy_of or version).version}"}, {}
    files = {"candidate": bound(gateway, version)}
    if champion is not None:
        of_champion, champion_scores = champion
        columns["score/champion"] = champion_scores
        digests["champion"] = f"scores of {of_champion.version}"
        files["champion"] = bound(gateway, of_champion)
        rivals = {"champion": Compared(name="champion", kind="mlflow", model=of_champion.uri)}
    record = {
        "set_digest": rows.digest,
        "choices": choices,
        "power_mean_groups": ["gay"],
        "scores": digests,
        "bound": files,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_evidence(columns, record, folder / FILE)
    evidence = EvidenceFile(folder / FILE)
    candidate = {"kind": "mlflow", "model": version.uri, "bound": files["candidate"]}
    candidate |= {"digest": digests["candidate"], "opened_as": opened_as or {"kind": "mlflow"}}
    origin = {"digest": rows.digest, "source": {"of": on}}
    parts = measured_parts(evidence)
    report = report_of(on=on, candidate=candidate, choices=choices, **origin, **parts)
    context = read_context(version.name, policy, list(required_sets), gateway)
    verdict = build_verdict(
        report, policy, evidence, rivals, n_candidates=1, today=today, context=context
    )
    write_json(folder / "report.json", report)
    write_json(folder / "policy.json", policy.model_dump(mode="json"))
    write_json(folder / "verdict.json", verdict)
    attest_verdict(verdict, folder, PrivateKey.from_environment())
    run_id = run_id or _own_run(gateway, version)
    gateway.log_folder(run_id, folder)
    gateway.end_run(run_id)
    verdict = LoggedVerdict.from_verdict(verdict, run_id)
    write_verdict_tags(version, [verdict], gateway)
    return verdict


def _own_run(gateway, version):
    """Return the run of the version; another one if that has a verdict, which is never replaced."""
    if not gateway.resolve(version.uri).tags:
        return version.run_id
    name = f"again {uuid.uuid4().hex}"
    return gateway.ensure_run(gateway.ensure_experiment("judged"), name, name)


def judged_version(gateway, store, folder, *, champion=None, seed=0, noise=1.6, **options):
    """Register a version and judge it. Returns the version, its verdict, and its scores."""
    version = registered_version(gateway, folder.parent, folder.name)
    scores = scores_of(store, seed=seed, noise=noise)
    rival = None if champion is None else (champion[0], champion[2])
    verdict = judge_version(gateway, store, folder / "judged", version, scores, rival, **options)
    return gateway.resolve(version.uri), verdict, scores


def promote_one(verdicts, version, gateway, *, model=MODEL, rule="newer", allow_first=True):
    """Promote one candidate, if its verdicts and the rule allow it."""
    judged = [JudgedCandidate("c", verdicts, version)]
    [decision] = promote_candidates(
        judged, model, gateway, SuccessionRule(rule, allow_first=allow_first)
    )
    return decision


def judge_against_now(gateway, store, folder, version, scores):
    """Judge a version against the current champion, with the champion's recorded scores."""
    champion = gateway.get_alias(MODEL, "champion")
    if champion is None:
        return judge_version(gateway, store, folder, version, scores)
    with gateway.open_run_files(champion.run_id) as files:  # of a server, here for a moment
        rival = (champion, EvidenceFile(files / FILE).column("score/candidate"))
    return judge_version(gateway, store, folder, version, scores, rival)


def artifact(gateway, version, name):
    """Return the path of a file of a version's run, in a store on this disk."""
    with gateway.open_run_files(version.run_id) as folder:
        return folder / name


def edit_json(path, change):
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


def flip_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def tag_of_entry(payload):
    """Return the tag of an entry that says anything, signed if this machine has a private key."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    message = pae("application/vnd.biasgate.ledger-entry+json", text.encode())
    signatures = sign_message(PrivateKey.from_environment(), message)
    return {TAG: json.dumps(convert_to_plain({"payload": payload, "signatures": signatures}))}


def entry_content(**said):
    """Return what an entry says; a promotion, where nothing else is named."""
    known = {"action": "promotion", "reason": "r", "owner": "machine 1 2.0 abc"}
    known |= {"opened": f"{TODAY}T00:00:00+00:00", "expires": f"{TODAY}T00:05:00+00:00"}
    return EntryContent(**known | said)


def local(store):
    return Gateway.from_store(store)


def signing_key(monkeypatch, folder, name="key"):
    """Create a private key that this machine signs with from now on."""
    key = PrivateKey.generate()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(key.pem, "utf-8")
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", str(folder / name))
    return key


def trust(monkeypatch, folder, **keys):
    """Trust keys by name, as the machine that verifies does."""
    monkeypatch.setenv("BIASGATE_TRUSTED_KEYS", str(folder))
    known = TrustedKeys.from_file(get_trust_file())
    for name, key in keys.items():
        known = known.add_key(TrustedKey(key.public, name, get_timestamp()))
    known.write(get_trust_file())


def revoke(key, since):
    """Revoke a trusted key since a time."""
    known = TrustedKeys.from_file(get_trust_file())
    one = known.keys[key.public.key_id]
    known.add_key(TrustedKey(one.public, one.name, one.trusted_since, since, "stolen")).write(
        get_trust_file()
    )
