"""The guide's commands in order, with a local server in place of Perspective."""

import json
import logging
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.blocks import blocks_of
from support.services import KEY, perspective_error, serving
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.scoring.kinds import http_requests

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "replacing-perspective.md"
HOST = "sends_text_to: commentanalyzer.googleapis.com"
TERMS = ["gay", "muslim", "deaf"]


def invented(real_data):
    """Comments whose identities move the successor's scores, and Perspective's less."""
    del real_data
    rng = np.random.default_rng(0)
    toxic, identity = rng.random(3000) < 0.4, rng.integers(0, 4, 3000)
    words = np.array([*TERMS, "kind"])[identity]
    text = [f"a {word} person number {at}" for at, word in enumerate(words)]
    before = np.clip(rng.normal(0.35 + 0.35 * toxic, 0.15), 0, 1)
    after = np.clip(rng.normal(0.2 + 0.4 * toxic + 0.03 * (identity == 0), 0.12), 0, 1)
    return pd.DataFrame({"comment": text, "toxic": toxic * 1, "before": before, "after": after})


def real(real_data):
    """Phrases with the scores of two of Perspective's own models."""
    rows = pd.read_parquet(real_data() / "perspective_templates.parquet")
    rows = rows.drop_duplicates("phrase")
    named = rows["phrase"].str.contains(r"\b(?:gay|muslim|deaf)\b")
    rows = pd.concat([rows[named], rows[~named].sample(1500, random_state=0)])
    toxic = (rows["toxicity"] == "toxic") * 1
    known = {"comment": rows["phrase"], "toxic": toxic}
    return pd.DataFrame(known | {"before": rows["TOXICITY@1"], "after": rows["TOXICITY@6"]})


def write_inputs(rows, folder):
    """Write the labelled comments and the successor's scores; return the scores before it."""
    rows = rows.sample(frac=0.5, random_state=0).reset_index(drop=True)
    rows.insert(0, "id", [f"c{at}" for at in range(len(rows))])
    rows[["id", "comment", "toxic"]].to_csv(folder / "labelled.csv", index=False)
    scores = rows[["id", "after"]].rename(columns={"after": "prediction"})
    scores.to_csv(folder / "successor_labelled.csv", index=False)
    return dict(zip(rows["comment"], rows["before"], strict=True))


def run_page(service, done):
    """Save the files and run the commands of the page; note how each ended."""
    for block in blocks_of(PAGE):
        if block.not_run is not None:
            continue
        if block.language == "yaml":
            name = yaml.safe_load(block.content).get("name")
            if name is None:  # a part, which test_successors.py runs
                continue
            here = f"url: {service.url}\n{{indent}}requests_per_second: 1000000\n{{indent}}"
            lines = []
            for line in block.content.splitlines():
                indent = line[: len(line) - len(line.lstrip())]
                lines.append(
                    line.replace(HOST, here.format(indent=indent) + "token_env: SERVICE_KEY")
                )
            Path(f"{name}.yaml").write_text("\n".join(lines), "utf-8")
            continue
        for line in block.content.splitlines():
            program, *arguments = shlex.split(line)
            if program == "cp":
                shutil.copy(*arguments)
                continue
            assert program == "biasgate"
            result = CliRunner().invoke(app, arguments)
            done[line] = result.exit_code, result.output + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("rows_of", [invented, real])
def test_the_guide_runs_from_the_first_command_to_the_last(
    rows_of, request, tmp_path, monkeypatch, prefect_server
):
    del prefect_server
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SERVICE_KEY", KEY)
    monkeypatch.setattr(http_requests, "WAIT_S", 0.001)
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    scores = write_inputs(rows_of(lambda: request.getfixturevalue("real_data")), tmp_path)
    refused = list(scores)[:3]

    def answer(call):
        text = call.json["comment"]["text"]
        if text in refused:
            raise perspective_error("LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE")
        value = {"value": float(scores[text]), "type": "PROBABILITY"}
        return {"attributeScores": {"TOXICITY": {"summaryScore": value}}, "languages": ["en"]}

    done = {}
    with serving("perspective") as service:
        service.answer = answer
        run_page(service, done)
    for line, (code, text) in done.items():
        judged = "judge_successor" in line or "january" in line
        assert code in ({0, 3, 4} if judged else {0}), f"{line}\n{text}"
    january = json.loads(Path("january/labelled/successor/report.json").read_text("utf-8"))
    moved = january["analyses"]["threshold_transfer"]["result"]
    assert abs(moved["rate_after"] - moved["rate_before"]) < 0.01
    columns = pd.read_parquet("january/labelled/successor/evidence.parquet").columns
    assert "score/champion" in columns
    kept = pd.read_csv("perspective_labelled.csv")
    labelled = pd.read_csv("labelled.csv")
    assert kept["id"].tolist() == labelled["id"].tolist()
    assert kept["prediction"].isna().sum() == labelled["comment"].isin(refused).sum() == 3
    report = json.loads(Path("judged/labelled/successor/report.json").read_text("utf-8"))
    moved = report["analyses"]["threshold_transfer"]["result"]
    assert moved["before"] == 0.7
    assert abs(moved["rate_after"] - moved["rate_before"]) < 0.01


def test_the_file_has_fifteen_lines():
    first = next(block for block in blocks_of(PAGE) if block.language == "yaml")
    assert len(first.content.splitlines()) <= 15
