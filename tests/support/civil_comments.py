"""Rows in every published layout of Civil Comments, column orders and names as published."""

import csv
import tarfile
import zipfile

from biasgate.tasks.data.civil_comments import IDENTITIES

SUBTYPES = ["severe_toxicity", "obscene", "identity_attack", "insult", "threat"]
AFTER = ["created_date", "publication_id", "parent_id", "article_id", "rating", "funny", "wow"]
AFTER += ["sad", "likes", "disagree", "sexual_explicit"]
AFTER += ["identity_annotator_count", "toxicity_annotator_count"]
SPLITS = ("train", "test_public", "test_private")


def write(path, columns, rows):
    """Write rows as CSV; keys without a column are left out, columns without a key are empty."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def kaggle_files(folder, rows_of):
    """Write the expanded files of the Kaggle release; `rows_of(split)` gives the rows."""
    columns = ["id", "target", "comment_text", *SUBTYPES, *IDENTITIES, *AFTER]
    rows = [row | {"target": row["toxicity"]} for row in rows_of("train")]
    write(folder / "train.csv", columns, rows)
    columns = ["id", "comment_text", *AFTER, "toxicity", *SUBTYPES, *reversed(IDENTITIES)]
    for split in ("test_public", "test_private"):
        write(folder / f"{split}_expanded.csv", columns, rows_of(split))
    return folder


def single_file(folder, rows_of, name="all_data.csv", splits=("train", "test", "test")):
    """Write Kaggle's single file, whose column `split` says train or test."""
    columns = ["id", "comment_text", "split", *AFTER, "toxicity", *SUBTYPES, *IDENTITIES]
    rows = [
        row | {"split": split}
        for original, split in zip(SPLITS, splits, strict=True)
        for row in rows_of(original)
    ]
    write(folder / name, columns, rows[::2] + rows[1::2])
    return folder


def public_archive(folder, rows_of):
    """Write the single file of the public archive."""
    return single_file(folder, rows_of, "civil_comments.csv", SPLITS)


def wilds(folder, rows):
    """Write the file of WILDS; each row has its own `split`."""
    columns = ["", "id", "comment_text", "split", *AFTER, "toxicity", *SUBTYPES]
    columns += [*IDENTITIES, "LGBTQ", "other_religions", "identity_any"]
    write(folder / "all_data_with_identities.csv", columns, rows)
    return folder


def archive(folder, target):
    """Pack a folder's files as zip or tar, by the target's name, below a folder of its own."""
    files = sorted(folder.iterdir())
    if target.suffix == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in files:
                packed.write(file, f"release/{file.name}")
    else:
        with tarfile.open(target, "w:gz") as packed:
            for file in files:
                packed.add(file, f"release/{file.name}")
    return target
