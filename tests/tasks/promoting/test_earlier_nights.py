"""The rows of a version's earlier nights come from its last verdict, which must verify."""

import uuid
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import judging
from support.promoted import (
    MODEL,
    TODAY,
    bound,
    edit_json,
    promote_one,
    registered_version,
    revoke,
)

from bias_metrics import evaluate_bias
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import write_json
from biasgate.tasks.data.evaluation_set import freeze_rows
from biasgate.tasks.data.freezing import SOURCES
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.promoting import earlier_nights
from biasgate.tasks.promoting.earlier_nights import (
    _is_another,
    check_nights,
    pool_nights_of,
)
from biasgate.tasks.promoting.pinned import context_of
from biasgate.tasks.promoting.verify import verify
from biasgate.tasks.records import LoggedVerdict
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import attest
from biasgate.tasks.verifying.documents import write_verdicts
from biasgate.tasks.verifying.version import verify_version

CHOICES = judging.CHOICES | {"planned_rows": 600}
ON = "fresh"


def policy_with(**options):
    known = {"version": 1, "name": "p", "allow_first": True}
    rules = [{"metric": "auc", "scope": "overall", "floor": 0.9}]
    return Policy.model_validate(known | {"rules": rules} | options)


POLICY = policy_with()


class Nights:
    """A version that is judged on new rows every night."""

    def __init__(self, gateway, folder):
        self.gateway, self.folder, self.said = gateway, folder, []
        self.version = registered_version(gateway, folder, "nightly")

    def judge(self, number, *, policy=POLICY, n_candidates=1, first_id=None, choices=CHOICES):
        """Judge the version on the rows of one night; log, attest and tag the verdict."""
        folder = self.folder / f"night {number} {uuid.uuid4().hex}"
        folder.mkdir()
        rng = np.random.default_rng(number)
        label, gay = rng.random(300) < 0.5, rng.random(300) < 0.5
        scores = 2.2 * label + rng.normal(0, 1, 300)
        start = 1000 * number if first_id is None else first_id
        columns = {
            "id": [f"{start + row}" for row in range(300)],
            "label": label,
            "identity/gay": gay,
            "score/candidate": scores,
        }
        record = {
            "set_digest": f"set {number}",
            "choices": choices,
            "power_mean_groups": ["gay"],
            "scores": {"candidate": "scores"},
            "bound": {"candidate": bound(self.gateway, self.version)},
        }
        bias = evaluate_bias(label, scores, {"gay": gay}, power_mean_groups=["gay"])
        candidate = {"kind": "mlflow", "model": self.version.uri, "digest": "scores"}
        candidate["bound"] = record["bound"]["candidate"]
        of_set = {"on": ON, "digest": f"set {number}", "choices": choices}
        report = judging.report_of(bias.to_dict(), candidate=candidate, **of_set)
        judging.write_evidence(columns, record, folder / FILE)
        tonight = EvidenceFile(folder / FILE)
        gateway = self.gateway
        judged = SimpleNamespace(name="mine", uri=self.version.uri)
        measured = SimpleNamespace(source=SimpleNamespace(name=ON), candidate=judged)
        place = SimpleNamespace(gateway=gateway)
        evidence = pool_nights_of.fn(measured, tonight, policy, n_candidates, place)
        context = context_of(MODEL, policy, [ON], gateway)
        verdict = build_verdict(
            report, policy, evidence, {}, n_candidates=n_candidates, today=TODAY, context=context
        )
        for name, content in (
            ("report", report),
            ("policy", policy.model_dump(mode="json")),
            ("verdict", verdict),
        ):
            write_json(folder / f"{name}.json", content)
        attest(verdict, folder, PrivateKey.here())
        run_id = gateway.run(gateway.experiment("judged"), folder.name, folder.name)
        gateway.log_folder(run_id, folder)
        gateway.finish(run_id)
        verdict = LoggedVerdict.logged(verdict, run_id)
        write_verdicts(self.version, [verdict], gateway)
        return verdict

    def of_last(self, name):
        """The path of a file of the last verdict."""
        tags = self.gateway.resolve(self.version.uri).tags
        with self.gateway.run_files(tags[f"biasgate.{ON}.run_id"]) as folder:
            return folder / name

    def findings(self):
        return verify_version(self.gateway.resolve(self.version.uri), self.gateway, today=TODAY)


@pytest.fixture
def nights(gateway, tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    made = Nights(gateway, tmp_path / "files")
    monkeypatch.setattr(earlier_nights, "say", made.said.append)
    return made


def told(verdict):
    return verdict.nights.number, verdict.nights.n_rows


def test_nights_are_pooled_until_they_pass_and_the_verdict_verifies(nights, gateway, store, key):
    del key
    verdicts = [nights.judge(number) for number in (1, 2, 5, 6, 7)]
    assert [told(one) for one in verdicts] == [(at, 300 * at) for at in range(1, 6)]
    assert {one.outcome for one in verdicts[:4]} == {"insufficient"}
    assert verdicts[-1].outcome == "pass"
    assert [one.sentence for one in nights.findings() if not one.holds] == []
    promote_one([verdicts[-1]], gateway.resolve(nights.version.uri), gateway)
    assert all(one.holds for one in verify(MODEL, None, gateway, store))


def test_a_verdict_that_is_not_signed_by_a_trusted_key_gives_no_rows(nights, key):
    nights.judge(1)
    revoke(key, "2020-01-01T00:00:00+00:00")
    with pytest.raises(InputError, match="the last verdict on models:/toxicity/1 and fresh"):
        nights.judge(2)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("verdict.json", lambda one: one["nights"].update(began="forged")),
        ("report.json", lambda one: one["candidate"].update(digest="forged")),
        ("policy.json", lambda one: one.update(description="forged")),
    ],
)
def test_a_changed_file_gives_no_rows(nights, file, change):
    nights.judge(1)
    edit_json(nights.of_last(file), change)
    with pytest.raises(InputError, match="must verify, since its rows count tonight"):
        nights.judge(2)


