"""Shards are counted in batches, and a wrong shard is refused by its name."""

import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.promoted import signing_key, trust
from support.shards import (
    COMMENT,
    FILE,
    N_SHARDS,
    POLICY,
    N,
    everything,
    frame,
    write_file,
    write_shards,
)

from bias_metrics import (
    compare_bias,
    equal_error_range,
    equal_error_rate,
    evaluate_bias,
    rate_gaps,
)
from bias_metrics.rows import Rows
from biasgate.tasks.check_messages import describe_check
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import json_schema
from biasgate.tasks.counting import shards as counting
from biasgate.tasks.counting.results import judge_counts
from biasgate.tasks.counting.settings import CountFile, read_count_file
from biasgate.tasks.counting.shards import add_shard, count_scores, count_shard, name_count_file
from biasgate.tasks.evidence.counted import (
    IN_PAIRS,
    NO_CHANGES,
    NO_MEMBERS,
    NO_PAIRS,
    NO_ROWS,
    Counted,
    CountedEvidence,
)
from biasgate.tasks.records import Report
from biasgate.tasks.records.numbers import widen_number
from biasgate.tasks.verifying.counted import verify_counts


def count(path):
    """Count the shards of a count file as the flow does."""
    settings, policy = read_count_file(path)
    total = None
    for shard in settings.list_shards():
        shard_counts = count_shard.fn(settings, shard, "out/counts", send=False)
        total = add_shard(total, shard_counts, "out/counts")
    return total, settings, policy


def judge(path):
    total, settings, policy = count(path)
    return judge_counts.fn(total, settings, policy, "out")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    return tmp_path


def test_the_sum_is_that_of_all_measured_rows(home):
    total, _, _ = count(write_shards(home, bits=20))
    rows = everything()
    assert [shard.n_rows for shard in total.record.shards] == [N] * N_SHARDS
    assert [shard.n_measured for shard in total.record.shards] == [N - 10] * N_SHARDS
    report = total.counts["candidate"].report()
    exact = evaluate_bias(
        rows.toxicity >= 0.5, rows.new, {name: rows[name] >= 0.5 for name in ("gay", "muslim")}
    )
    assert report.keys() == exact.keys()
    for key, number in exact.items():
        assert report[key].value == pytest.approx(number.value, abs=1e-5)


@pytest.mark.parametrize(
    ("cores", "n_identities", "most"), [(1, 2, 1), (4, 2, 4), (64, 2, 6), (64, 24, 2), (64, 90, 1)]
)
def test_shards_at_once_fit_into_two_gibibytes_whatever_the_cores(
    home, monkeypatch, cores, n_identities, most
):
    settings, _ = read_count_file(write_shards(home))
    settings = settings.model_copy(
        update={"identities": dict.fromkeys(map(str, range(n_identities)))}
    )
    monkeypatch.setattr(counting.os, "cpu_count", lambda: cores)
    assert counting.count_parallel_shards(settings) == most
    of_shard = 90 + 17 * (1 + 2 + n_identities)
    assert 880 + most * of_shard <= 2048 or most == 1
    assert most == cores or 880 + (most + 1) * of_shard > 2048


def test_batches_of_any_size_give_the_same_bytes(home, monkeypatch):
    settings, _ = read_count_file(write_shards(home))
    path, *_ = map(Path, settings.list_shards())
    whole = count_scores(settings, path)
    monkeypatch.setattr(counting, "BATCH_ROWS", 1)
    chunks = CountFile.chunks
    monkeypatch.setattr(
        CountFile,
        "chunks",
        lambda source: (part.slice(at, 700) for part in chunks(source) for at in range(0, N, 700)),
    )
    assert count_scores(settings, path).to_bytes() == whole.to_bytes()


def test_counts_that_are_sent_are_those_that_are_kept(home):
    path = write_shards(home)
    total, settings, _ = count(path)
    sent = [
        count_shard.fn(settings, shard, "elsewhere", send=True) for shard in settings.list_shards()
    ]
    again = None
    for data in sent:
        again = add_shard(again, data, "sent")
    assert again.to_bytes() == total.to_bytes()
    for kept in (home / "out/counts").iterdir():
        assert kept.read_bytes() == (home / "sent" / kept.name).read_bytes()


