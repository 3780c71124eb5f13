"""Source `chats`: an export of the moderation tool, one JSON list of messages."""

import json
from importlib.metadata import version

import pyarrow as pa

from biasgate.extend import ConfigPath, InputError, SourceSettings, TermMatcher


class Chats(SourceSettings):
    conversion = version("acme-biasgate")
    path: ConfigPath
    terms: dict[str, list[str]] = {"gay": ["gay", "gays"]}

    def files(self):
        return [self.path]

    def check(self):
        if not self.path.is_file():
            raise InputError(f"file {self.path} of set {self.name!r} must exist; it does not.")

    def matcher(self):
        return TermMatcher(self.terms)

    def chunks(self):
        messages = json.loads(self.path.read_text("utf-8"))
        texts = [one["message"] for one in messages]
        found = self.matcher().mentions(texts)
        yield pa.table(
            {
                "id": [one["id"] for one in messages],
                "text": texts,
                "label": [one["removed_by"] / one["moderators"] for one in messages],
                "cluster": [one["channel"] for one in messages],
                **{f"identity/{name}": found[:, at] for at, name in enumerate(self.terms)},
            }
        )
