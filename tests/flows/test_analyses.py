"""Analyses of an evaluation file, from the command to `verify`."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
import yaml
from support.evaluations import COMMENT, FILE, run, write_inputs
from support.records import check_records

from biasgate.tasks.common.markdown import escape_markdown
from biasgate.tasks.mlflow_server.runs import Gateway

pytestmark = pytest.mark.slow

LABELS = [0.0, 0.4, 0.6, 1.0]
ASKED = ["intersections", {"kind": "topic", "bands": 2}]


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """A folder with results of the same evaluation with and without analyses."""
    del prefect_server
    folder = write_inputs(tmp_path_factory.mktemp("analyses"))
    rows = pd.read_csv(folder / "rows.csv")
    at = np.arange(len(rows))
    rows["deaf"] = at // 2 % 2
    rows["label"] = np.array(LABELS)[at % 2 + 2 * rows["label"]]
    rows.to_csv(folder / "rows.csv", index=False)
    content = yaml.safe_load(FILE)
    content["evaluation_sets"][0] |= {"identities": ["gay", "deaf"]}
    (folder / "plain.yaml").write_text(yaml.safe_dump(content))
    (folder / "asked.yaml").write_text(yaml.safe_dump(content | {"analyses": ASKED}))
    slices = {"kind": "slices", "sets": ["rows"]}
    (folder / "refused.yaml").write_text(yaml.safe_dump(content | {"analyses": [slices]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
            patch.setattr(logging.getLogger(name), "disabled", True)
        yield (
            folder,
            {
                name: run("evaluate", f"{name}.yaml", "--output", name, "--store", "store")
                for name in ("plain", "asked", "refused")
            },
        )


def read(home, name, file="report.json"):
    return (home[0] / name / "rows" / "file" / file).read_text("utf-8")


def test_a_report_has_what_was_asked_for_and_is_otherwise_the_same(home):
    folder, done = home
    assert (done["plain"][0], done["asked"][0]) == (0, 0), done
    plain, asked = (json.loads(read(home, name)) for name in ("plain", "asked"))
    assert "analyses" not in plain
    assert not (folder / "plain" / "rows" / "file" / "analyses").exists()
    analyses = asked.pop("analyses")
    assert asked == plain
    assert list(analyses) == [
        analysis if isinstance(analysis, str) else analysis["kind"] for analysis in ASKED
    ]
    assert list(analyses["intersections"]["result"]["subgroups"]) == ["gay & deaf"]
    assert analyses["topic"]["options"]["bands"] == 2


def test_what_was_found_stands_on_the_terminal_and_in_the_model_card(home):
    code, done = run("show", str(home[0] / "asked"), "--all")
    assert code == 0
    report = json.loads(read(home, "asked"))
    sentences = [text for analysis in report["analyses"].values() for text in analysis["sentences"]]
    card = read(home, "asked", "model_card.md")
    assert len(sentences) == 2
    assert "## Further analyses" in card
    for sentence in sentences:
        assert " ".join(sentence.split()) in done
        assert f"- {escape_markdown(sentence)}" in card
    assert "are measured, not dialect or irony." in card
    plain = read(home, "plain", "model_card.md")
    assert "Further analyses" not in plain
    assert "are measured, not dialect, irony or intersections." in plain


def test_each_analysis_has_a_table_that_is_an_artifact_of_the_run_too(home):
    folder, _ = home
    kinds = json.loads(read(home, "asked"))["analyses"]
    tables = sorted((folder / "asked" / "rows" / "file" / "analyses").iterdir())
    assert [path.name for path in tables] == sorted(f"{kind}.csv" for kind in kinds)
    summary = json.loads((folder / "asked" / "summary.json").read_text())
    gateway = Gateway.from_store(folder / "store")
    with gateway.open_run_files(summary["verdicts"][0]["run_id"]) as found:
        kept = found  # a folder of the store
    for table in tables:
        assert (kept / "analyses" / table.name).read_bytes() == table.read_bytes()
        assert len(table.read_text().splitlines()) > 1


def test_no_file_holds_a_comment(home):
    for path in (home[0] / "asked").rglob("*"):
        if path.suffix in {".json", ".csv", ".md", ".xml"}:
            assert f"{COMMENT} " not in path.read_text("utf-8")


def test_such_a_report_has_the_keys_of_its_type(home):
    assert "report.json" in check_records(home[0] / "asked")


@pytest.mark.usefixtures("home")
def test_a_verdict_on_such_a_report_is_verified():
    code, printed = run("verify", "toxicity", "--store", "store")
    assert code == 0, printed
    assert "DOES NOT HOLD" not in printed


def test_an_analysis_that_a_set_does_not_allow_is_refused_before_anything_is_scored(home):
    folder, done = home
    code, printed = done["refused"]
    assert code == 2
    assert "evaluation set 'rows' must have `slices` or `slices_in`" in printed
    assert "scoring" not in printed
    assert not (folder / "refused").exists()
