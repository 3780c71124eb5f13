import json

import pandas as pd
import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze

POSTS = {
    "1_gab": {
        "post_id": "1_gab",
        "post_tokens": ["some", "words"],
        "rationales": [],
        "annotators": [
            {"label": "hatespeech", "annotator_id": 1, "target": ["African", "Women"]},
            {"label": "offensive", "annotator_id": 2, "target": ["African"]},
            {"label": "normal", "annotator_id": 3, "target": ["None"]},
        ],
    },
    "2_twitter": {
        "post_id": "2_twitter",
        "post_tokens": ["others"],
        "rationales": [],
        "annotators": [{"label": "normal", "annotator_id": 1, "target": ["None"]}] * 3,
    },
}


def frozen(tmp_path, path, source, **options):
    settings = {"name": "set", "source": source, "path": path} | options
    found = freeze(SOURCES.validate_python(settings), tmp_path / "store")
    return {name: found.column(name).to_pylist() for name in found.columns}


def written(tmp_path, posts):
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(posts))
    return path


def test_posts_of_hatexplain_have_the_fractions_of_their_annotators(tmp_path):
    assert frozen(tmp_path, written(tmp_path, POSTS), "hatexplain") == {
        "id": ["1_gab", "2_twitter"],
        "text": ["some words", "others"],
        "label": [2 / 3, 0],
        "raters": [3, 3],
        "identity/african": [2 / 3, 0],
        "identity/women": [1 / 3, 0],
    }


def test_targets_of_hatexplain_may_be_joined(tmp_path):
    names = {"any": ["african", "Women"]}
    columns = frozen(tmp_path, written(tmp_path, POSTS), "hatexplain", names=names)
    assert columns["identity/any"] == [2 / 3, 0]
    with pytest.raises(InputError, match="none names 'martian'"):
        frozen(tmp_path, written(tmp_path, POSTS), "hatexplain", names=["martian"])


@pytest.mark.parametrize(
    "broken",
    [{"7": {}}, {"7": {"post_tokens": ["secret"], "annotators": [{"label": "bad"}]}}, [], {"7": 1}],
)
def test_another_layout_is_refused_without_a_word_of_it(tmp_path, broken):
    with pytest.raises(InputError, match="must have `post_tokens` and `annotators`") as refused:
        frozen(tmp_path, written(tmp_path, broken), "hatexplain")
    assert "secret" not in str(refused.value)


def test_rows_of_sbic_are_gathered_by_post(tmp_path):
    rows = pd.DataFrame(
        {
            "post": ["a", "b", "a", "a", "c"],
            "offensiveYN": [1.0, 0.0, 0.5, None, None],
            "targetMinority": ["black folks", None, "women", "black folks", None],
        }
    )
    rows.to_csv(tmp_path / "SBIC.v2.tst.csv", index=False)
    names = {"black": ["black folks", "africans"], "women": ["women"]}
    columns = frozen(tmp_path, tmp_path / "SBIC.v2.tst.csv", "sbic", names=names)
    assert columns["text"] == ["a", "b"]
    assert (columns["label"], columns["raters"]) == ([0.75, 0], [2, 1])
    assert (columns["identity/black"], columns["identity/women"]) == ([0.5, 0], [0.5, 0])
    with pytest.raises(InputError, match="must exist"):
        frozen(tmp_path, tmp_path / "none.csv", "sbic", names=names)