def test_changed_rows_give_no_rows(nights):
    nights.judge(1)
    path = nights.of_last(FILE)
    table = pq.ParquetFile(path).read()
    pq.write_table(table.slice(0, 200), path)
    with pytest.raises(InputError, match="the attestation on fresh is of these files"):
        nights.judge(2)


def test_a_lost_run_gives_no_rows(nights, gateway):
    verdict = nights.judge(1)
    gateway.client.delete_run(verdict.run_id)
    nights.of_last(FILE).unlink()
    with pytest.raises(InputError, match="give the set another `name`"):
        nights.judge(2)


def test_rows_of_an_earlier_night_are_refused(nights):
    nights.judge(1)
    with pytest.raises(InputError, match="1 of tonight's 300 were in the 1 nights before"):
        nights.judge(2, first_id=1299)


def test_the_same_night_again_counts_once(nights):
    first, second = nights.judge(1), nights.judge(2)
    assert told(nights.judge(2)) == told(second) == (2, 600)
    assert first.nights.each == second.nights.each[:1]
    again = "mine on fresh: night 2, 600 rows in all"
    assert nights.said == [
        "mine on fresh: night 1 (the version had no verdict on this set), 300 rows in all",
        again,
        "models:/toxicity/1 on fresh: these rows were judged before; no night is added",
        again,
    ]


def test_another_policy_begins_anew(nights):
    nights.judge(1)
    again = nights.judge(2, policy=policy_with(confidence=0.9))
    assert told(again) == (1, 300)
    assert again.nights.began == "the policy is another one"


def test_another_number_of_candidates_begins_anew_only_where_it_is_corrected_for(nights):
    nights.judge(1)
    assert told(nights.judge(2, n_candidates=3)) == (2, 600)
    corrected = policy_with(correction="bonferroni")
    nights.judge(3, policy=corrected)
    again = nights.judge(4, policy=corrected, n_candidates=3)
    assert again.nights.began == "the number of candidates is another one"


def test_a_pooled_verdict_whose_rows_were_changed_does_not_verify(nights):
    nights.judge(1)
    nights.judge(2)
    edit_json(nights.of_last("verdict.json"), lambda one: one["nights"].update(n_rows=300))
    wrong = {one.what for one in nights.findings() if not one.holds}
    assert wrong == {"attestation", "tags"}


def tonight(folder, first_id):
    """Rows of a new night, as they are frozen before anything is scored."""
    rng = np.random.default_rng(9)
    rows = pa.table(
        {
            "id": pa.array([f"{first_id + row}" for row in range(300)]),
            "label": (rng.random(300) < 0.5).astype(float),
            "identity/gay": pa.array([None, *(rng.random(299) < 0.5).astype(float)]),
        }
    )
    return freeze_rows([rows], folder, name=ON, split="all", source={"of": ON})


def check_before_scoring(nights, folder, first_id, *, policy=POLICY, rivals=None, **options):
    known = {"name": ON, "source": "table", "path": "x.csv", "identities": ["gay"]}
    source = SOURCES.validate_python(known | {"pool_nights": {"rows": 600}} | options)
    candidate = SimpleNamespace(uri=nights.version.uri)
    rows = folder / uuid.uuid4().hex
    tonight(rows, first_id)
    place = SimpleNamespace(gateway=nights.gateway)
    check_nights.fn([candidate], source, str(rows), rivals or {}, policy, place)


def test_rows_of_an_earlier_night_are_refused_before_scoring(nights, tmp_path):
    nights.judge(1)
    nights.judge(2)
    with pytest.raises(InputError, match="1 of tonight's 299 were in the 2 nights before, first"):
        check_before_scoring(nights, tmp_path, 2298)
    check_before_scoring(nights, tmp_path, 3000)


def test_an_unrated_row_that_is_not_measured_may_be_there_again(nights, tmp_path):
    nights.judge(1)
    check_before_scoring(nights, tmp_path, 1300)
    with pytest.raises(InputError, match="298 of"):
        check_before_scoring(nights, tmp_path, 1001)


@pytest.mark.parametrize(
    "changed",
    [
        {"policy": policy_with(confidence=0.9)},
        {"label_threshold": 0.6},
        {"identity_rows": "all"},
        {"rivals": {"champion": SimpleNamespace(uri="models:/toxicity/7")}},
        {"rivals": {"reference": SimpleNamespace(uri=None)}},
        {"pool_nights": None},
    ],
)
def test_where_tonight_begins_anew_nothing_is_refused_before_scoring(nights, tmp_path, changed):
    nights.judge(1)
    check_before_scoring(nights, tmp_path, 1001, **changed)


@pytest.mark.parametrize(
    ("before", "now", "is_another"),
    [
        (None, None, False),
        (None, "1", True),
        ("1", None, True),
        ("1", "1", False),
        ("1", "2", False),  # the version itself, champion since
        ("1", "3", True),
        ("1", "unknown", True),
    ],
)
def test_whether_tonights_champion_is_that_of_the_night_before(before, now, is_another):
    uris = {one: f"models:/toxicity/{one}" for one in "123"} | {"unknown": None}
    verdict = SimpleNamespace(champion=before and SimpleNamespace(model=uris[before]))
    rivals = {"champion": SimpleNamespace(uri=uris[now])} if now else {}
    assert _is_another("champion", verdict, SimpleNamespace(uri=uris["2"]), rivals) is is_another


def test_the_first_night_has_nothing_to_refuse(nights, tmp_path):
    check_before_scoring(nights, tmp_path, 1001)