def test_shards_add_up_in_any_order(home):
    settings, _ = read_count_file(write_shards(home))
    parts = [count_scores(settings, path) for path in map(Path, settings.list_shards())]
    assert Counted.sum(parts[::-1]).to_bytes() == Counted.sum(parts).to_bytes()


def test_no_text_and_no_id_is_kept(home):
    judge(write_shards(home))
    for path in (home / "out").rglob("*"):
        assert path.is_dir() or COMMENT.encode() not in path.read_bytes()
    with zipfile.ZipFile(home / "out/evidence.counts") as archive:
        names = ["candidate.npz", "champion.npz", "champion-pairs.npz"]
        assert archive.namelist() == ["record.json", *names]


def test_kept_counts_are_not_counted_again_unless_an_option_or_the_content_differs(
    home, monkeypatch
):
    path = write_shards(home)
    count(path)
    monkeypatch.setattr(counting, "count_scores", lambda *_: pytest.fail("counted again"))
    count(path)
    write_file(
        home, background="no_identity", candidate={"name": "x", "score": "new"}, policy="strict"
    )
    count(path)
    with pytest.raises(pytest.fail.Exception):
        count(write_file(home, label_threshold=0.4))
    frame(9).to_parquet("shards/part-0.parquet")
    with pytest.raises(pytest.fail.Exception):
        count(write_file(home))


def test_files_of_counts_are_added_without_the_shards(home):
    path = write_shards(home)
    total, *_ = count(path)
    (home / "nights").mkdir()
    for kept in (home / "out/counts").iterdir():
        shutil.move(kept, home / "nights")
    shutil.rmtree("shards")
    again, *_ = count(write_file(home, path="nights/*.counts"))
    assert again.to_bytes() == total.to_bytes()


def test_the_guide_names_each_file_that_is_written(home):
    judge(write_shards(home))
    guide = (Path(__file__).parents[3] / "docs/guides/results.md").read_text("utf-8")
    assert [path.name for path in Path("out").iterdir() if path.name not in guide] == []


def test_the_verdict_names_what_it_rests_on_and_holds_for_exact_numbers(home):
    verdict = judge(write_shards(home))
    assert verdict.outcome == "pass"
    assert (verdict.counts.n_shards, verdict.counts.bits) == (N_SHARDS, 12)
    assert 0 < verdict.counts.widest < 1e-3
    limits = [NO_ROWS, NO_MEMBERS, IN_PAIRS, NO_PAIRS, NO_CHANGES]
    assert verdict.counts.not_told == limits
    rows = everything()
    groups = {name: rows[name].to_numpy() >= 0.5 for name in ("gay", "muslim")}
    toxic, new, old = (rows[x].to_numpy() for x in ("toxicity", "new", "old"))
    exact = evaluate_bias(toxic >= 0.5, new, groups, confidence=0.9)
    apart = compare_bias(toxic >= 0.5, new, old, groups, confidence=0.9)
    gaps = rate_gaps(Rows(toxic >= 0.5, groups), new, threshold=0.5, confidence=0.9)
    bounds = {
        (result.metric, result.kind, result.group): result.bound for result in verdict.results
    }
    for name, bias in exact.subgroups.items():
        assert bounds["bpsn_auc", "floor", name] <= bias.bpsn_auc.low
        assert bounds["bpsn_auc", "champion", name] <= apart.subgroups[name].bpsn_auc.low
        size = max(abs(gaps.subgroups[name]["fpr_gap"].low), gaps.subgroups[name]["fpr_gap"].high)
        assert bounds["fpr_gap", "ceiling", name] == pytest.approx(size, abs=1e-3)
    assert bounds["auc", "floor", None] <= exact.overall.auc.low
    assert bounds["final_score", "floor", None] <= exact.overall.final_score.low


