"""Clusters of shards that are counted: the same bounds as of all rows in memory."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from support.shards import (
    N_SHARDS,
    POLICY,
    everything,
    frame,
    write_file,
    write_shards,
)

from bias_metrics import Rows, compare_bias, compare_rate_gaps
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.counting import settings, shards, stores
from biasgate.tasks.counting.results import judge_counts
from biasgate.tasks.counting.settings import read_count_file
from biasgate.tasks.counting.shards import add_clusters, add_shard, count_shard
from biasgate.tasks.evidence.counted import Counted, CountedEvidence
from biasgate.tasks.verifying.verdict import verify_counted

pytest.importorskip("duckdb")
GROUPS = ("gay", "muslim")
RATES = [
    {"metric": "fnr_gap", "scope": "each", "margin": 0.03, "threshold": "given"},
    {"metric": "fpr_gap", "scope": "each", "margin": 0.1, "threshold": "equal_errors"},
]


def with_threads(number):
    """A shard whose rows are of threads that other shards have, too."""
    drawn = np.random.default_rng(number).integers(0, 300, len(frame(number)))
    return frame(number).assign(thread=[f"thread {one}" for one in drawn])


def write_threads(home, **changes):
    path = write_shards(home, cluster="thread", **changes)
    for number in range(N_SHARDS):
        with_threads(number).to_parquet(f"shards/part-{number}.parquet")
    (home / "own.yaml").write_text(yaml.safe_dump(POLICY | {"rules": [*POLICY["rules"], *RATES]}))
    return path


def count(path):
    found, policy = read_count_file(path)
    total = None
    for shard in found.shards():
        total = add_shard(
            total, count_shard.fn(found, shard, "out/counts", send=False), "out/counts"
        )
    return total, found, policy


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "it's [a] home"
    (home / "out").mkdir(parents=True)
    monkeypatch.chdir(home)
    monkeypatch.setattr(stores, "glob", lambda _: sorted(map(str, Path("shards").iterdir())))
    return home


def test_bounds_are_those_of_all_rows_in_clusters(home, monkeypatch):
    total, found, policy = count(write_threads(home, bits=20))
    whole = add_clusters.fn(total, found, "out")
    monkeypatch.setattr(shards, "ROWS", 1_000)
    monkeypatch.setattr(shards, "_CHUNK", 700)
    assert add_clusters.fn(total, found, "out").record.clusters.n == whole.record.clusters.n == 300
    verdict = judge_counts.fn(whole, found, policy, "out")
    rows = everything().assign(
        thread=np.concatenate([with_threads(one).dropna().thread for one in range(N_SHARDS)])
    )
    members = {name: rows[name] >= 0.5 for name in GROUPS}
    options = {"clusters": rows.thread, "confidence": 0.9}
    exact = compare_bias(rows.toxicity >= 0.5, rows.new, rows.old, members, **options)
    bounds = {(one.metric, one.kind, one.group): one.bound for one in verdict.results}
    for name in GROUPS:
        for kind, cell in (("floor", exact.first), ("champion", exact)):
            low = cell.subgroups[name].bpsn_auc.low
            assert low - 1e-5 < bounds["bpsn_auc", kind, name] <= low + 1e-12
    assert bounds["auc", "floor", None] == pytest.approx(exact.first.overall.auc.low, abs=1e-5)
    assert {one.n_clusters for one in verdict.results if one.metric == "auc"} == {300}
    assert (
        json.loads(Path("out/report.json").read_text())["evaluation_set"]["choices"]["n_clusters"]
        == 300
    )
    assert not list(Path("out").glob(".clusters-*"))
    checked = verify_counted(Path("out"))
    assert all(one.holds for one in checked)
    [unknown] = [one for one in checked if "what clusters do to the bounds" in one.sentence]
    assert not unknown.checked


def test_only_differences_of_aggregates_are_said_to_be_unrelated_in_clusters(home):
    total, found, _ = count(write_threads(home))
    Path("without").write_bytes(total.to_bytes())
    Path("with").write_bytes(add_clusters.fn(total, found, "out").to_bytes())
    said = {name: CountedEvidence(Path(name)).not_told for name in ("without", "with")}
    assert any("is known by wide bins" in one for one in said["without"])
    assert not any("is known by wide bins" in one for one in said["with"])
    assert all(any("power means and final scores" in one for one in each) for each in said.values())


def test_a_cluster_larger_than_a_batch_is_whole(home, monkeypatch):
    path = write_threads(home)
    for number in range(N_SHARDS):
        rows = with_threads(number)
        rows.loc[500:, "thread"] = "thread 7"
        rows.to_parquet(f"shards/part-{number}.parquet")
    total, found, _ = count(path)
    whole = add_clusters.fn(total, found, "out").record.clusters
    monkeypatch.setattr(shards, "ROWS", 1_000)
    monkeypatch.setattr(shards, "_CHUNK", 700)
    again = add_clusters.fn(total, found, "out").record.clusters
    assert (again.n, again.rows) == (whole.n, whole.rows)
    np.testing.assert_allclose(again.moves, whole.moves, rtol=1e-9)


def test_sorted_rows_are_not_held_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "ROWS", 10_000)
    monkeypatch.setattr(shards, "_CHUNK", 10_000)
    n, path = 1_000_000, tmp_path / "sorted"
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "cluster": np.arange(n) // 10,
            "bits": pa.array([b"\x80"] * n, pa.binary()),
            "score/candidate": rng.random(n),
        }
    )
    pq.write_table(table, path, row_group_size=10_000)
    del table
    most, before = 0, pa.total_allocated_bytes()
    for batch in shards._clusters_of(path, (), ["candidate"]):
        most = max(most, pa.total_allocated_bytes() - before)
        del batch
    assert most < path.stat().st_size / 2


def test_bounds_of_error_rates_are_those_of_all_rows_in_clusters(home):
    total, found, policy = count(write_threads(home))
    verdict = judge_counts.fn(add_clusters.fn(total, found, "out"), found, policy, "out")
    rows = everything().assign(
        thread=np.concatenate([with_threads(one).dropna().thread for one in range(N_SHARDS)])
    )
    members = {name: rows[name] >= 0.5 for name in GROUPS}
    known = Rows(rows.toxicity >= 0.5, members, clusters=rows.thread)
    exact = compare_rate_gaps(
        known, rows.new, rows.old, threshold_a=0.5, threshold_b=0.5, confidence=0.9
    )
    judged = {(one.metric, one.kind, one.group): one for one in verdict.results}
    for name in GROUPS:
        cell = exact.first.subgroups[name]["fpr_gap"]
        own = judged["fpr_gap", "ceiling", name]
        assert own.bound == pytest.approx(max(cell.high, -cell.low), abs=1e-12)
        assert own.n_clusters == cell.n_clusters > 200
        bound = exact.subgroups[name]["fnr_gap"].size_high
        assert judged["fnr_gap", "champion", name].bound == pytest.approx(bound, abs=1e-12)
    report = json.loads(Path("out/report.json").read_text())["thresholds"]["given"]
    rate = report["subgroups"]["gay"]["false_positive_rate"]["value"]
    harmless = (rows.gay >= 0.5) & (rows.toxicity < 0.5)
    assert rate == (rows.new[harmless] >= 0.5).mean()


def test_harm_by_error_rates_is_shown(home):
    """A candidate that flags more of one identity's harmless comments than the champion."""
    path = write_threads(home)
    for number in range(N_SHARDS):
        rows = with_threads(number)
        near = (rows.gay > 0) & (rows.toxicity == 0) & rows.new.between(0.2, 0.5)
        rows.assign(new=rows.new.mask(near, 0.501)).to_parquet(f"shards/part-{number}.parquet")
    (home / "own.yaml").write_text(yaml.safe_dump(POLICY | {"rules": POLICY["rules"][:1]}))
    total, found, policy = count(path)
    verdict = judge_counts.fn(add_clusters.fn(total, found, "out"), found, policy, "out")
    harmed = {
        (one.metric, one.group) for one in verdict.results if one.rule.startswith("shown_harm")
    }
    assert verdict.outcome == "fail"
    assert ("fpr_gap", "gay") in harmed


