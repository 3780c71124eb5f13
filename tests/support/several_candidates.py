"""Candidates on two sets with 24 identities, beside a champion: what MLflow's pages show."""

import csv
import os
import random
import subprocess
import sys
from pathlib import Path

import yaml

HOSTILE = ["awful", "stupid", "rotten", "vile", "foul", "nasty"]
FRIENDLY = ["kind", "decent", "lovely", "honest", "gentle", "warm"]
PLAIN = ["neighbour", "talk", "street", "morning", "letter", "people", "again", "house"]
IDENTITIES = ["male", "female", "transgender", "gay", "lesbian", "bisexual", "straight"]
IDENTITIES += ["christian", "jewish", "muslim", "hindu", "buddhist", "atheist", "black", "white"]
IDENTITIES += ["asian", "latino", "indigenous", "deaf", "blind", "wheelchair_user", "old", "young"]
IDENTITIES += ["mental_illness"]
# What each candidate is unfair to: harmless comments with the mention score like toxic ones.
UNFAIR = {"words": [], "shifted": ["gay", "old"], "noisy": ["deaf"]}
SCORER = """
import hashlib

HOSTILE = {hostile}


def score(texts, salt, unfair, noise):
    found = []
    for text in texts:
        drawn = int.from_bytes(hashlib.blake2b((salt + text).encode(), digest_size=6).digest())
        words = set(text.split())
        shifted = 0.45 * bool(words & set(unfair))
        value = 0.5 * bool(words & set(HOSTILE)) + shifted + noise * drawn / 2.0**48
        found.append(min(value, 1.0))
    return found


def shifted(texts):
    return score(texts, "shifted", {shifted}, 0.4)


def noisy(texts):
    return score(texts, "noisy", {noisy}, 0.9)
"""
RULES = [
    {"metric": "auc", "scope": "overall", "floor": 0.7},
    {"metric": "bpsn_auc", "scope": "each", "floor": 0.7, "margin": 0.1},
    {"metric": "negative_aeg", "scope": "each", "ceiling": 0.35},
]
# For a champion to compare with, whatever it is like.
LENIENT = [{"metric": "auc", "scope": "overall", "floor": 0.5}]


def write_files(folder, *, identities=IDENTITIES, rows=1500, name="toxicity", only=tuple(UNFAIR)):
    """Write `first.yaml`, whose candidate becomes champion, and `second.yaml`, with all or some.

    Comments mention identities by the words in IDENTITIES, whatever these are called.
    """
    names = dict(zip(identities, IDENTITIES, strict=False))
    draws = random.Random(5)  # noqa: S311 - not for secrets
    for one in ("train", "news", "forum"):
        _write_table(folder / f"{one}.csv", _comments(draws, names, rows))
    lists = {one: UNFAIR[one] for one in ("shifted", "noisy")}
    (folder / "scorers.py").write_text(SCORER.format(hostile=HOSTILE, **lists), "utf-8")
    policy = {"version": 1, "name": "lenient", "allow_first": True, "rules": LENIENT}
    (folder / "lenient.yaml").write_text(yaml.safe_dump(policy), "utf-8")
    (folder / "own.yaml").write_text(yaml.safe_dump(policy | {"name": "own", "rules": RULES}))
    table = {"source": "table", "text": "comment", "identities": list(names)}
    training = table | {"name": "training", "path": "train.csv"}
    words = {"name": "words", "kind": "tfidf", "train_on": training}
    calls = [
        {"name": one, "kind": "python", "call": f"scorers.py:{one}", "version": "1"}
        for one in lists
    ]
    content = {"name": name, "registered_model": name, "policy": "lenient.yaml"}
    content["evaluation_sets"] = [
        table | {"name": one, "path": f"{one}.csv"} for one in ("news", "forum")
    ]
    first = content | {"candidates": [words]}
    candidates = [words | {"max_features": 300}, *calls]
    second = content | {"candidates": [one for one in candidates if one["name"] in only]}
    (folder / "first.yaml").write_text(yaml.safe_dump(first, allow_unicode=True), "utf-8")
    second["policy"] = "own.yaml"
    (folder / "second.yaml").write_text(yaml.safe_dump(second, allow_unicode=True), "utf-8")
    return folder


def evaluate(folder, file, store, **variables):
    """Run the command on a file; a blocked candidate is no failure here."""
    environment = os.environ | {"PREFECT_HOME": str(folder / "prefect")} | variables
    command = [sys.executable, "-m", "biasgate", "evaluate", file, "--output", Path(file).stem]
    done = subprocess.run(
        [*command, "--store", str(store)],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode in {0, 3, 4}, done.stderr.decode()[-3000:]
    return done.stdout.decode()


def _comments(draws, names, n_rows):
    """Comments of which each mentions one or two identities, or none."""
    rows = []
    for number in range(n_rows):
        toxic = draws.random() < 0.5
        mentioned = draws.sample(list(names), draws.choice([0, 1, 1, 2]))
        unlike = draws.random() < 0.1
        words = draws.sample(PLAIN, 4)
        words.append(draws.choice(HOSTILE if toxic != unlike else FRIENDLY))
        words += [names[one] for one in mentioned]
        row = {"id": str(number), "comment": " ".join([*words, str(number)]), "label": int(toxic)}
        rows.append(row | {one: int(one in mentioned) for one in names})
    return rows


def _write_table(path, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