def test_the_number_to_look_at_first_has_one_interval_wherever_it_is_named(home):
    judge(write_shards(home))
    folder = next(path.parent for path in (home / "out").rglob("report.json"))
    report = Report.read((folder / "report.json").read_bytes())
    first = report.look_first
    number = widen_number(report.bias, first.subgroup, first.metric)
    assert report.bias.select_threshold("given")  # these gaps widen the bounds
    assert f"[95% CI {number.low:.3f} to {number.high:.3f}]" in first.sentence


def test_a_rule_at_equal_errors_is_judged_as_by_the_rows(home):
    path = write_shards(home, bits=20)
    rule = POLICY["rules"][2] | {"threshold": "equal_errors", "margin": 0.1}
    (home / "own.yaml").write_text(yaml.safe_dump(POLICY | {"rules": [rule]}))
    verdict = judge(path)
    rows = everything()
    toxic, new = rows.toxicity.to_numpy() >= 0.5, rows.new.to_numpy()
    checked = Rows(toxic, {name: rows[name].to_numpy() >= 0.5 for name in ("gay", "muslim")})
    equal = equal_error_rate(toxic, new)
    exact = rate_gaps(
        checked,
        new,
        threshold=equal.threshold,
        threshold_range=equal_error_range(toxic, new, confidence=0.9),
        confidence=0.9,
    )
    bounds = {(result.kind, result.group): result.bound for result in verdict.results}
    for name, cells in exact.subgroups.items():
        size = max(abs(cells["fpr_gap"].low), cells["fpr_gap"].high)
        assert bounds["ceiling", name] == pytest.approx(size, abs=2e-3)
        assert bounds["champion", name] is not None
    report = json.loads((home / "out/report.json").read_text())["thresholds"]
    assert report.keys() == {"equal_errors", "given"}
    assert report["equal_errors"]["threshold"] == pytest.approx(equal.threshold, rel=1e-6)
    assert report["equal_errors"]["equal_error_rate"]["value"] == pytest.approx(
        equal.rate.value, abs=1e-3
    )


def test_that_counts_know_no_categories_is_told_where_the_policy_has_some(home):
    path = write_shards(home)
    plain = judge(path)
    (home / "own.yaml").write_text(yaml.safe_dump(POLICY | {"roll_up": "civil_comments"}))
    rolled_up = judge(path)
    sentence = "Identities with too few comments are not judged in their category."
    assert rolled_up.counts.not_told == [*plain.counts.not_told, sentence]
    few = POLICY["rules"][1] | {"metric": "subgroup_auc", "min_positives": 1_000}  # of some 800
    own = {"roll_up": {"either": ["gay", "muslim"]}, "blind": {"margin": 0.4}, "rules": [few]}
    (home / "own.yaml").write_text(yaml.safe_dump(POLICY | own))
    assert judge(path).outcome == "insufficient"


def test_without_champion_or_with_a_shared_background_there_is_a_verdict(home):
    verdict = judge(write_shards(home, champion=None, background="no_identity"))
    assert verdict.outcome == "pass"
    assert verdict.champion is None
    assert len(verdict.counts.not_told) == 2
    with_reference = {"name": "then", "score": "old", "threshold": 0.5}
    verdict = judge(write_file(home, reference=with_reference))
    assert (verdict.outcome, verdict.reference.name) == ("pass", "then")


def test_what_changed_since_earlier_days_is_warned_of(home):
    judge(write_shards(home))
    for day in ("one", "two"):
        (home / "days" / day).mkdir(parents=True)
    shutil.copy("out/evidence.counts", "days/one")
    for number in range(N_SHARDS):
        frame(10 + number).to_parquet(f"shards/part-{number}.parquet")
    judge(write_file(home, earlier="days/*/evidence.counts"))
    assert "moved from" not in (home / "out/report.json").read_text()
    shutil.copy("out/evidence.counts", "days/two")
    for number in range(N_SHARDS):
        rows = frame(20 + number)
        rows.new = rows.new.where(rows.gay < 0.5, rows.new * (1 - 0.5 * rows.toxicity)).round(4)
        rows.to_parquet(f"shards/part-{number}.parquet")
    judge(home / "chats.yaml")
    warnings = [
        one
        for one in json.loads((home / "out/report.json").read_text())["warnings"]
        if "moved from" in one
    ]
    assert any(one.startswith("BNSP AUC of gay moved from ") for one in warnings)
    assert all(
        one.endswith(f"{2 * N_SHARDS * (N - 10):,} rows of earlier days.") for one in warnings
    )


