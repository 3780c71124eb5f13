"""Every guard as a candidate of one evaluation: what each refuses is counted by identity."""

import json
from contextlib import ExitStack

import pytest
import yaml
from support.guards import FAMILIES, GuardServer
from support.services import KEY, serving
from typer.testing import CliRunner

from biasgate.cli import app

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server")]
NAMES = ["gay", "muslim", "deaf", "old"]
SIZE = 500
WITHOUT_TEMPLATE = {"cope", "wildguard"}
POLICY = """
version: 1
name: own
max_missing: {overall: 0.2, each: 0.3, mode: estimate}
rules: [{metric: auc, scope: overall, floor: 0.01, mode: estimate}]
"""


def word(number):
    """Twice in twenty a comment is refused, each time one that names the first identity."""
    if number % 20 in {0, 8}:
        return "REFUSE"
    return "EVADE" if number % 25 == 3 else ""


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guards")
    rows = [
        f"c{n},{NAMES[n % 4]} people number {n} {word(n)},{int(n % 3 == 0)}" for n in range(SIZE)
    ]
    (folder / "comments.csv").write_text("\n".join(["id,comment,toxic", *rows]))
    (folder / "own.yaml").write_text(POLICY)
    comments = {"name": "comments", "source": "table", "path": "comments.csv", "terms": NAMES}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.chdir(folder)
        patch.setenv("SERVICE_KEY", KEY)
        candidates = []
        for family in FAMILIES:
            shape = "openai-completions" if family in WITHOUT_TEMPLATE else "openai-chat"
            server = stack.enter_context(serving((shape, family), GuardServer))
            candidates.append(server.candidate(name=family))
        evaluation = {
            "name": "guards",
            "evaluation_sets": [comments | {"text": "comment", "label": "toxic"}],
            "candidates": candidates,
            "policy": "own.yaml",
        }
        (folder / "guards.yaml").write_text(yaml.safe_dump(evaluation))
        done = CliRunner().invoke(
            app, ["evaluate", "guards.yaml", "--output", "out", "--store", "store"]
        )
        assert done.exit_code == 3, done.output
    return folder / "out" / "comments"


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_guard_refuses_is_counted_and_judged_by_identity(judged, family):
    missing = json.loads((judged / family / "report.json").read_text("utf-8"))["missing"]
    words = [word(n) for n in range(SIZE)]
    assert missing["reasons"] == {
        "no_answer": words.count("EVADE"),
        "refused": words.count("REFUSE"),
    }
    counted = {name: one["n_missing"] for name, one in missing["subgroups"].items()}
    assert counted == {
        name: sum(words[n] != "" for n in range(at, SIZE, 4)) for at, name in enumerate(NAMES)
    }
    verdict = json.loads((judged / family / "verdict.json").read_text("utf-8"))
    failed = [
        (one["metric"], one["group"]) for one in verdict["results"] if one["outcome"] == "fail"
    ]
    assert failed == [("missing_rate", "gay")]
