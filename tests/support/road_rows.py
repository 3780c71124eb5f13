"""The comments that every road starts from, in each form, and what they should become.

The expectation is made from the invented rows alone, not by the code that reads the files.
"""

import csv
import gzip
import random

import pandas as pd
from support import civil_comments
from support.scorers import HOSTILE

from bias_metrics import evaluate_bias
from biasgate.tasks.data.civil_comments import IDENTITIES, JIGSAW_NINE
from biasgate.tasks.data.freezing import SOURCES
from biasgate.tasks.data.hashed_parts import hash_to_fraction

FRIENDLY = ("kind", "decent", "lovely", "honest", "gentle", "warm")
PLAIN = ("neighbour", "talk", "street", "morning", "letter", "people", "again", "house", "story")
N_ROWS = {"train": 300, "test_public": 700, "test_private": 400}
# Phrase in the text: the identities that it mentions, and those that overlapping terms find.
PHRASES = {
    "": ((), ()),
    "gay": (("gay",), ("gay",)),
    "Muslims": (("muslim",), ("muslim",)),
    "african": (("african",), ("african",)),
    "African American": (("african american",), ("african american", "african")),
}
TERMS = {
    "gay": ["gay"],
    "muslim": ["muslim", "muslims"],
    "african": ["african"],
    "african american": ["african american"],
}
# The same by name, as a list of each row has them.
NAMES = {
    "gay": ["gay"],
    "muslim": ["muslims"],
    "african": ["african"],
    "african american": ["African American"],
}


def comments():
    """Return all rows in the columns of the release, marked with what their texts mention."""
    draws = random.Random(11)  # noqa: S311 - not for secrets
    return {
        split: [_comment(draws, 1000 * place + n) for n in range(count)]
        for place, (split, count) in enumerate(N_ROWS.items(), 1)
    }