def test_earlier_days_that_share_a_shard_or_are_of_other_options_are_refused(home):
    judge(write_shards(home))
    shutil.copy("out/evidence.counts", "day.counts")
    with pytest.raises(InputError, match=r"'part-0.parquet' and 'part-0.parquet' have the same"):
        judge(write_file(home, earlier="day.counts"))
    with pytest.raises(InputError, match="must be of the same set, with the same options"):
        judge(write_file(home, earlier="day.counts", label_threshold=0.4))
    with pytest.raises(InputError, match=r"`earlier` must name files.*gone.counts names none"):
        read_count_file(write_file(home, earlier="gone.counts"))


def test_the_same_shard_under_two_names_is_refused(home):
    path = write_shards(home)
    shutil.copy("shards/part-0.parquet", "shards/part-9.parquet")
    with pytest.raises(InputError, match=r"'part-0.parquet' and 'part-9.parquet' have the same"):
        count(path)


def test_a_shard_that_the_manifest_lacks_or_has_besides_or_otherwise_is_named(home):
    path = write_shards(home, manifest="sums.txt")
    lines = [
        f"{hashlib.sha256(one.read_bytes()).hexdigest()}  shards/{one.name}\n"
        for one in sorted((home / "shards").iterdir())
    ]
    for content, rule in (
        (lines[1:], r"shard 'part-0.parquet' must be in `manifest`; it is not"),
        (
            [*lines, f"{'0' * 64} *part-7.parquet\n"],
            r"'part-7.parquet' of `manifest`.*missing",
        ),
        (
            [f"{'0' * 64}  part-0.parquet\n", *lines[1:]],
            "the content that `manifest` names",
        ),
    ):
        (home / "sums.txt").write_text("".join(content))
        with pytest.raises(InputError, match=rule):
            judge(path)
        assert (home / "out/counts").exists() == ("content" in rule)  # names are known before
    (home / "sums.txt").write_text("".join(lines))
    assert judge(path).outcome == "pass"
    (home / "sums.txt").write_text("nothing\n")
    with pytest.raises(InputError, match=r"a line for each shard.*row 0"):
        judge(path)


def test_shards_of_one_name_in_two_folders_are_two_shards_for_the_manifest(home):
    """The second shard, which is not listed, would make a blocked model pass."""
    write_shards(home, n_shards=1)
    for folder in ("mon", "tue"):
        (home / folder).mkdir()
    shutil.move("shards/part-0.parquet", "mon/part.parquet")
    frame(1).to_parquet("tue/part.parquet")
    listed = [
        f"{hashlib.sha256(Path(one).read_bytes()).hexdigest()}  {one}\n"
        for one in ("mon/part.parquet", "tue/part.parquet")
    ]
    path = write_file(home, path="*/part.parquet", manifest="sums.txt")
    (home / "sums.txt").write_text(listed[0])
    with pytest.raises(InputError, match=r"part.parquet' must be in `manifest`; 2 shards have"):
        judge(path)
    assert not Path("out/counts").exists()
    (home / "sums.txt").write_text("".join(listed))
    verdict = judge(path)
    assert verdict.counts.n_shards == 2
    files = json.loads(Path("out/report.json").read_text())["evaluation_set"]["choices"]["source"]
    digests = [one[:64] for one in listed]
    assert files["files"] == {f"part.parquet ({one[:12]})": one for one in digests}
    frame(2).to_parquet("tue/part.parquet")
    with pytest.raises(InputError, match=rf"content that `manifest` names, {digests[1][:12]}"):
        judge(path)
    (home / "sums.txt").write_text(listed[0] + listed[0].replace("mon", "tue"))
    with pytest.raises(InputError, match=r"and each content once \(file .*, row 1\)"):
        judge(path)


