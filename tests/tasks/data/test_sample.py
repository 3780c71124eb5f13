import csv
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.data.hashed_parts import draw_sample


def draw_rows(table, wanted, step=7):
    chunks = [table.slice(at, step) for at in range(0, table.num_rows, step)]
    sample, n_all = draw_sample(chunks, wanted)
    assert n_all == table.num_rows
    return pa.concat_tables(sample)


def build_rows(clusters):
    return pa.table({"id": [f"i{at}" for at in range(len(clusters))], "cluster": clusters})


CLUSTERS = st.lists(st.integers(0, 12).map(str), min_size=1, max_size=80)


@given(CLUSTERS, st.integers(1, 90), st.randoms())
def test_a_sample_has_whole_clusters_and_does_not_depend_on_the_order(clusters, wanted, random):
    table = build_rows(clusters)
    sample = draw_rows(table, wanted)
    order = list(range(table.num_rows))
    random.shuffle(order)
    shuffled = draw_rows(table.take(pa.array(order)), wanted, step=3)
    assert sorted(shuffled["id"].to_pylist()) == sorted(sample["id"].to_pylist())
    sizes = Counter(clusters)
    assert all(sizes[name] == n for name, n in Counter(sample["cluster"].to_pylist()).items())


@given(CLUSTERS, st.integers(1, 80))
def test_a_larger_sample_contains_a_smaller_one(clusters, wanted):
    table = build_rows(clusters)
    smaller, larger = (draw_rows(table, n)["id"].to_pylist() for n in (wanted, wanted + 9))
    assert set(smaller) <= set(larger)


@given(CLUSTERS, st.integers(1, 80))
def test_no_other_number_of_whole_clusters_is_closer_to_the_wanted_rows(clusters, wanted):
    table = build_rows(clusters)
    n = draw_rows(table, wanted).num_rows
    nested = {draw_rows(table, other).num_rows for other in range(1, len(clusters) + 1)}
    assert abs(n - wanted) == min(abs(other - wanted) for other in nested)


def test_rows_that_are_dropped_on_the_way_belong_to_no_sample(monkeypatch):
    rng = np.random.default_rng(5)
    table = build_rows([str(name) for name in rng.zipf(1.6, 4000) % 900])
    expected = draw_rows(table, 300, step=4000)
    monkeypatch.setattr("biasgate.tasks.data.hashed_parts._SPARE_ROWS", 0)
    sample = draw_rows(table, 300, step=50)
    assert sample["id"].to_pylist() == expected["id"].to_pylist()


def test_ids_are_drawn_uniformly():
    table = pa.table({"id": [str(at) for at in range(20_000)]})
    sample = draw_rows(table, 4_000, step=999)
    assert sample.num_rows == 4_000
    by_tenth = np.bincount(np.array(sample["id"].to_pylist(), dtype=int) // 2_000, minlength=10)
    # 400 expected; five standard deviations of a binomial draw without replacement
    assert np.abs(by_tenth - 400).max() < 5 * np.sqrt(400 * 0.8)


@pytest.fixture
def comments(tmp_path):
    path = tmp_path / "comments.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "text", "toxic", "gay", "thread"])
        writer.writerows([n, f"comment {n}", n % 2, n % 3 == 0, n // 5] for n in range(100))
    return path


def make_source(path, **options):
    defaults = {"name": "c", "source": "table", "path": path, "id": "id", "text": "text"}
    defaults |= {"label": "toxic", "identities": ["gay"], "cluster": "thread"}
    return SOURCES.validate_python(defaults | options)


def test_a_frozen_sample_records_the_rows_of_the_whole_set(tmp_path, comments):
    whole = freeze_source(make_source(comments), tmp_path / "store")
    sample = freeze_source(make_source(comments, sample=20), tmp_path / "store")
    assert (whole.n_rows, whole.sampled_from) == (100, None)
    assert (sample.n_rows, sample.sampled_from) == (20, 100)
    assert sample.digest != whole.digest
    assert set(sample.column("id").to_pylist()) < set(whole.column("id").to_pylist())


def test_a_sample_of_all_rows_is_the_whole_set(tmp_path, comments):
    whole = freeze_source(make_source(comments), tmp_path / "store")
    same = freeze_source(make_source(comments, sample=100), tmp_path / "store")
    assert (same.digest, same.sampled_from) == (whole.digest, None)


def test_a_list_of_phrases_is_not_sampled(comments):
    with pytest.raises(ValueError, match=r"`sample` and `population: these_rows` must not be set"):
        make_source(comments, sample=20, population="these_rows")


def test_a_set_without_rows_is_refused_as_without_a_sample(tmp_path, comments):
    comments.write_text(comments.read_text("utf-8").splitlines()[0] + "\n", "utf-8")
    with pytest.raises(InputError, match="must have rows"):
        freeze_source(make_source(comments, sample=20), tmp_path / "store")
