import pytest
from pydantic import ValidationError

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.civil_comments import IDENTITIES, JIGSAW_NINE
from biasgate.tasks.data.freezing import SOURCES, freeze


def source(folder=None, **options):
    options |= {} if folder is None else {"folder": folder}
    return SOURCES.validate_python({"name": "cc", "source": "civil_comments", **options})


@pytest.fixture
def frozen(tmp_path):
    return lambda folder, **options: freeze(source(folder, **options), tmp_path / "store")


def values(evaluation_set, column):
    ids = evaluation_set.column("id").to_pylist()
    return dict(zip(ids, evaluation_set.column(column).to_pylist(), strict=True))


@pytest.fixture
def expected(release):
    def values_of(column, *splits):
        rows = [row for split in splits for row in release.comments(split)]
        return {str(row["id"]): row[column] if row[column] != "" else None for row in rows}

    return values_of


TESTS = ("test_public", "test_private")


@pytest.mark.parametrize("layout", ["kaggle_files", "public_archive", "single_file"])
def test_every_row_of_both_tests_is_kept_by_default(tmp_path, frozen, layout, release, expected):
    found = frozen(getattr(release, layout)(tmp_path))
    assert found.n_rows == 21
    assert values(found, "text") == expected("comment_text", *TESTS)
    assert values(found, "label") == expected("toxicity", *TESTS)
    assert values(found, "cluster") == {
        k: str(v) for k, v in expected("article_id", *TESTS).items()
    }
    for name in IDENTITIES:
        assert values(found, f"identity/{name}") == expected(name, *TESTS)


@pytest.mark.parametrize(
    ("label", "splits"),
    [
        ("toxicity", ["train"]),  # whose file calls it target
        ("toxicity", ["test_public", "train"]),
        ("identity_attack", ["train"]),
    ],
)
def test_the_label_is_read_whatever_its_column(tmp_path, frozen, release, expected, label, splits):
    found = frozen(release.kaggle_files(tmp_path), label=label, split=splits)
    assert values(found, "label") == expected(label, *splits)


def test_rows_without_identity_raters_keep_null_and_rated_zeros_stay_zero(
    tmp_path, frozen, release
):
    found = frozen(release.kaggle_files(tmp_path))
    mentions = values(found, "identity/muslim")
    assert {k for k, v in mentions.items() if v is None} == {k for k in mentions if int(k) % 3 == 0}
    assert mentions["7004"] == 0.0
    assert all(found.column(f"identity/{name}").null_count == 7 for name in IDENTITIES)


def test_short_comments_are_those_under_a_hundred_characters(tmp_path, frozen, release):
    found = frozen(release.kaggle_files(tmp_path))
    lengths = {k: len(text) for k, text in values(found, "text").items()}
    assert values(found, "slice/short") == {k: n < 100 for k, n in lengths.items()}
    assert {n < 100 for n in lengths.values()} == {True, False}


@pytest.mark.parametrize(
    ("layout", "train", "test"),
    [
        ("kaggle_files", 40, 21),
        ("public_archive", 40, 21),
        ("single_file", 40, 21),
        ("wilds", 14, 18),
    ],
)
def test_training_and_test_rows_share_no_id(tmp_path, frozen, layout, train, test, release):
    folder = getattr(release, layout)(tmp_path)
    one, other = frozen(folder, split=["train"]), frozen(folder, split=["test"])
    assert (one.n_rows, other.n_rows) == (train, test)
    assert not set(values(one, "id")) & set(values(other, "id"))
    assert one.digest != other.digest


def test_wilds_has_its_own_splits(tmp_path, frozen, release):
    folder = release.wilds(tmp_path)
    counts = {s: frozen(folder, split=[s]).n_rows for s in ("train", "val", "test")}
    assert counts == {"train": 14, "val": 14, "test": 18}


def test_the_split_is_part_of_the_digest_even_where_the_rows_are_the_same(
    tmp_path, frozen, release
):
    whole = frozen(release.single_file(tmp_path, splits=("test", "test", "test")))
    (tmp_path / "all_data.csv").unlink()
    other = frozen(release.single_file(tmp_path, splits=("train",) * 3), split="train")
    assert whole.n_rows == other.n_rows == 61
    assert whole.digest != other.digest