def test_files_of_counts_that_the_manifest_lacks_are_refused_whatever_their_names(home):
    total, *_ = count(write_shards(home))
    lines = [f"{shard.sha256}  {shard.name}\n" for shard in total.record.shards]
    path = write_file(home, path="out/counts/*.counts", manifest="sums.txt")
    (home / "sums.txt").write_text("".join(lines))
    assert judge(path).counts.n_shards == N_SHARDS
    (home / "sums.txt").write_text("".join(lines[1:]))
    with pytest.raises(InputError, match=r"'part-0.parquet' \(.*\) must be in `manifest`"):
        judge(path)


def test_kept_counts_are_those_of_the_content_of_a_shard_whatever_their_name(home, monkeypatch):
    path = write_shards(home, n_shards=2)
    rows = frame(0)
    rows.assign(new=1 - rows.new).to_parquet("shards/part-0.parquet")  # upside down
    total, *_ = count(path)
    file_names = {one: name_count_file(one.sha256, total.record.key) for one in total.record.shards}
    first, second = (home / "out/counts" / name for name in file_names.values())
    shutil.copy(second, first)  # the good shard's, under the name of the other
    again, *_ = count(path)
    assert again.to_bytes() == total.to_bytes()
    monkeypatch.setattr(counting, "count_scores", lambda *_: pytest.fail("counted again"))
    shutil.move("shards/part-0.parquet", "shards/part-9.parquet")
    renamed, *_ = count(path)
    assert [one.name for one in renamed.record.shards] == ["part-1.parquet", "part-9.parquet"]
    assert {one.sha256 for one in renamed.record.shards} == {one.sha256 for one in file_names}


def test_counts_of_another_set_are_refused(home):
    settings, _ = read_count_file(write_shards(home))
    other_settings, _ = read_count_file(write_file(home, label_threshold=0.4))
    first, second, _ = map(Path, settings.list_shards())
    with pytest.raises(
        InputError, match=r"of the same set, .*'part-0.parquet' and of 'part-1.parquet'"
    ):
        _ = count_scores(settings, first) + count_scores(other_settings, second)


@pytest.mark.parametrize(
    "change",
    [
        {"label_threshold": 0.4},
        {"name": "other"},
        {"candidate": {"name": "next", "score": "old", "threshold": 0.5}},
        {"champion": None},
        {"bits": 11},
    ],
    ids=lambda change: next(iter(change)),
)
def test_counts_that_the_count_file_would_not_make_are_refused_before_any_work(home, change):
    count(write_shards(home))
    with pytest.raises(
        InputError, match=r"counts must be made with the settings of this count file; .*0"
    ):
        read_count_file(write_file(home, path="out/counts/*.counts", **change))
    (home / "out/counts/other.counts").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"other.counts must be counts of scores as biasgate writ"):
        read_count_file(write_file(home, path="out/counts/*.counts"))