def _comment(draws, number):
    toxic, rated = draws.random() < 0.5, number % 5 != 0
    words = draws.sample(PLAIN, 4)
    words += [draws.choice(HOSTILE if toxic != (draws.random() < 0.15) else FRIENDLY)]
    phrase = draws.choice(list(PHRASES))
    filler = "more of the same, again and again and again " * draws.choice([0, 2])
    text = " ".join([*words, phrase, filler, f"{draws.getrandbits(40):010x}"])
    fraction = draws.choice([0.5, 0.7, 1.0] if toxic else [0.0, 0.2, 0.45])
    row = {"id": number, "comment_text": text, "article_id": number // 3, "phrase": phrase}
    row |= {"toxicity": fraction, "identity_attack": draws.choice([0.0, 0.1, 0.6, 0.9])}
    row |= {"male_or_not": draws.random() < 0.5, "flagged": toxic}
    # A third mentions nobody: the background of sets with `no_identity`.
    share = 0.0 if draws.random() < 0.33 else 0.45
    for name in IDENTITIES:
        mentioned = draws.random() < share
        fraction = draws.choice([0.4, 0.5, 0.8] if mentioned else [0.0, 0.0, 0.3])
        row[name] = fraction if rated else None
    return row


def write_release(folder, rows):
    """Write every form of the release, the archives too; return the folder of each."""
    plain = {split: [_as_written(row) for row in of] for split, of in rows.items()}
    wilds = [row | {"split": one} for one, of in wilds_splits(plain).items() for row in of]
    for name, write, given in (
        ("kaggle", civil_comments.kaggle_files, plain.__getitem__),
        ("all_data", civil_comments.single_file, plain.__getitem__),
        ("civil_comments", civil_comments.public_archive, plain.__getitem__),
        ("wilds", civil_comments.wilds, wilds),
    ):
        (folder / name).mkdir()
        write(folder / name, given)
    for ending in ("zip", "tar.gz"):
        civil_comments.archive(folder / "kaggle", folder / f"release.{ending}")


def _as_written(row):
    return {key: "" if value is None else value for key, value in row.items()}


def wilds_splits(rows):
    """Split the rows as WILDS does: a part of the training rows is for validation."""
    return {
        "train": rows["train"],
        "val": rows["test_public"][::4],
        "test": [*rows["test_private"], *(r for n, r in enumerate(rows["test_public"]) if n % 4)],
    }


def write_tables(folder, rows):
    """Write all rows in every format and as a repository, and the training rows as `train.csv`."""
    frame = pd.DataFrame([_for_table(row) for row in rows["test_public"] + rows["test_private"]])
    frame.to_csv(folder / "table.csv", index=False)
    with gzip.open(folder / "table.csv.gz", "wt", encoding="utf-8", newline="") as stream:
        frame.to_csv(stream, index=False)
    frame.to_json(folder / "table.jsonl", orient="records", lines=True)
    frame.to_parquet(folder / "table.parquet", index=False)
    (folder / "repository" / "data").mkdir(parents=True)
    frame.to_parquet(folder / "repository" / "data" / "test-00000-of-00001.parquet", index=False)
    train = pd.DataFrame([_for_table(row) for row in rows["train"]])
    train.to_csv(folder / "train.csv", index=False)


def _for_table(row):
    names = {"yes": row["flagged"], "kind_of": "BAD" if row["flagged"] else "NOT_BAD"}
    names["mentions"] = [row["phrase"]] if row["phrase"] else []
    return {key: value for key, value in row.items() if key != "phrase"} | names


def expected_rows(road, rows):
    """The rows of a road's set, as its options should make them, in the order of the file."""
    if road["source"] == "templates":
        return _template_rows(road)
    if road["source"].startswith("table"):
        return _table_rows(road, rows)
    return _release_rows(road, rows)


def _release_rows(road, rows):
    tests = {"test_public": rows["test_public"], "test_private": rows["test_private"]}
    if road["source"] == "wilds":
        splits = wilds_splits(rows)
        chosen = [splits[one] for one in WILDS_SPLITS[road["split"]]]
    elif road["source"] == "all_data":
        parts = {"test": [*tests["test_public"], *tests["test_private"]], "train": rows["train"]}
        chosen = [parts[one] for one in SINGLE_SPLITS[road["split"]]]
    else:
        chosen = [rows[one] for one in KAGGLE_SPLITS[road["split"]]]
    label = "toxicity" if road["label"] == "fraction" else "identity_attack"
    names = {"default": JIGSAW_NINE, "listed": LISTED, "twenty_four": IDENTITIES}
    return [
        {
            "id": str(row["id"]),
            "text": row["comment_text"],
            "label": row[label],
            "cluster": str(row["article_id"]),
            "identities": {name: row[name] for name in names[road["identities"]]},
            "slices": {"short": len(row["comment_text"]) < 100},
        }
        for of_split in chosen
        for row in of_split
    ]


LISTED = ("muslim", "black", "homosexual_gay_or_lesbian")
KAGGLE_SPLITS = {
    "default": ["test_public", "test_private"],
    "one": ["test_public"],
    "several": ["train", "test_private"],
}
SINGLE_SPLITS = {"default": ["test"], "one": ["test"], "several": ["train", "test"]}
WILDS_SPLITS = {"default": ["test"], "one": ["test"], "several": ["val", "test"]}


def _table_rows(road, rows):
    found = []
    for number, row in enumerate(rows["test_public"] + rows["test_private"]):
        in_test = hash_to_fraction(row["comment_text"]) < 0.4
        if road["split"] != "default" and in_test != (road["split"] == "test"):
            continue
        slices = {"none": [], "renamed": ["half"]}.get(road["slices"], ["male_or_not"])
        found.append(
            {
                "id": str(number if road["id"] == "row_number" else row["id"]),
                "text": row["comment_text"],
                "label": row["toxicity"] if road["label"] == "fraction" else row["flagged"],
                "cluster": None if road["cluster"] == "none" else str(row["article_id"]),
                "identities": _table_identities(road, row),
                "slices": dict.fromkeys(slices, row["male_or_not"]),
            }
        )
    return found


def _table_identities(road, row):
    longest, overlapping = PHRASES[row["phrase"]]
    if road["identities"] in {"terms", "overlap", "named"}:
        mentioned = overlapping if road["identities"] == "overlap" else longest
        return {name: float(name in mentioned) for name in TERMS}
    if road["identities"] == "renamed":
        return {"Black people": row["black"], "Muslims": row["muslim"]}
    if road["identities"] == "both":
        terms = {name: float(name in longest) for name in ("african", "african american")}
        return {name: row[name] for name in LISTED} | terms
    names = LISTED if road["identities"] == "listed" else IDENTITIES
    return {name: row[name] for name in names}


def _template_rows(road):
    options = {"name": "rows", "source": "templates"} | template_options(road)
    rows = []
    for chunk in SOURCES.validate_python(options).chunks():
        names = [one for one in chunk.column_names if one.startswith("identity/")]
        rows += [
            {key: row[key] for key in ("id", "text", "label", "cluster")}
            | {"identities": {name.removeprefix("identity/"): row[name] for name in names}}
            | {"slices": {}}
            for row in chunk.to_pylist()
        ]
    return rows


def template_options(road):
    """The options of generated phrases."""
    chosen = {
        "default": {},
        "listed": {"terms": ["gay", "muslim", "black"], "rows_per_term": 120},
        "spelled": {"terms": {"gay": ["gay", "homosexual"], "deaf": ["deaf"]}, "seed": 3},
        "twenty_four": {"terms": [f"group{n}ian" for n in range(24)], "rows_per_term": 80},
    }[road["identities"]]
    return chosen | ({"part": "all"} if road["split"] == "all" else {})


def expected_report(road, rows, scores):
    """Return what one call of `evaluate_bias` gives for these rows and their scores by id."""
    label_from, identity_from = THRESHOLDS[road["thresholds"]]
    if road["identity_rows"] == "rated":
        rows = [row for row in rows if None not in row["identities"].values()]
    names = list(rows[0]["identities"])
    clusters = [row["cluster"] for row in rows]
    return evaluate_bias(
        [row["label"] >= label_from for row in rows],
        [scores[row["id"]] for row in rows],
        {
            name: [(row["identities"][name] or 0.0) >= identity_from for row in rows]
            for name in names
        },
        clusters=None if clusters[0] is None else clusters,
        power_mean_groups=names[:2] if road["power_mean_groups"] == "two" else None,
        background=road["background"],
    ).to_dict()


THRESHOLDS = {"half": (0.5, 0.5), "lower": (0.45, 0.4)}


def write_scores(path, pairs, columns=("id", "prediction")):
    """Write ids and scores in the format of the path's extension."""
    if path.suffix == ".parquet":
        frame = pd.DataFrame(pairs, columns=columns)
        frame.to_parquet(path, index=False)
        return
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([columns, *pairs])