def test_layouts_of_the_same_rows_have_the_same_digest(tmp_path, frozen, release):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    assert (
        frozen(release.kaggle_files(folders[0])).digest
        == frozen(release.public_archive(folders[1])).digest
    )


def test_the_order_of_splits_and_the_choice_of_identities_change_nothing_frozen(
    tmp_path, frozen, release
):
    folder = release.kaggle_files(tmp_path)
    sets = [
        frozen(folder),
        frozen(folder, split=["test_private", "test_public"], identities=["hindu"]),
        frozen(folder, split="test", identities="all", label_threshold=0.7),
    ]
    assert len({found.folder for found in sets}) == 1
    assert sets[0].record["split"] == "test_private+test_public"


def test_the_most_detailed_layout_that_a_folder_has_whole_is_used(tmp_path, frozen, release):
    release.single_file(release.kaggle_files(tmp_path))
    expanded = {"test_public_expanded.csv", "test_private_expanded.csv"}
    assert set(frozen(tmp_path).record["source"]["files"]) == expanded
    (tmp_path / "test_public_expanded.csv").unlink()
    assert set(frozen(tmp_path).record["source"]["files"]) == {"all_data.csv"}


def test_the_identities_to_measure():
    available = list(IDENTITIES)
    assert source().measured_identities(available) == list(JIGSAW_NINE)
    assert source(identities="all").measured_identities(available) == available
    assert source(identities=["white", "male"]).measured_identities(available) == ["white", "male"]


@pytest.mark.parametrize(
    ("layout", "split", "text"),
    [
        ("kaggle_files", "val", r"split val.*train, test_public, test_private"),
        ("single_file", "test_public", r"all_data.csv has the splits train, test\."),
        ("wilds", "test_private", r"identities.csv has the splits train, val, test\."),
    ],
)
def test_a_split_that_the_layout_lacks_is_refused_before_any_work(
    tmp_path, layout, split, text, release
):
    with pytest.raises(InputError, match=text):
        source(getattr(release, layout)(tmp_path), split=split).check()


def test_a_split_without_rows_is_refused_with_what_the_file_has(tmp_path, frozen, release):
    folder = release.single_file(tmp_path, splits=("train", "validation", "validation"))
    with pytest.raises(InputError, match=r"train \(40 rows\), validation \(21 rows\)"):
        frozen(folder)


def test_a_folder_without_the_data_says_what_it_must_hold(tmp_path):
    with pytest.raises(InputError, match=r"none of train\.csv \+ test_public_expanded\.csv"):
        source(tmp_path).check()
    with pytest.raises(InputError, match="must be a folder"):
        source(tmp_path / "absent").check()


def test_a_missing_file_is_named(tmp_path, release):
    (release.kaggle_files(tmp_path) / "test_private_expanded.csv").unlink()
    with pytest.raises(InputError, match=r"it lacks test_private_expanded\.csv"):
        source(tmp_path).check()


def test_a_missing_column_is_named(tmp_path, release):
    release.write(tmp_path / "all_data.csv", ["id", "comment_text", "split", "toxicity"], [])
    with pytest.raises(InputError, match="must have the columns 'male', 'female'"):
        source(tmp_path).check()


def test_a_bad_fraction_is_named_with_its_place(tmp_path, frozen, release):
    folder = release.kaggle_files(tmp_path)
    rows = release.comments("test_public")
    rows[5]["muslim"] = 1.5
    columns = ["id", "comment_text", "toxicity", *IDENTITIES]
    path = release.write(folder / "test_public_expanded.csv", columns, rows)
    with pytest.raises(InputError) as caught:
        frozen(folder, split="test_public")
    where = f"(file {path}, column muslim, row 5, id 7005)"
    assert str(caught.value) == f"a fraction must be in [0, 1]; got 1.5 {where}."


@pytest.mark.parametrize(
    "options",
    [
        {"folder": "data", "url": "https://example.org/a.zip"},
        {"url": "file:///etc/passwd"},
        {"url": "https://example.org/"},
        {"sha256": "abc"},
        {"split": []},
        {"split": ["dev"]},
        {"label": "rating"},
        {"identities": ["martian"]},
        {"identities": []},
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(options):
    with pytest.raises(ValidationError):
        source(**options)
