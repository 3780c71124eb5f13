"""The file that a verdict is based on, written from a frozen set and its scores."""

import platform

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from biasgate.tasks.common.arrow_arrays import release_memory
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.evidence import bounds
from biasgate.tasks.evidence.file import FILE, RECORD, EvidenceFile
from biasgate.tasks.evidence.join import gather_evidence, write_evidence
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

N = 60


@pytest.fixture
def table():
    """Rows with a third that was not shown to identity raters."""
    rng = np.random.default_rng(3)
    rated = np.arange(N) % 3 != 0
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "label": np.arange(N) % 2,
            "gay": np.where(rated, rng.integers(0, 2, N), np.nan),
            "short": rng.integers(0, 2, N),
            "thread": np.arange(N) // 4,
            "prediction": rng.random(N),
        }
    )


@pytest.fixture
def frozen(table, tmp_path):
    """The frozen set of these rows, with a slice and clusters, and its options."""
    path = tmp_path / "rows.csv"
    table.assign(other=table["prediction"] / 2).to_csv(path, index=False)
    options = {"name": "rows", "source": "table", "path": path, "identities": ["gay"]}
    source = SOURCES.validate_python(options | {"slices": ["short"], "cluster": "thread"})
    return source, freeze_source(source, tmp_path / "store")


@pytest.fixture
def scored(frozen, tmp_path):
    """Score the set with a column of its table."""

    def scored(column):
        options = {"kind": "scores", "path": tmp_path / "rows.csv", "score": column}
        candidate = CANDIDATES.validate_python({"name": column} | options)
        return score_rows(candidate.open(None), frozen[1], candidate, str(tmp_path / "scores"))

    return scored


@pytest.fixture
def written(frozen, scored, tmp_path):
    """Evidence of these rows."""
    source, rows = frozen
    rivals = {"champion": scored("prediction")}
    return write_evidence(rows, scored("prediction"), rivals, source, tmp_path / FILE)


def test_slices_of_the_measured_rows_are_kept(table, written):
    measured = table[table["gay"].notna()]
    slices = EvidenceFile(written.path).columns("slice/")
    assert list(slices) == ["short"]
    assert slices["short"].tolist() == (measured["short"] == 1).tolist()


def test_all_columns_are_of_the_measured_rows(table, written):
    measured = table[table["gay"].notna()]
    evidence = EvidenceFile(written.path)
    assert evidence.ids().to_pylist() == measured["id"].astype(str).tolist()
    assert evidence.column("label").tolist() == (measured["label"] == 1).tolist()
    assert evidence.column("identity/gay").tolist() == (measured["gay"] == 1).tolist()
    assert evidence.column("score/candidate").tolist() == measured["prediction"].tolist()
    assert evidence.column("score/champion").tolist() == measured["prediction"].tolist()
    codes = evidence.column("cluster")
    assert codes.tolist() == pd.factorize(measured["thread"])[0].tolist()


def test_rows_whose_identities_nobody_rated_are_kept_with_their_labels_and_scores(table, written):
    rated = table["gay"].notna()
    every = written.labelled
    assert every.ids().to_pylist() == table["id"].astype(str).tolist()
    assert every.column("label").tolist() == (table["label"] == 1).tolist()
    assert every.column("score/candidate").tolist() == table["prediction"].tolist()
    assert every.column("rated").tolist() == rated.tolist()
    n_rows = pq.read_metadata(written.path).num_rows
    assert written.record.choices.n_rows_labelled == n_rows == len(table)
    assert written.record.choices.n_rows_measured == int(rated.sum()) == written.rows.labels.size


def test_released_evidence_holds_nothing_and_reads_its_rows_again(written):
    before = written.measurement.rows.y_true.tolist(), written.column("label").tolist()
    written.release()
    assert vars(written) == {"path": written.path, "with_unrated": False}
    assert (written.measurement.rows.y_true.tolist(), written.column("label").tolist()) == before


