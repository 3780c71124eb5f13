"""Failures of sources in other packages: the source is named, the message is withheld."""

from typing import Literal

import pyarrow as pa
import pytest

from biasgate.tasks.common.errors import InputError, SourceError
from biasgate.tasks.data.freezing import freeze_source
from biasgate.tasks.data.source import SourceSettings

QUOTED = "a secret comment"
ROWS = pa.table({"id": ["1"], "text": ["x"], "label": [1.0], "identity/gay": [1.0]})


class FailingSource(SourceSettings):
    source: Literal["failing"] = "failing"
    fails_in: str
    error: type[Exception] = KeyError

    not_frozen = SourceSettings.not_frozen | {"fails_in", "error"}

    def fail_in(self, method):
        if self.fails_in == method:
            raise self.error(QUOTED)

    def check(self):
        self.fail_in("check")

    def prepare(self, cache):
        self.fail_in("prepare")
        return super().prepare(cache)

    def files(self):
        self.fail_in("files")
        return []

    def chunks(self):
        self.fail_in("first chunk")
        yield ROWS
        self.fail_in("second chunk")

    def notes(self):
        self.fail_in("notes")
        return {}


@pytest.mark.parametrize(
    "method", ["check", "prepare", "files", "first chunk", "second chunk", "notes"]
)
def test_it_is_named_and_its_message_is_withheld(tmp_path, method):
    message = r"^source 'failing' of evaluation set 'chats' failed with KeyError at .*withheld"
    with pytest.raises(SourceError, match=message) as error:
        freeze_source(FailingSource(name="chats", fails_in=method), tmp_path)
    assert QUOTED not in str(error.value)
    assert error.value.__context__ is None
    assert not list((tmp_path / "sets").glob("chats-*/record.json"))


def test_what_it_tells_the_user_to_fix_is_shown(tmp_path):
    source = FailingSource(name="chats", fails_in="first chunk", error=InputError)
    with pytest.raises(InputError, match=QUOTED):
        freeze_source(source, tmp_path)


class NonTableSource(FailingSource):
    def chunks(self):
        yield ROWS
        yield None


def test_a_chunk_that_is_no_table_does_not_end_the_set(tmp_path):
    with pytest.raises(InputError, match="'chats' must yield tables of pyarrow; got NoneType"):
        freeze_source(NonTableSource(name="chats", fails_in=""), tmp_path)