def test_evidence_without_errors_at_the_thresholds_of_its_verdict_is_refused(home):
    """Otherwise no harm is shown at a threshold that somebody writes into it later."""
    total, found, policy = count(write_threads(home))
    judge_counts.fn(add_clusters.fn(total, found, "out"), found, policy, "out")
    evidence = CountedEvidence(Path("out/evidence.counts"))
    at = {"given": {"candidate": 0.5, "champion": 0.6}}
    with pytest.raises(InputError, match=r"errors at the thresholds of its verdict: .* 0\.5, 0\.6"):
        evidence.losses("champion", 0.05, at)


def test_shards_that_change_meanwhile_are_refused(home):
    total, found, _ = count(write_threads(home))
    with_threads(9).to_parquet("shards/part-0.parquet")
    with pytest.raises(InputError, match="shards must not change while they are counted"):
        add_clusters.fn(total, found, "out")


def test_what_clusters_need_is_refused_before_any_work(home, monkeypatch):
    path = write_threads(home)
    Path("shards/part-0.parquet").rename("shards/part-0.counts")
    with pytest.raises(InputError, match=r"needs rows, .* do not add up; got shards"):
        read_count_file(path)
    monkeypatch.setattr(settings, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"needs the library DuckDB.*\[clusters\]"):
        read_count_file(path)
    rules = [{"metric": "brier_gap", "scope": "each", "ceiling": 0.1}]
    (home / "own.yaml").write_text(yaml.safe_dump(POLICY | {"rules": rules}))
    with pytest.raises(InputError, match=r"rule brier_gap/each beside `cluster`.*calibration is"):
        read_count_file(write_file(home, cluster="thread", path="*"))
    weighted = {"weight": "old", "weight_kind": "frequency"}
    with pytest.raises(InputError, match="`cluster` must not be set beside `weight`"):
        read_count_file(write_file(home, cluster="thread", **weighted))


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("rows", 1, 0), 1e6),
        (("rows", 1, 2), 5_000.0),
        (("rows", 2, 5), 0.0),
        (("rows", 2, 7), 1e12),
        (("moves", 0, 1, 0), -1.0),
        (("moves", 1, 1, 3), 1e12),
        (("apart", 0, 1), -1.0),
        (("apart", 0), [0.0]),
        (("rows", 3), [0.0]),
    ],
)
def test_sums_that_cannot_be_of_these_clusters_are_refused(home, where, value):
    total, found, _ = count(write_threads(home))
    whole = add_clusters.fn(total, found, "out")
    assert Counted.of_bytes(whole.to_bytes(), "file x").to_bytes() == whole.to_bytes()
    content = {name: getattr(whole.record.clusters, name) for name in ("rows", "moves", "apart")}
    changed = json.loads(json.dumps(content))
    inner = changed
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    record = replace(whole.record, clusters=replace(whole.record.clusters, **changed))
    Path("forged").write_bytes(replace(whole, record=record).to_bytes())
    with pytest.raises(InputError, match="must have the clusters of its rows"):
        _ = CountedEvidence(Path("forged")).counts