def test_evidence_is_written_again_only_where_a_rival_is_another_one(frozen, scored, tmp_path):
    source, rows = frozen
    first, other = scored("prediction"), scored("other")

    def gathered(**rivals):
        places = {role: one.url for role, one in rivals.items()}
        folder = str(tmp_path)
        return gather_evidence.fn(str(rows.folder), first.url, places, source, folder)

    kept = gathered(champion=first).path.stat().st_ino
    assert gathered(champion=first).path.stat().st_ino == kept
    again = gathered(champion=other)
    assert again.path.stat().st_ino != kept
    assert again.record.scores["champion"] == other.candidate_digest
    assert again.scores("champion").tolist() == (again.scores("candidate") / 2).tolist()
    assert gathered(reference=first).roles == ["candidate", "reference"]


def bomb(path, n_rows, *, text=None):
    """Write rows with a single value, which compress to a few kilobytes."""
    zeros = pa.array(np.zeros(n_rows))
    columns = {"label": zeros, "score/candidate": zeros}
    if text is not None:
        columns["cluster"] = pa.DictionaryArray.from_arrays(np.zeros(n_rows, "int32"), [text])
    table = pa.table(columns).replace_schema_metadata({RECORD: "{}"})
    pq.write_table(table, path, compression="zstd")
    return EvidenceFile(path)


def read_nothing(monkeypatch):
    def read(*_, **__):
        pytest.fail("rows were read")

    monkeypatch.setattr(pq.ParquetFile, "read", read)


def test_evidence_of_too_many_values_is_refused_before_a_row_is_read(tmp_path, monkeypatch):
    evidence = bomb(tmp_path / FILE, 1_000_000)
    assert evidence.path.stat().st_size < 100_000
    monkeypatch.setattr(bounds, "MOST_VALUES", 1_999_999)
    read_nothing(monkeypatch)
    with pytest.raises(InputError, match="1,999,999 values; it has 1,000,000 rows and 2 columns"):
        evidence.column("label")


def test_evidence_of_too_many_bytes_is_refused_before_a_row_is_read(tmp_path, monkeypatch):
    evidence = bomb(tmp_path / FILE, 10)
    monkeypatch.setattr(bounds, "MOST_BYTES", 10)
    read_nothing(monkeypatch)
    with pytest.raises(InputError, match="must have at most 10 bytes unpacked"):
        evidence.column("label")


def test_evidence_of_other_rows_than_the_report_names_is_refused(tmp_path):
    evidence = bomb(tmp_path / FILE, 10)
    evidence.require_size(10)
    with pytest.raises(InputError, match="must have the 9 rows that the report names; it has 10"):
        evidence.require_size(9)


def test_columns_of_other_types_than_numbers_are_refused(tmp_path):
    table = pa.table({"label": [0.0], "score/candidate": ["a" * 100]})
    pq.write_table(table, tmp_path / FILE)
    with pytest.raises(InputError, match=r"column 'score/candidate' of .* must hold numbers"):
        EvidenceFile(tmp_path / FILE).column("label")


def test_long_names_of_clusters_are_refused_and_short_ones_read_once(tmp_path):
    short = bomb(tmp_path / FILE, 10, text="c" * 1000)
    assert short.column("cluster").tolist() == ["c" * 1000] * 10
    with pytest.raises(InputError, match="must have names of at most 1,000 characters; got"):
        bomb(tmp_path / FILE, 10, text="c" * 1001).column("cluster")


def test_clusters_of_texts_and_of_numbers_are_read_as_they_were_written(tmp_path):
    for cluster in (["b", "a", "b"], [3, 1, 3]):
        pq.write_table(pa.table({"label": [0.0, 1.0, 0.0], "cluster": cluster}), tmp_path / FILE)
        assert EvidenceFile(tmp_path / FILE).column("cluster").tolist() == cluster


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries keep no such lists")
def test_memory_that_was_freed_below_what_is_held_is_given_back():
    def resident():
        return psutil.Process().memory_info().rss

    blocks = [bytearray(10_000) for _ in range(10_000)]
    held, at_most = blocks.pop(), resident()
    blocks.clear()
    release_memory()
    assert resident() < at_most - 80_000_000
    assert held
