"""The simulation of policies: its populations, its file of draws, its counts."""

import json

import numpy as np
import pytest

pytest.importorskip("pandas")
populations = pytest.importorskip("benchmarks.gate_sizes.populations")
command = pytest.importorskip("benchmarks.gate_sizes.__main__")
page = pytest.importorskip("benchmarks.gate_sizes.page")

from bias_metrics import evaluate_bias  # noqa: E402

SMALL = populations.PSYCHIATRIC
LINE = populations.Line("no-worse", populations.EQUAL, 9, 1_500)


def made_rows(n=4_000):
    """Rows as those of the real file, with two identities that differ in their scores."""
    rng = np.random.default_rng(1)
    labels = rng.random(n) < 0.3
    members = {populations.GAY: rng.random(n) < 0.3, SMALL: rng.random(n) < 0.1}
    return labels, members, rng.normal(1.5 * labels + 0.4 * members[SMALL], 0.9)


@pytest.fixture(autouse=True)
def rows(monkeypatch):
    made = made_rows()
    monkeypatch.setattr(populations, "load_rows", lambda: made)
    populations._list_scores.cache_clear()
    populations.find_shifts.cache_clear()
    yield made
    populations._list_scores.cache_clear()
    populations.find_shifts.cache_clear()


@pytest.mark.parametrize(
    "situation", list(populations.iter_losses(SMALL))[::2], ids=lambda one: one.name
)
def test_a_planted_loss_is_the_loss_of_the_number_over_many_rows(situation):
    line = populations.Line("no-worse", situation, 9, 60_000)
    drawn = populations.draw_rows(line, np.random.default_rng(2))
    first, second = (
        evaluate_bias(drawn.labels, drawn.scores[role], drawn.members, intervals=False)[
            situation.metric, SMALL
        ].value
        for role in ("candidate", "champion")
    )
    grows = first > 0  # a gap that is above 0, or at 0, grows upwards
    gap = situation.metric.endswith("_aeg")
    loss = first - second if gap and grows else second - first
    assert loss == pytest.approx(situation.loss, abs=0.015)


def test_equal_models_have_a_correlation_of_nine_tenths_and_one_auc():
    drawn = populations.draw_rows(LINE._replace(n_rows=50_000), np.random.default_rng(3))
    a, b = drawn.scores.values()
    aucs = [evaluate_bias(drawn.labels, one, {}).overall.auc for one in (a, b)]
    assert aucs[0].value == pytest.approx(aucs[1].value, abs=0.005)
    for rows in (drawn.labels, ~drawn.labels):
        assert np.corrcoef(a[rows], b[rows])[0, 1] == pytest.approx(0.9, abs=0.01)


def test_twelve_comments_are_twelve_and_of_both_classes():
    line = LINE._replace(situation=populations.FEW)
    drawn = populations.draw_rows(line, np.random.default_rng(4))
    inside = drawn.members["buddhist"]
    assert (inside.sum(), (inside & drawn.labels).sum()) == (12, 4)


def test_a_killed_run_goes_on_and_ends_with_the_same_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "iter_lines", lambda *_: [LINE])
    asked = ["--sizes", "1500", "--identities", "9", "--draws"]
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    command.main([*asked, "3", "--kept", str(whole)])
    command.main([*asked, "2", "--kept", str(killed)])
    text = killed.read_text()
    killed.write_text(text[:-20])  # in the middle of the second draw
    command.main([*asked, "3", "--kept", str(killed)])
    assert killed.read_text() == whole.read_text()
    assert [json.loads(one)["draw"] for one in whole.read_text().splitlines()] == [0, 1, 2]


def test_draws_under_rules_that_have_changed_are_not_used(tmp_path):
    kept = tmp_path / "kept.jsonl"
    kept.write_text(json.dumps({"line": LINE.key, "rules": "others", "draw": 0}) + "\n")
    assert command.Kept(kept).draws == {}


def drawn(outcome="pass", against=(), alone=(), worse=()):
    return {
        "outcome": outcome,
        "excepted": bool(alone),
        "named": sorted({check[1] for check in alone}),
        "against": list(against),
        "alone": list(alone),
        "worse": list(worse),
    }


def test_the_counts_of_a_line():
    few = ["bpsn_auc", "hindu", "religion", None, 1]
    rule = ["bpsn_auc/each", "gay", "insufficient"]
    draws = {
        LINE.key: [
            drawn(),
            drawn(alone=[few], worse=[["bpsn_auc", "hindu", 0.1, 3]]),
            drawn("insufficient", [rule, ["bpsn_auc/each", "white", "insufficient"]]),
        ]
    }
    found = page.summarise_draws(LINE, draws)
    assert found["outcomes"] == {"pass": 1, "pass, except": 1, "insufficient": 1}
    assert found["blocked"] == {"bpsn_auc/each: insufficient": 1}
    assert (found["shown"]["any"], found["shown"]["any of 4 rows"]) == (1, 0)
    assert page.format_outcomes(found) == "33 / 33 / 0 / 33"
    assert page.format_blocked(found) == "bpsn_auc/each: insufficient 33"


def test_a_table_has_a_column_for_each_size():
    larger = LINE._replace(n_rows=5_000)
    draws = {LINE.key: [drawn()], larger.key: [drawn("fail")] * 3}
    summaries = [page.summarise_draws(line, draws) for line in (LINE, larger)]
    head, row = page.make_table(summaries, page.format_outcomes)
    found = dict(zip(head, row, strict=True))
    assert (found["1500"], found["5000"]) == ("100 / 0 / 0 / 0", "0 / 0 / 100 / 0")
    assert found["samples"] == "1 to 3"


def test_a_bound_below_the_planted_loss_is_counted_by_its_rows():
    [situation, *_] = populations.iter_losses("hindu")
    line = LINE._replace(situation=situation)
    alone = [["subgroup_auc", "hindu", "religion", loss, n] for loss, n in ((0.04, 3), (0.06, 9))]
    found = page.summarise_draws(line, {line.key: [drawn(alone=[one]) for one in alone]})
    assert found["unnamed"] == 0
    unnamed = page.summarise_draws(line, {line.key: [drawn(), drawn(alone=alone[:1])]})
    assert unnamed["unnamed"] == 1
    assert found["missed"] == {"2 to 3": [1, 1], "4 to 9": [1, 0], "10 and more": [0, 0]}


def test_each_table_is_a_file(tmp_path):
    results = tmp_path / "found.json"
    found = page.summarise_draws(LINE, {LINE.key: [drawn()]})
    for _ in range(2):
        command.write([found], results=results, folder=tmp_path / "tables")
    outcomes = (tmp_path / "tables" / "outcomes.csv").read_text()
    assert outcomes == (
        "scores,policy,candidate,identities,1500,samples,+-,required\n"
        "real,no-worse,equal,9,100 / 0 / 0 / 0,1,94,\n"
    )
    written = {path.stem for path in (tmp_path / "tables").iterdir()}
    assert written == {"outcomes", "blocking", "shown", "missed"}
    assert json.loads(results.read_text())[0]["draws"] == 1