def test_weights_whose_sum_cannot_be_counted_are_refused_by_their_shard(home):
    path = write_shards(home, weight="times", weight_kind="frequency")
    shard = home / "shards/part-1.parquet"
    for part in (home / "shards").iterdir():
        pd.read_parquet(part).assign(times=1e15 if part == shard else 1.0).to_parquet(part)
    with pytest.raises(InputError, match=r"shard .*part-1.parquet cannot be counted .*at most"):
        count(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("column", ["old", "toxicity"])
def test_a_score_or_label_that_is_no_number_is_refused_by_its_place(home, column, value):
    path = write_shards(home)
    rows = frame(1)
    rows.loc[5, column] = value
    rows.to_parquet("shards/part-1.parquet")
    with pytest.raises(InputError, match=rf"part-1.parquet, column {column}, row 5"):
        count(path)


def test_a_shard_with_rows_without_a_score_is_refused_with_what_can_be_done(home):
    path = write_shards(home)
    rows = frame(1)
    rows["old"] = rows["old"].astype(object).where(rows.index != 5, None)
    rows.to_parquet("shards/part-1.parquet")
    with pytest.raises(InputError, match=r"row 5, .* have none\. Score them, or") as caught:
        count(path)
    assert "allow_missing" not in str(caught.value)


def test_more_rows_than_add_up_are_refused_by_their_shards(home, monkeypatch):
    path = write_shards(home)
    monkeypatch.setattr("bias_metrics.binned.bin_counts.MOST_ROWS", 2 * N)
    with pytest.raises(InputError, match=r"'part-0.parquet' and of 'part-2.parquet' do not add up"):
        count(path)


def test_a_shard_without_rated_rows_or_column_is_named(home):
    path = write_shards(home)
    frame(1).assign(gay=np.nan).to_parquet("shards/part-1.parquet")
    with pytest.raises(
        InputError, match=r"none of its 3000 rows can be measured: no values of 'gay'"
    ):
        count(path)
    frame(1).drop(columns="old").to_parquet("shards/part-1.parquet")
    with pytest.raises(InputError, match=r"part-1.parquet must have the column 'old'"):
        count(path)


@pytest.mark.parametrize("role", ["candidate", "champion"])
def test_a_threshold_beyond_all_probabilities_is_refused(home, role):
    path = write_shards(home, **{role: FILE[role] | {"threshold": 50}})
    with pytest.raises(InputError, match=r"on the scale of its scores; it is 50, and they go from"):
        judge(path)
    assert not Path("out/verdict.json").exists()


@pytest.mark.parametrize(
    ("threshold", "flags"), [(0.999, "hardly any comment"), (0, "nearly every comment")]
)
def test_a_threshold_that_parts_no_comments_is_not_enough(home, threshold, flags):
    verdict = judge(write_shards(home, candidate=FILE["candidate"] | {"threshold": threshold}))
    useless = verdict.results[0]
    assert (useless.rule, useless.outcome, useless.is_counted) == ("useful", "insufficient", True)
    assert f"the model flags {flags}: " in describe_check(useless)
    assert verdict.outcome != "pass"


def test_frequencies_count_as_repeated_rows(home):
    path = write_shards(home, weight="times", weight_kind="frequency", path="shards/*.csv")
    frame(0).assign(times=2).to_csv("shards/a.csv", index=False)
    total, *_ = count(path)
    assert total.counts["candidate"].n == 2 * (N - 10)
    assert total.record.shards[0].n_measured == N - 10


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"cluster": "id"}, "`cluster` must not be set: .* as `source: table`"),
        ({"slices": ["gay"]}, "`slices` must not be set"),
        ({"slices_in": ["gay"]}, "`slices_in` must not be set"),
        ({"sample": 500}, "`sample` must not be set: all rows of the shards are counted"),
        ({"required": False}, "`required` must not be set"),
        ({"population": "these_rows"}, "`population` must not be set: counts must come from"),
        ({"weight": "id"}, "must have `weight_kind: frequency`"),
        ({"path": "none/*.parquet"}, "`path` must name files"),
        ({"candidate": {"name": "next", "score": "new"}}, "need the `threshold` that"),
    ],
)
def test_what_cannot_be_counted_is_refused_before_any_work(home, changes, rule):
    with pytest.raises(InputError, match=rule):
        read_count_file(write_shards(home, **changes))


