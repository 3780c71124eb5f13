"""A file of scores may be renamed, unless the new name changes how it is read."""

import pytest
from support.partial import partial

from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.signing.manifest import Manifest
from biasgate.tasks.verifying.files import Finding, VersionFiles


def holds(tmp_path, judged, now, *, content="id,score", sizes=None):
    def manifest(name):
        (tmp_path / name).write_text(content, "utf-8")
        manifest = Manifest.from_path(tmp_path / name)
        (tmp_path / name).unlink()
        return manifest

    before, found = manifest(judged), manifest(now)
    bound = {"what": "scores", "digest": before.digest, "files": [*before.files]}
    listed = sizes and {now: len(content)}
    files = VersionFiles(
        ModelVersion("m", "1", None, {}), lambda: found, lambda: "there", lambda: listed
    )
    return files.compare(partial({"candidate": {"bound": bound}}), "set").holds


@pytest.mark.parametrize("name", ["b.csv", "other.csv", "b.v2.csv", "b.txt"])
@pytest.mark.parametrize("sizes", [None, True])
def test_the_same_scores_under_another_name_are_the_judged_ones(tmp_path, name, sizes):
    assert holds(tmp_path, "b.csv", name, sizes=sizes)


@pytest.mark.parametrize(
    "name", ["b.parquet", "b.pq", "b.tsv", "b.jsonl", "b.ndjson", "b.json", "b.csv.gz"]
)
def test_a_name_by_which_the_scores_are_read_otherwise_is_found(tmp_path, name):
    assert not holds(tmp_path, "b.csv", name)


def test_what_others_wrote_cannot_rewrite_the_line_of_a_finding():
    finding = Finding("tags", holds=True, sentence="all holds\x1b[2K\r\u202e")
    assert finding.sentence.isprintable()
    assert finding.sentence.startswith("all holds")
