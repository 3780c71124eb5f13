import pytest
from pydantic import ValidationError

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.civil_comments import IDENTITIES, JIGSAW_NINE
from biasgate.tasks.data.freezing import SOURCES, freeze_source


def make_source(folder=None, **options):
    options |= {} if folder is None else {"folder": folder}
    return SOURCES.validate_python({"name": "cc", "source": "civil_comments", **options})


@pytest.fixture
def freeze_set(tmp_path):
    return lambda folder, **options: freeze_source(
        make_source(folder, **options), tmp_path / "store"
    )


def read_values(frozen, column):
    ids = frozen.column("id").to_pylist()
    return dict(zip(ids, frozen.column(column).to_pylist(), strict=True))


@pytest.fixture
def expected(release):
    def select_values(column, *splits):
        rows = [row for split in splits for row in release.comments(split)]
        return {str(row["id"]): row[column] if row[column] != "" else None for row in rows}

    return select_values


TESTS = ("test_public", "test_private")


@pytest.mark.parametrize("layout", ["kaggle_files", "public_archive", "single_file"])
def test_every_row_of_both_tests_is_kept_by_default(
    tmp_path, freeze_set, layout, release, expected
):
    frozen = freeze_set(getattr(release, layout)(tmp_path))
    assert frozen.n_rows == 21
    assert read_values(frozen, "text") == expected("comment_text", *TESTS)
    assert read_values(frozen, "label") == expected("toxicity", *TESTS)
    assert read_values(frozen, "cluster") == {
        k: str(v) for k, v in expected("article_id", *TESTS).items()
    }
    for name in IDENTITIES:
        assert read_values(frozen, f"identity/{name}") == expected(name, *TESTS)


@pytest.mark.parametrize(
    ("label", "splits"),
    [
        ("toxicity", ["train"]),  # whose file calls it target
        ("toxicity", ["test_public", "train"]),
        ("identity_attack", ["train"]),
    ],
)
def test_the_label_is_read_whatever_its_column(
    tmp_path, freeze_set, release, expected, label, splits
):
    frozen = freeze_set(release.kaggle_files(tmp_path), label=label, split=splits)
    assert read_values(frozen, "label") == expected(label, *splits)


def test_rows_without_identity_raters_keep_null_and_rated_zeros_stay_zero(
    tmp_path, freeze_set, release
):
    frozen = freeze_set(release.kaggle_files(tmp_path))
    mentions = read_values(frozen, "identity/muslim")
    assert {k for k, v in mentions.items() if v is None} == {k for k in mentions if int(k) % 3 == 0}
    assert mentions["7004"] == 0.0
    assert all(frozen.column(f"identity/{name}").null_count == 7 for name in IDENTITIES)


def test_short_comments_are_those_under_a_hundred_characters(tmp_path, freeze_set, release):
    frozen = freeze_set(release.kaggle_files(tmp_path))
    lengths = {k: len(text) for k, text in read_values(frozen, "text").items()}
    assert read_values(frozen, "slice/short") == {k: n < 100 for k, n in lengths.items()}
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
def test_training_and_test_rows_share_no_id(tmp_path, freeze_set, layout, train, test, release):
    folder = getattr(release, layout)(tmp_path)
    training_set, test_set = (freeze_set(folder, split=[name]) for name in ("train", "test"))
    assert (training_set.n_rows, test_set.n_rows) == (train, test)
    assert not set(read_values(training_set, "id")) & set(read_values(test_set, "id"))
    assert training_set.digest != test_set.digest


def test_wilds_has_its_own_splits(tmp_path, freeze_set, release):
    folder = release.wilds(tmp_path)
    counts = {s: freeze_set(folder, split=[s]).n_rows for s in ("train", "val", "test")}
    assert counts == {"train": 14, "val": 14, "test": 18}


def test_the_split_is_part_of_the_digest_even_where_the_rows_are_the_same(
    tmp_path, freeze_set, release
):
    whole = freeze_set(release.single_file(tmp_path, splits=("test", "test", "test")))
    (tmp_path / "all_data.csv").unlink()
    other = freeze_set(release.single_file(tmp_path, splits=("train",) * 3), split="train")
    assert whole.n_rows == other.n_rows == 61
    assert whole.digest != other.digest


def test_layouts_of_the_same_rows_have_the_same_digest(tmp_path, freeze_set, release):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    assert (
        freeze_set(release.kaggle_files(folders[0])).digest
        == freeze_set(release.public_archive(folders[1])).digest
    )


def test_the_order_of_splits_and_the_choice_of_identities_change_nothing_frozen(
    tmp_path, freeze_set, release
):
    folder = release.kaggle_files(tmp_path)
    sets = [
        freeze_set(folder),
        freeze_set(folder, split=["test_private", "test_public"], identities=["hindu"]),
        freeze_set(folder, split="test", identities="all", label_threshold=0.7),
    ]
    assert len({frozen.folder for frozen in sets}) == 1
    assert sets[0].record["split"] == "test_private+test_public"


def test_the_most_detailed_layout_that_a_folder_has_whole_is_used(tmp_path, freeze_set, release):
    release.single_file(release.kaggle_files(tmp_path))
    expanded = {"test_public_expanded.csv", "test_private_expanded.csv"}
    assert set(freeze_set(tmp_path).record["source"]["files"]) == expanded
    (tmp_path / "test_public_expanded.csv").unlink()
    assert set(freeze_set(tmp_path).record["source"]["files"]) == {"all_data.csv"}


def test_the_identities_to_measure():
    available = list(IDENTITIES)
    assert make_source().measured_identities(available) == list(JIGSAW_NINE)
    assert make_source(identities="all").measured_identities(available) == available
    chosen = make_source(identities=["white", "male"])
    assert chosen.measured_identities(available) == ["white", "male"]


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
        make_source(getattr(release, layout)(tmp_path), split=split).check()


def test_a_split_without_rows_is_refused_with_what_the_file_has(tmp_path, freeze_set, release):
    folder = release.single_file(tmp_path, splits=("train", "validation", "validation"))
    with pytest.raises(InputError, match=r"train \(40 rows\), validation \(21 rows\)"):
        freeze_set(folder)


def test_a_folder_without_the_data_says_what_it_must_hold(tmp_path):
    with pytest.raises(InputError, match=r"none of train\.csv \+ test_public_expanded\.csv"):
        make_source(tmp_path).check()
    with pytest.raises(InputError, match="must be a folder"):
        make_source(tmp_path / "absent").check()


def test_a_missing_file_is_named(tmp_path, release):
    (release.kaggle_files(tmp_path) / "test_private_expanded.csv").unlink()
    with pytest.raises(InputError, match=r"it lacks test_private_expanded\.csv"):
        make_source(tmp_path).check()


def test_a_missing_column_is_named(tmp_path, release):
    release.write(tmp_path / "all_data.csv", ["id", "comment_text", "split", "toxicity"], [])
    with pytest.raises(InputError, match="must have the columns 'male', 'female'"):
        make_source(tmp_path).check()


def test_a_bad_fraction_is_named_with_its_place(tmp_path, freeze_set, release):
    folder = release.kaggle_files(tmp_path)
    rows = release.comments("test_public")
    rows[5]["muslim"] = 1.5
    columns = ["id", "comment_text", "toxicity", *IDENTITIES]
    path = release.write(folder / "test_public_expanded.csv", columns, rows)
    with pytest.raises(InputError) as caught:
        freeze_set(folder, split="test_public")
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
        make_source(**options)