EFFECTS = {  # by key: the file without it, and its value
    "name": ({}, "other"),
    "source": ({}, "table"),
    "path": ({}, "shards/*.csv"),
    "separator": ({"path": "shards/*.csv"}, ";"),
    "decimal": ({"path": "shards/*.csv"}, ","),
    "encoding": ({"path": "shards/*.csv", "split": "test", "text": "comment_text"}, "latin-1"),
    "split": ({}, "test"),
    "test_fraction": ({"split": "test"}, 0.7),
    "id": ({"split": "test"}, "key"),
    "label": ({}, ["toxicity", "gay"]),
    "label_values": ({}, {"0.0": 1, "0.6": 0}),
    "label_threshold": ({}, 0.7),
    "text": ({"split": "test"}, "comment_text"),
    "terms": ({"text": "comment_text"}, ["alpha"]),
    "matching": ({"text": "comment_text", "terms": ["alpha", "alpha beta"]}, "overlap"),
    "identities": ({}, ["gay"]),
    "identity_threshold": ({}, 0.9),
    "identity_rows": ({}, "all"),
    "background": ({}, "no_identity"),
    "power_mean_groups": ({}, ["gay"]),
    "weight": ({"weight_kind": "frequency"}, "times"),
    "weight_kind": ({"weight": "times"}, "frequency"),
    "manifest": ({}, "sums.txt"),
    "candidate": ({}, {"name": "next", "score": "old", "threshold": 0.5}),
    "champion": ({"champion": None}, FILE["champion"]),
    "reference": ({}, FILE["champion"]),
    "earlier": ({}, "none.counts"),
    "policy": ({}, "report-only"),
    "bits": ({}, 11),
}


def test_each_key_has_an_effect_or_is_refused(home):
    assert set(EFFECTS) | set(CountFile.refused) == set(CountFile.model_fields)
    assert set(json_schema(CountFile)["properties"]) == set(EFFECTS)
    write_shards(home, n_shards=1)
    rng = np.random.default_rng(7)
    rows = frame(0).assign(key=[f"k{at}" for at in range(N)], times=rng.integers(1, 4, N))
    rows["gay"] *= rng.choice([0.6, 1.0], N)
    rows["toxicity"] += rng.choice([0.0, 0.2], N)
    rows["comment_text"] = rng.choice(["alpha", "bêta", "alpha beta"], N)
    rows.to_parquet("shards/part-0.parquet")
    rows[:2000].to_csv("shards/part-0.csv", index=False)

    def result(**changes):
        """Return the decision and its numbers, or the error."""
        try:
            verdict = judge(write_file(home, **changes))
        except InputError as error:
            return str(error)
        bias = json.loads((home / "out/report.json").read_text())["bias"]
        rivals = [rival and rival.name for rival in (verdict.champion, verdict.reference)]
        names = verdict.evaluation_set.name, verdict.candidate.name, *rivals, verdict.policy.name
        return names, verdict.results, verdict.counts, bias

    for key, (others, value) in EFFECTS.items():
        assert result(**others | {key: value}) != result(**others), key


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"max_missing": 0.1}, "must not have `max_missing`"),
        ({"max_truncated": 0.1}, "must not have `max_truncated`"),
        ({"rules": [{"metric": "auc", "scope": "overall", "floor": 0.6, "slice": "a"}]}, "a slice"),
        (
            {"rules": [{"metric": "auc", "scope": "overall", "reference_margin": 0.1}]},
            "`reference` is not set",
        ),
        (
            {"rules": [{"metric": "bpsn_auc", "scope": ["gya"], "floor": 0.5}]},
            "got 'gya'",
        ),
    ],
)
def test_a_policy_that_counts_cannot_answer_is_refused(home, change, rule):
    path = write_shards(home)
    (home / "own.yaml").write_text(yaml.safe_dump(POLICY | change))
    with pytest.raises(InputError, match=rule):
        read_count_file(path)


def test_a_set_of_one_class_is_refused(home):
    path = write_shards(home, label_threshold=0.9)
    with pytest.raises(InputError, match=r"must have both classes; its 8970 measured rows have no"):
        judge(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"nothing",
        lambda data: data[:-100],
        lambda data: data.replace(b'"n_counted": 2990', b'"n_counted": 2991'),
    ],
)
def test_other_files_of_counts_are_refused(home, change):
    settings, _ = read_count_file(write_shards(home))
    data = count_scores(settings, Path(settings.list_shards()[0])).to_bytes()
    with pytest.raises(InputError, match="file x must"):
        Counted.from_bytes(change(data), "file x")


def test_counts_that_are_no_longer_whole_are_a_finding_of_verify(home):
    judge(write_shards(home))
    whole = verify_counts(Path("out"))
    assert all(line.holds for line in whole)
    assert any("are the sum of the counts of" in line.sentence and line.checked for line in whole)
    path = home / "out/evidence.counts"
    path.write_bytes(path.read_bytes()[:-100])
    [finding] = verify_counts(Path("out"))
    assert not finding.holds
    assert "evidence.counts must be counts of scores as biasgate writes them" in finding.sentence


