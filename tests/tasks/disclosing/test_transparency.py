"""Rows of Part 8 and text of Part 11, recomputed by scikit-learn, and refused input."""

import csv
import json
import re
import shutil

import numpy as np
import pytest
import yaml
from support.evaluations import run
from support.filed import FILING, THRESHOLDS, judge_site, verdict_of

from biasgate.tasks.disclosing.filing import OFFICIAL_LANGUAGES

metrics = pytest.importorskip("sklearn.metrics")

FORM = "Applicability,Service,Reporting period,Section,Indicator,Scope,Value,Contextual Information"
ASKED = {
    "Accuracy": metrics.accuracy_score,
    "Precision": metrics.precision_score,
    "Recall": metrics.recall_score,
}
PARTS = {"Total number": None, "de": "german", "fr": "french"}


def read_rows(folder, name="part8.csv"):
    with (folder / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def read_text(folder):
    return " ".join((folder / "part11.md").read_text("utf-8").split())


def test_every_row_has_the_columns_of_the_form_and_the_number_of_scikit_learn(filed, site):
    code, text, folder = filed()
    assert code == 0, text
    assert (folder / "part8.csv").read_text("utf-8").splitlines()[0] == FORM
    rows = read_rows(folder)
    expected = {}
    for name, threshold in THRESHOLDS.items():
        for scope, part in PARTS.items():
            kept = site if part is None else site[site[part]]
            decided = kept["label"], (kept[name] >= threshold).astype(int)
            for which, metric in ASKED.items():
                expected[name, scope, which] = f"{metric(*decided):.4f}"
    found = {
        (
            row["Contextual Information"].split()[1],
            row["Scope"],
            row["Indicator"].removeprefix("Accuracy of the automated means - "),
        ): row["Value"]
        for row in rows
    }
    assert found == expected
    assert len(rows) == len(found) == 2 * 3 * 3
    assert {row["Service"] for row in rows} == {"Example Board"}
    assert {row["Reporting period"] for row in rows} == {"2026-07-01/2026-12-31"}
    applies = {row["Scope"]: row["Applicability"] for row in rows}
    assert applies == {"Total number": "All", "de": "Only for VLOPs", "fr": "Only for VLOPs"}


def test_the_context_has_interval_n_sampling_and_digests(filed, results):
    _, _, folder = filed()
    context = read_rows(folder)[0]["Contextual Information"]
    for words in (
        "95% interval 0.7",
        "n = 2,000 labelled comments",
        "Sampling (random sample): Every 400th comment of the period",
        "Population: All comments",
        "Labels: Two moderators",
        f"Evidence SHA-256 {verdict_of(results, 'first')['evidence_digest']}",
    ):
        assert words in context


def test_all_labelled_rows_count_also_those_whose_identities_nobody_rated(filed, site, tmp_path):
    rated = np.arange(len(site)) % 10 < 7
    # Other than the rated rows, the rest is flagged wrongly more often.
    site = site.assign(rated=rated, first=np.where(rated, site["first"], 1 - site["first"]))
    folder = judge_site(tmp_path / "out", site)
    code, text, output = filed(folder)
    assert code == 0, text
    content = json.loads((output / "transparency.json").read_text("utf-8"))
    found = content["classifiers"]["first"]
    toxic, flagged = site["label"], site["first"] >= 0.5
    right = int((toxic & flagged).sum())
    overall = found["indicators"]["overall"]
    assert (overall["n"], overall["n_flagged"]) == (len(site), int(flagged.sum()))
    assert overall["shares"]["precision"]["value"] == right / int(flagged.sum())
    assert overall["shares"]["recall"]["value"] == right / int(toxic.sum())
    german = site["german"]
    of_slice = found["slices"]["german"]
    assert of_slice["n"] == int(german.sum())
    recall = int((toxic & flagged & german).sum()) / int((toxic & german).sum())
    assert of_slice["shares"]["recall"]["value"] == recall
    gay = site["gay"] & rated
    of_gay = found["indicators"]["subgroups"]["gay"]
    assert of_gay["n"] == int(gay.sum())
    precision = int((toxic & flagged & gay).sum()) / int((flagged & gay).sum())
    assert of_gay["shares"]["precision"]["value"] == precision
    assert found["n_unrated"] == 600
    sentence = "600 comments are not counted by identity, since their identities were not rated."
    assert sentence in read_rows(output)[0]["Contextual Information"]
    code, text = run("verify", folder)
    assert code == 0, text


def test_the_text_has_all_rates_by_identity_as_scikit_learn_computes_them(filed, site):
    _, _, folder = filed()
    text = (folder / "part11.md").read_text("utf-8")
    part = text.split("## second")[1]
    [line] = [line for line in part.splitlines() if line.startswith("| gay |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    gay = site[site["gay"] == 1]
    y_true, y_pred = gay["label"] == 1, gay["second"] >= 0.4
    recall, precision = metrics.recall_score, metrics.precision_score
    rates = [
        recall(y_true, y_pred),
        recall(~y_true, ~y_pred),
        precision(y_true, y_pred),
        precision(~y_true, ~y_pred),
    ]
    rates += [1 - rate for rate in (rates[0], rates[1], rates[2], rates[3])]
    assert cells[1:3] == [f"{len(gay):,}", f"{y_true.sum():,}"]
    assert [cell.split(" ")[0] for cell in cells[3:]] == [f"{100 * rate:.1f}" for rate in rates]
    assert all(cell.count("[") == 1 for cell in cells[3:])


def test_a_shown_difference_is_said_in_words_and_the_others_are_not_called_absent(filed):
    _, _, folder = filed()
    text = (folder / "part11.md").read_text("utf-8")
    first, second = text.split("## first")[1].split("## second")
    assert "Non-toxic comments that mention gay are flagged more often" in second
    assert "Non-toxic comments that mention gay are flagged more often" not in first
    assert "10 differences. The list has the differences whose interval excludes 0" in second
    assert "does not prove that they are 0" in " ".join(first.split())


def test_the_text_says_what_was_not_measured_and_that_it_is_no_legal_advice(filed):
    _, printed, folder = filed()
    text = read_text(folder)
    assert "not legal advice" in printed
    for words in (
        "not legal advice",
        "- Images and audio",
        "ar: not among the official languages of the Union",
        "Intersections of identities",
        "the authors of the comments",
    ):
        assert words in text
    without = [code for code in OFFICIAL_LANGUAGES if code not in {"de", "fr"}]
    assert f"Official languages without a sample: {', '.join(without)}." in text
    assert len(OFFICIAL_LANGUAGES) == 24


def test_a_test_suite_is_written_under_a_name_that_nobody_files(filed):
    sampling = FILING["sampling"] | {"kind": "constructed"}
    code, text, folder = filed(sampling=sampling)
    assert code == 0
    assert "NOT FOR FILING" in text
    assert not (folder / "part8.csv").exists()
    rows = read_rows(folder, "part8_not_for_filing.csv")
    assert all(row["Contextual Information"].startswith("NOT FOR FILING") for row in rows)
    filed()
    assert not (folder / "part8_not_for_filing.csv").exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sampling": None}, "`sampling` must be given: without the rule"),
        ({"sampling": FILING["sampling"] | {"rule": " "}}, "rule"),
        ({"sampling": {"kind": "random"}}, "sampling.rule"),
        ({"ground_truth": "appeals"}, "a decision without an appeal may be wrong"),
        ({"languages": {"germna": "de"}}, "must be slices of the set; got 'germna'"),
        ({"languages": {"german": "de", "french": "de"}}, "de is given twice"),
        ({"language": "de"}, "not both"),
        ({"classifiers": ["frist"]}, "must be candidates of the results; got 'frist'"),
        (
            {"classifiers": {"first": {"threshold": 0.7}}},
            "the threshold of its verdict, 0.5; got 0.7",
        ),
        ({"evaluation_set": "other"}, "`evaluation_set` must be one of sample"),
        ({"period": {"from": "2026-12-31", "to": "2026-07-01"}}, "must not be later than"),
        ({"period": {"from": "2031-01-01", "to": "2031-06-30"}}, "was evaluated, 2026-11-21; got"),
        ({"sampling": FILING["sampling"] | {"rule": "-"}}, "must be in words"),
        ({"languages": {"german": "xq"}}, "a code of ISO 639 such as de"),
        ({"languages": {"german": "deu"}}, "a code of ISO 639 such as de"),
        ({"languages": {"german": "de-AT"}}, "without a region"),
        ({"recall_of_terms": {"gay": {"found": 0, "of": 0}}}, "`of` must be at least 1"),
    ],
)
def test_what_would_mislead_is_refused(filed, changed, words):
    code, text, folder = filed(**changed)
    assert code == 2, text
    assert words in text
    assert not folder.exists()


def test_appeals_are_no_truth_and_it_is_said_by_how_much_they_overstate(filed, site):
    precision = metrics.precision_score(site["label"], site["first"] >= 0.5)
    appeals = {"decisions": 10_000, "overturned": 30}
    classifiers = {"first": {"appeals": appeals}}
    code, text, _ = filed(ground_truth="appeals", classifiers=classifiers)
    assert code == 2
    words = f"Appeals overstate this by {100 * (0.997 - precision):.1f} points"
    assert words in text
    code, _, folder = filed(classifiers=classifiers)
    assert code == 0
    assert words in read_text(folder)


def test_changed_or_lost_evidence_is_refused(filed, results, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(results, changed)
    file = changed / "sample" / "first" / "evidence.parquet"
    file.write_bytes(file.read_bytes().replace(b"biasgate", b"biasgaet", 1))
    code, text, _ = filed(changed)
    assert (code, "must be the evidence of its verdict; it was changed since" in text) == (2, True)
    file.unlink()
    code, text, _ = filed(changed)
    assert (code, "must exist" in text) == (2, True)


def test_a_report_that_was_changed_is_refused(filed, results, tmp_path):
    shutil.copytree(results, tmp_path / "changed")
    file = tmp_path / "changed" / "sample" / "first" / "report.json"
    report = json.loads(file.read_text("utf-8"))
    report["candidate"]["name"] = "better"
    file.write_text(json.dumps(report), "utf-8")
    code, text, folder = filed(tmp_path / "changed")
    assert (code, folder.exists()) == (2, False)
    assert "must be the verdict's; it was changed since" in text


def test_identities_found_by_terms_need_their_recall_and_thresholds_are_not_estimated(
    filed, site, tmp_path
):
    source = {"source": "table", "terms": {"gay": ["gay"]}, "files": {"rows.csv": "f" * 64}}
    found = judge_site(tmp_path / "own", site, dict.fromkeys(THRESHOLDS), source=source)
    code, text, _ = filed(found)
    assert code == 2
    assert "`recall_of_terms` must give how many mentions the terms of gay find" in text
    recall = {"recall_of_terms": {"gay": {"found": 80, "of": 100}}}
    code, text, _ = filed(found, **recall)
    assert code == 2
    assert "the production `threshold` of first must be given" in text
    used = {name: {"threshold": threshold} for name, threshold in THRESHOLDS.items()}
    code, text, folder = filed(found, **recall, classifiers=used)
    assert code == 0, text
    assert "the terms find 80 (80.0 % [71.1 %, 86.7 %])" in read_text(folder)


def test_a_classifier_that_failed_is_not_left_out_in_silence(filed, results, tmp_path):
    failed = tmp_path / "failed"
    shutil.copytree(results, failed)
    summary = json.loads((failed / "summary.json").read_text("utf-8"))
    summary["verdicts"] = [
        verdict for verdict in summary["verdicts"] if verdict["candidate"]["name"] == "first"
    ]
    (failed / "summary.json").write_text(json.dumps(summary), "utf-8")
    code, text, _ = filed(failed)
    assert (code, "every classifier must have a verdict; second lacks a verdict" in text) == (
        2,
        True,
    )
    code, text, folder = filed(failed, classifiers=["first"])
    assert (code, len(read_rows(folder))) == (0, 9)
    words = "the same evaluation that are left out of this filing: second."
    assert words in text
    assert words in read_text(folder)
    numbers = json.loads((folder / "transparency.json").read_text("utf-8"))
    assert numbers["left_out"] == ["second"]


def test_a_threshold_beside_all_scores_is_refused(filed, site, tmp_path):
    found = judge_site(tmp_path / "scale", site, dict.fromkeys(THRESHOLDS))
    used = {"first": {"threshold": 50}, "second": {"threshold": 0.4}}
    code, text, folder = filed(found, classifiers=used)
    assert (code, folder.exists()) == (2, False), text
    assert "`threshold` of first must be within its scores" in text
    assert "got 50, which flags no comment" in text


def test_a_class_of_the_label_is_no_language(filed, site, tmp_path):
    found = judge_site(tmp_path / "class", site.assign(german=site["label"]))
    code, text, folder = filed(found)
    assert (code, folder.exists()) == (2, False), text
    assert "as in a slice of the label" in text


def test_the_text_says_for_what_the_gate_blocked(filed, site, tmp_path, monkeypatch):
    rule = {"metric": "bpsn_auc", "scope": "each", "floor": 0.99}
    monkeypatch.setattr("support.filed.RULES", (rule,))
    code, printed, folder = filed(judge_site(tmp_path / "blocked", site))
    assert code == 0, printed
    part = read_text(folder).split("## second")[1]
    assert re.search(
        "gate on this classifier, by policy p on [0-9-]+: [^.]*. - [a-z ]+: [^-]*gay", part
    )


def test_phrases_made_from_templates_are_no_random_sample(filed, site, tmp_path):
    source = {"source": "templates", "files": {"rows.csv": "f" * 64}}
    found = judge_site(tmp_path / "made", site, source=source)
    code, text, folder = filed(found)
    assert (code, "must be `constructed`" in text) == (2, True)
    assert not folder.exists()
    assert filed(found, sampling=FILING["sampling"] | {"kind": "constructed"})[0] == 0


def test_cells_are_no_formulas_and_names_are_no_markup(filed):
    code, _, folder = filed(service="=HYPERLINK(1) <b>[x](http://host)")
    assert code == 0
    assert {row["Service"][:2] for row in read_rows(folder)} == {"'="}
    assert "<b>" not in (folder / "part11.md").read_text("utf-8").replace("\\<b>", "")


def test_the_numbers_are_json_too(filed, results):
    _, _, folder = filed()
    content = json.loads((folder / "transparency.json").read_text("utf-8"))
    assert set(content["classifiers"]) == {"first", "second"}
    gay = content["classifiers"]["second"]["indicators"]["subgroups"]["gay"]
    assert gay["gaps"]["true_negative_rate"]["high"] < 0
    code, text = run(
        "transparency",
        results,
        "--filing",
        folder.parent / "filing.yaml",
        "--output",
        folder,
        "--json",
    )
    assert code == 0
    assert "part8.csv" in text
    assert yaml.safe_load((folder.parent / "filing.yaml").read_text("utf-8"))["service"]
