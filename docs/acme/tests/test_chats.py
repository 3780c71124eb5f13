import json

import pytest

from biasgate.extend import SOURCES, InputError

MESSAGE = {"id": "m1", "message": "Gay?", "channel": "c", "moderators": 4, "removed_by": 1}


def chats(path):
    return SOURCES.validate_python({"name": "chats", "source": "chats", "path": path})


def test_the_label_is_the_share_of_moderators_who_removed_the_message(tmp_path):
    path = tmp_path / "export.json"
    path.write_text(json.dumps([MESSAGE]))
    [rows] = chats(path).chunks()
    assert rows["label"].to_pylist() == [0.25]
    assert rows["identity/gay"].to_pylist() == [True]


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="must exist"):
        chats(tmp_path / "none.json").check()
