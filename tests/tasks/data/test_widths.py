"""Equal rows from the same decimals in files of any numeric width, also at thresholds."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bias_metrics import error_rates, threshold_report
from biasgate.tasks.counting.settings import CountFile
from biasgate.tasks.counting.shards import count_scores
from biasgate.tasks.data.columns import conform_rows
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.evidence.join import write_evidence
from biasgate.tasks.mitigating.rows import TrainingRows, read_rows
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.model_answers import extract_scores
from biasgate.tasks.scoring.scored import score_rows

CUTS = (0.1, 0.3, 0.7)
NAMES = ("toxicity", "gay", "score")
N = 400
KEYS = {"label": "toxicity", "identities": ["gay"]}


def build_frame():
    rng = np.random.default_rng(8)
    numbers = {name: rng.integers(0, 11, N) / 10 for name in NAMES}
    return pd.DataFrame({"id": np.arange(N), "text": [f"words {i}" for i in range(N)], **numbers})


def write_parquet(kind):
    return lambda path: (
        build_frame().astype(dict.fromkeys(NAMES, kind)).to_parquet(path.with_suffix(".parquet"))
    )


def write_decimals(path):
    rows = build_frame()
    columns = {name: [Decimal(str(value)) for value in rows[name]] for name in NAMES}
    table = pa.table({"id": rows["id"], "text": rows["text"]} | columns)
    pq.write_table(table, path.with_suffix(".parquet"))


def write_widened_csv(path):
    rows = build_frame().astype(dict.fromkeys(NAMES, "float32")).astype(dict.fromkeys(NAMES, float))
    rows.to_csv(path.with_suffix(".csv"), index=False)


def write_json_lines(path):
    rows = build_frame().astype(dict.fromkeys(NAMES, "float32"))
    rows.to_json(path.with_suffix(".jsonl"), orient="records", lines=True)


FILES = {
    "float16": write_parquet("float16"),
    "float32": write_parquet("float32"),
    "decimal": write_decimals,
    "widened CSV": write_widened_csv,
    "JSON of pandas": write_json_lines,
}


@pytest.fixture
def written_file(tmp_path, request):
    """Write the file of a numeric width; return its path."""
    FILES[request.param](tmp_path / "rows")
    return next(tmp_path.glob("rows.*"))


def make_source(path, **options):
    base = {"name": "rows", "source": "table", "path": path, "text": "text"}
    return SOURCES.validate_python(base | KEYS | options)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("written_file", FILES, indirect=True)
def test_labels_identities_and_scores_are_cut_alike(written_file, cut, tmp_path):
    settings = make_source(written_file, label_threshold=cut, identity_threshold=cut)
    rows = freeze_source(settings, tmp_path / "store")
    scores = {
        "name": "m",
        "kind": "scores",
        "path": written_file,
        "score": "score",
        "threshold": cut,
    }
    candidate = CANDIDATES.validate_python(scores)
    scored = score_rows(candidate.open(None), rows, candidate, str(tmp_path / "scores"))
    evidence = EvidenceFile(write_evidence(rows, scored, {}, settings, tmp_path / FILE).path)
    toxic, gay, flagged = ((build_frame()[name] >= cut).tolist() for name in NAMES)
    assert evidence.column("label").tolist() == toxic
    assert evidence.columns("identity/")["gay"].tolist() == gay
    report = threshold_report(toxic, evidence.scores("candidate"), {}, threshold=cut)
    assert report.overall.to_dict() == error_rates(toxic, flagged, threshold=1).to_dict() | {
        "threshold": cut
    }


@pytest.mark.parametrize("written_file", FILES, indirect=True)
def test_counts_are_cut_alike(written_file):
    options = {"label_threshold": 0.7, "identity_threshold": 0.3}
    model = {"name": "m", "score": "score", "threshold": 0.1}
    content = {"name": "c", "source": "shards", "candidate": model, "path": str(written_file)}
    settings = CountFile.model_validate(content | KEYS | options)
    counts = count_scores(settings, written_file).counts["candidate"]
    toxic, gay, flagged = (
        build_frame()[name] >= cut for name, cut in zip(NAMES, (0.7, 0.3, 0.1), strict=True)
    )
    positive = int((toxic & gay & flagged).sum())
    assert counts.count_flagged(0.1)["gay"]["positive"] == (positive, positive)


@pytest.mark.parametrize("written_file", FILES, indirect=True)
def test_training_labels_and_mentions_are_cut_alike(written_file, tmp_path):
    settings = make_source(written_file, label_threshold=0.7, identity_threshold=0.3)
    options = {"name": "m", "kind": "tfidf", "train_on": settings}
    candidate = CANDIDATES.validate_python(options)
    rows = freeze_source(settings, tmp_path / "store")
    toxic, gay = build_frame()["toxicity"] >= 0.7, build_frame()["gay"] >= 0.3
    assert candidate.training_labels(rows).tolist() == toxic.tolist()
    training = TrainingRows.from_table(settings, read_rows(settings))
    assert training.labels.tolist() == toxic.tolist()
    assert training.masks["gay"].tolist() == gay.tolist()


def test_half_precision_from_a_model_and_from_another_source_is_read_as_it_prints():
    half = np.array([0.1, 0.7], np.float16)
    assert extract_scores(half, "m").tolist() == [0.1, 0.7]
    rows = pa.table({"id": ["a", "b"], "label": pa.array(half)})
    assert conform_rows(rows, "rows")["label"].to_pylist() == [0.1, 0.7]
