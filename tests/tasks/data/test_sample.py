import csv
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze
from biasgate.tasks.data.hashed_parts import draw_sample


def draw(table, wanted, step=7):
    chunks = [table.slice(at, step) for at in range(0, table.num_rows, step)]
    found, n_all = draw_sample(chunks, wanted)
    assert n_all == table.num_rows
    return pa.concat_tables(found)


def rows(clusters):
    return pa.table({"id": [f"i{at}" for at in range(len(clusters))], "cluster": clusters})


CLUSTERS = st.lists(st.integers(0, 12).map(str), min_size=1, max_size=80)


@given(CLUSTERS, st.integers(1, 90), st.randoms())
def test_a_sample_has_whole_clusters_and_does_not_depend_on_the_order(clusters, wanted, random):
    table = rows(clusters)
    found = draw(table, wanted)
    order = list(range(table.num_rows))
    random.shuffle(order)
    shuffled = draw(table.take(pa.array(order)), wanted, step=3)
    assert sorted(shuffled["id"].to_pylist()) == sorted(found["id"].to_pylist())
    sizes = Counter(clusters)
    assert all(sizes[name] == n for name, n in Counter(found["cluster"].to_pylist()).items())


@given(CLUSTERS, st.integers(1, 80))
def test_a_larger_sample_contains_a_smaller_one(clusters, wanted):
    table = rows(clusters)
    smaller, larger = (draw(table, n)["id"].to_pylist() for n in (wanted, wanted + 9))
    assert set(smaller) <= set(larger)


@given(CLUSTERS, st.integers(1, 80))
def test_no_other_number_of_whole_clusters_is_closer_to_the_wanted_rows(clusters, wanted):
    table = rows(clusters)
    n = draw(table, wanted).num_rows
    nested = {draw(table, other).num_rows for other in range(1, len(clusters) + 1)}
    assert abs(n - wanted) == min(abs(other - wanted) for other in nested)


def test_rows_that_are_dropped_on_the_way_belong_to_no_sample(monkeypatch):
    rng = np.random.default_rng(5)
    table = rows([str(name) for name in rng.zipf(1.6, 4000) % 900])
    expected = draw(table, 300, step=4000)
    monkeypatch.setattr("biasgate.tasks.data.hashed_parts._SPARE_ROWS", 0)
    found = draw(table, 300, step=50)
    assert found["id"].to_pylist() == expected["id"].to_pylist()


def test_ids_are_drawn_uniformly():
    table = pa.table({"id": [str(at) for at in range(20_000)]})
    found = draw(table, 4_000, step=999)
    assert found.num_rows == 4_000
    by_tenth = np.bincount(np.array(found["id"].to_pylist(), dtype=int) // 2_000, minlength=10)
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


def source(path, **options):
    known = {"name": "c", "source": "table", "path": path, "id": "id", "text": "text"}
    known |= {"label": "toxic", "identities": ["gay"], "cluster": "thread"}
    return SOURCES.validate_python(known | options)


def test_a_frozen_sample_records_the_rows_of_the_whole_set(tmp_path, comments):
    whole = freeze(source(comments), tmp_path / "store")
    sample = freeze(source(comments, sample=20), tmp_path / "store")
    assert (whole.n_rows, whole.sampled_from) == (100, None)
    assert (sample.n_rows, sample.sampled_from) == (20, 100)
    assert sample.digest != whole.digest
    assert set(sample.column("id").to_pylist()) < set(whole.column("id").to_pylist())


def test_a_sample_of_all_rows_is_the_whole_set(tmp_path, comments):
    whole = freeze(source(comments), tmp_path / "store")
    same = freeze(source(comments, sample=100), tmp_path / "store")
    assert (same.digest, same.sampled_from) == (whole.digest, None)


def test_a_list_of_phrases_is_not_sampled(comments):
    with pytest.raises(ValueError, match=r"`sample` and `population: these_rows` must not be set"):
        source(comments, sample=20, population="these_rows")


def test_a_set_without_rows_is_refused_as_without_a_sample(tmp_path, comments):
    comments.write_text(comments.read_text("utf-8").splitlines()[0] + "\n", "utf-8")
    with pytest.raises(InputError, match="must have rows"):
        freeze(source(comments, sample=20), tmp_path / "store")
