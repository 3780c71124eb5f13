"""A report names a thread with a large influence on a number."""

import json
from pathlib import Path

import pandas as pd
import pytest
from support.evaluations import change, evaluate, write_inputs

pytestmark = pytest.mark.evaluates


def test_a_thread_with_half_of_an_identitys_comments_is_named(
    prefect_server, tmp_path, monkeypatch
):
    del prefect_server
    monkeypatch.chdir(write_inputs(tmp_path))
    rows = pd.read_csv("rows.csv")
    about = rows["gay"] == 1
    rows["thread"] = [f"t{row // 2}" for row in range(len(rows))]
    rows.loc[about & (about.cumsum() <= about.sum() // 2), "thread"] = "quarrel"
    rows.to_csv("rows.csv", index=False)
    change("file.yaml", "text: text", "text: text\n    cluster: thread")
    code, printed = evaluate()
    assert code == 0, printed
    [warning] = json.loads(Path("out/rows/file/verdict.json").read_text())["reservations"]
    for kind, label in (("harmless", 0), ("toxic", 1)):
        of_class = rows["thread"][about & (rows["label"] == label)] == "quarrel"
        share = f"one cluster has {of_class.mean():.0%} ({of_class.sum()} rows)"
        assert f"of the {kind} comments about gay, {share}" in warning
    for place in ("out/report.html", "out/junit.xml"):  # beside the outcome
        assert "Some numbers depend heavily on one cluster" in Path(place).read_text("utf-8")
