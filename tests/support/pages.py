"""The folder that the pages describe: data, scores, an encoder, and a champion to deploy."""

import json

import pandas as pd
import yaml
from support import civil_comments, road_rows
from support.road_rows import write_scores
from support.scorers import score

PACKAGE = "def predict_prob(texts):\n    return [len(text) % 97 / 97 for text in texts]\n"
TRAINING = {"name": "training", "source": "table", "path": "train.csv", "text": "comment"}
RULES = [{"metric": "auc", "scope": "overall", "floor": 0.6}]
SET = {
    "name": "comments",
    "source": "table",
    "path": "comments.csv",
    "text": "comment_text",
    "label": "toxicity",
    "identities": ["muslim", "gay", "deaf"],
    "slices": ["short"],
}
SCORES = {"name": "my_model", "kind": "scores", "path": "my_scores.csv", "threshold": 0.5}


def write_scene(folder):
    """Write every file that a page names."""
    rows = road_rows.comments()
    tests = [row for split in ("test_public", "test_private") for row in rows[split]]
    frame = table(tests)
    frame.to_csv(folder / "comments.csv", index=False)
    pairs = [(row["id"], score(row["comment_text"], "a")) for row in tests]
    for name in ("my_scores.csv", "civil_comments_scores.csv"):
        write_scores(folder / name, pairs)
    table(rows["train"]).assign(label=lambda t: t["toxicity"] >= 0.5).to_csv(
        folder / "train.csv", index=False
    )
    (folder / "jigsaw").mkdir()
    civil_comments.kaggle_files(folder / "jigsaw", lambda split: filled(rows[split]))
    (folder / "profanity_check.py").write_text(PACKAGE)
    for name in ("encoder", "minilm"):
        (folder / "models" / name).mkdir(parents=True)
        config = {"architectures": ["BertForSequenceClassification"], "model_type": "bert"}
        config["id2label"] = {"0": "harmless", "1": "toxic"}
        (folder / "models" / name / "config.json").write_text(json.dumps(config))
        (folder / "models" / name / "model.safetensors").touch()
    policy = {"version": 1, "name": "lenient", "allow_first": True, "rules": RULES}
    whole = {"name": "whole", "registered_model": "toxicity", "evaluation_sets": [SET]}
    whole |= {"candidates": [SCORES], "policy": "lenient.yaml"}
    whole["reference"] = SCORES | {"name": "reference"}
    (folder / "lenient.yaml").write_text(yaml.safe_dump(policy), "utf-8")
    (folder / "whole.yaml").write_text(yaml.safe_dump(whole), "utf-8")


def filled(rows):
    """Return rows as in a release: empty if raters were not asked."""
    return [{key: "" if value is None else value for key, value in row.items()} for row in rows]


def table(rows):
    """Return comments in the columns that pages name."""
    return pd.DataFrame(
        {
            "id": [row["id"] for row in rows],
            "comment_text": [row["comment_text"] for row in rows],
            "comment": [row["comment_text"] for row in rows],
            "toxicity": [row["toxicity"] for row in rows],
            "n_raters": 5,
            "muslim": [row["muslim"] for row in rows],
            "gay": [row["homosexual_gay_or_lesbian"] for row in rows],
            "deaf": [row["other_disability"] for row in rows],
            "short": [len(row["comment_text"]) < 100 for row in rows],
            "article": [row["article_id"] for row in rows],
        }
    )


def trained(name, **options):
    """Return the candidate that becomes the pages' champion."""
    training = TRAINING | {"terms": ["gay"]}
    return {"name": name, "kind": "tfidf", "threshold": 0.5, "train_on": training} | options


def names_in_scope(folder):
    """Return the names that a page's Python uses: labels, scores, mentions, lists of groups."""
    rows = pd.read_csv(folder / "comments.csv")
    rows = rows.merge(pd.read_csv(folder / "my_scores.csv"), on="id")
    rows = rows.assign(toxic=rows["toxicity"] >= 0.5, score=rows["prediction"])
    return {
        "t": pd.DataFrame({"groups": [["muslim", "gay"], ["gay"], None]}),
        "rows": rows,
        "y_true": rows["toxic"],
        "y_score": rows["score"],
        "mentions_muslim": rows["muslim"] >= 0.5,
        "mentions_gay": rows["gay"] >= 0.5,
    }
