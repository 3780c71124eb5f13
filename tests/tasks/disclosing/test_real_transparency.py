"""Part 8 and Part 11 of real rows, with every rate recomputed by scikit-learn."""

import csv
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from support.evaluations import run
from support.filed import FILING, judge_rows

from biasgate.tasks.data.civil_comments import JIGSAW_NINE

metrics = pytest.importorskip("sklearn.metrics")

CODES = {"dutch": "nl", "french": "fr", "german": "de", "italian": "it"}
CODES |= {"portuguese": "pt", "spanish": "es", "arabic": "ar", "mandarin": "zh"}


def rates(y_true, y_pred):
    """Return the shares of right decisions by scikit-learn."""
    options = {"zero_division": np.nan}
    return {
        "accuracy": metrics.accuracy_score(y_true, y_pred),
        "precision": metrics.precision_score(y_true, y_pred, **options),
        "recall": metrics.recall_score(y_true, y_pred, **options),
        "negative_predictive_value": metrics.precision_score(~y_true, ~y_pred, **options),
        "true_negative_rate": metrics.recall_score(~y_true, ~y_pred, **options),
    }


def filed(folder, results, **changed):
    (folder / "filing.yaml").write_text(yaml.safe_dump(FILING | changed), "utf-8")
    options = ("--filing", folder / "filing.yaml", "--output", folder / "filed")
    code, text = run("transparency", results, *options)
    assert code == 0, text
    return json.loads((folder / "filed" / "transparency.json").read_text("utf-8"))["classifiers"]


def require_same(shares, expected):
    for name, value in expected.items():
        found = shares[name]["value"]
        assert (found is None) == bool(np.isnan(value))
        assert found is None or found == pytest.approx(value, abs=1e-12)


def read_part_8(folder, name="part8.csv"):
    with (folder / "filed" / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_toxic_bert_on_the_real_rows(real_data, tmp_path):
    labels = pd.read_parquet(real_data / "civil_comments_test_identities.parquet")
    scores = pd.read_csv(real_data / "toxic_bert_submission.csv")
    table = labels.merge(scores, on="id", validate="one_to_one")
    toxic, flagged = (table["toxicity"] >= 0.5).to_numpy(), table["prediction"].to_numpy() >= 0.5
    masks = {name: (table[name] >= 0.5).to_numpy() for name in JIGSAW_NINE}
    columns = {"id": pa.array(table["id"].astype(str)), "label": toxic}
    columns |= {f"identity/{name}": mask for name, mask in masks.items()}
    columns["score/candidate"] = table["prediction"].to_numpy()
    results = judge_rows(tmp_path / "out", {"toxic_bert": columns}, {"toxic_bert": 0.5})
    found = filed(tmp_path, results, languages={}, surfaces=[], language="en")["toxic_bert"]
    require_same(found["indicators"]["overall"]["shares"], rates(toxic, flagged))
    for name, mask in masks.items():
        group = found["indicators"]["subgroups"][name]
        require_same(group["shares"], rates(toxic[mask], flagged[mask]))
        own, other = rates(toxic[mask], flagged[mask]), rates(toxic[~mask], flagged[~mask])
        require_same(group["gaps"], {key: own[key] - other[key] for key in own})
    rows = read_part_8(tmp_path)
    assert [row["Value"] for row in rows] == ["0.9124", "0.7431", "0.3221"] * 2
    assert [row["Scope"] for row in rows] == ["Total number"] * 3 + ["en"] * 3


def test_two_candidates_in_eight_languages(real_data, tmp_path):
    rows = pd.read_parquet(real_data / "multilingual_hatecheck.parquet")
    terms = json.loads((real_data / "multilingual_hatecheck_terms.json").read_text("utf-8"))
    words = {
        language: re.compile(
            "|".join(re.escape(form) for forms in by_name.values() for form in forms)
        )
        for language, by_name in terms.items()
    }
    named = [
        float(language in words and words[language].search(text) is not None)
        for language, text in zip(rows["language"], rows["text"], strict=True)
    ]
    scores = {"words": np.array(named), "shouting": rows["text"].str.count("!").to_numpy() / 4}
    toxic = (rows["hateful"] == 1).to_numpy()
    columns = {"id": pa.array(rows["id"]), "label": toxic}
    columns |= {
        f"identity/{name}": (rows["target"] == name).to_numpy() for name in ("women", "Muslims")
    }
    columns |= {f"slice/{code}": (rows["language"] == code).to_numpy() for code in CODES}
    columns["cluster"] = pd.factorize(rows["template"].fillna(rows["id"]))[0]
    each = {name: columns | {"score/candidate": score} for name, score in scores.items()}
    results = judge_rows(tmp_path / "out", each, dict.fromkeys(each, 0.25))
    sampling = FILING["sampling"] | {"kind": "constructed"}
    found = filed(tmp_path, results, languages=CODES, surfaces=[], sampling=sampling)
    for name, score in scores.items():
        for language in CODES:
            mask = (rows["language"] == language).to_numpy()
            part = found[name]["slices"][language]
            require_same(part["shares"], rates(toxic[mask], score[mask] >= 0.25))
            assert part["n"] == mask.sum()
    filed_rows = read_part_8(tmp_path, "part8_not_for_filing.csv")
    assert len(filed_rows) == 2 * 3 * (1 + 6)  # Arabic and Mandarin are not official languages
    assert all("755 clusters" in row["Contextual Information"] for row in filed_rows)