def unsigned(world, monkeypatch):
    with monkeypatch.context() as patch:
        patch.delenv("BIASGATE_PRIVATE_KEY")
        patch.setenv("BIASGATE_TRUSTED_KEYS", str(world / "nobody"))
        trust(patch, world / "nobody")
        judge(Path("chats.yaml"))


def test_where_a_key_is_trusted_a_verdict_on_counts_must_be_signed(home, monkeypatch):
    path = write_shards(home)
    key = signing_key(monkeypatch, home / "secret")
    trust(monkeypatch, home / "trusted", evaluations=key)
    judge(path)
    findings = verify_counts(Path("out"))
    assert all(finding.holds for finding in findings)
    [signature] = [finding for finding in findings if finding.what == "signature"]
    assert signature.checked
    assert "signed with the trusted key 'evaluations'" in signature.sentence

    attestation = Path("out/attestation.json")
    original = attestation.read_bytes()
    unsigned(home, monkeypatch)  # the same verdict, of somebody without the key
    assert {finding.what for finding in verify_counts(Path("out")) if not finding.holds} == {
        "signature"
    }
    attestation.write_bytes(original)
    assert all(finding.holds for finding in verify_counts(Path("out")))
    lenient = POLICY | {"rules": POLICY["rules"][:1]}
    Path("own.yaml").write_text(yaml.safe_dump(lenient))
    unsigned(home, monkeypatch)  # another verdict, beside an attestation of the first
    attestation.write_bytes(original)
    assert {finding.what for finding in verify_counts(Path("out")) if not finding.holds} == {
        "attestation"
    }
    attestation.unlink()
    [gone] = verify_counts(Path("out"))
    assert (gone.holds, "attestation.json in chats must exist" in gone.sentence) == (False, True)


def test_where_no_key_is_trusted_counts_may_be_without_an_attestation(home, monkeypatch):
    monkeypatch.delenv("BIASGATE_PRIVATE_KEY", raising=False)
    judge(write_shards(home))
    Path("out/attestation.json").unlink()
    findings = verify_counts(Path("out"))
    assert all(finding.holds for finding in findings)
    [signature] = [finding for finding in findings if finding.what == "signature"]
    assert (signature.checked, "is not signed. Anyone with write access" in signature.sentence) == (
        False,
        True,
    )


def test_counts_of_shards_that_are_gone_are_counted_and_not_added_again(home):
    judge(write_shards(home))
    first, *others = (home / "out/counts").iterdir()
    for path in others:
        path.unlink()
    [unchecked] = [
        finding for finding in verify_counts(Path("out")) if "not checked" in finding.sentence
    ]
    assert f" of {N_SHARDS - 1} of {N_SHARDS} shards of " in unchecked.sentence
    assert unchecked.holds
    assert not unchecked.checked
    first.unlink()
    assert all(finding.holds for finding in verify_counts(Path("out")))


def test_a_folder_without_counts_is_not_verified(tmp_path):
    with pytest.raises(InputError, match="must be a folder of counts; it has no"):
        verify_counts(tmp_path)


def test_counts_of_a_shard_are_no_evidence(home):
    settings, _ = read_count_file(write_shards(home))
    (home / "a").write_bytes(count_scores(settings, Path(settings.list_shards()[0])).to_bytes())
    with pytest.raises(InputError, match="must be the evidence of a verdict"):
        _ = CountedEvidence(home / "a").record
    assert pd.read_parquet("shards/part-0.parquet").shape[0] == N


def test_the_count_file_of_the_guide_is_one():
    guide = Path(__file__).parents[3] / "docs/guides/evaluation-files.md"
    block = guide.read_text("utf-8").partition("# chats.yaml\n")[2].partition("```")[0]
    settings = CountFile.model_validate(yaml.safe_load(block))
    assert list(settings.models) == ["candidate", "champion"]
