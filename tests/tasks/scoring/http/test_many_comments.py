"""Two thousand real comments through services of which one answer in a hundred fails."""

import csv
import math

import pyarrow as pa
import pytest
from support.services import KEY, expected, is_foreign, serving

from biasgate.tasks.data.evaluation_set import freeze_rows
from biasgate.tasks.scoring.kinds import http_requests as requests
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

FAULTS = [429, "cut", 500, 503, "hang", 502]


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["perspective", "openai-moderations", "azure-content-safety"])
def test_nothing_is_lost_and_nothing_doubled(preset, real_data, tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "WAIT_S", 0.01)
    monkeypatch.setenv("SERVICE_KEY", KEY)
    with (real_data / "civil_comments_natural_2000.csv").open(encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    texts = [line["comment_text"] for line in lines]
    ids = [line["id"] for line in lines]
    labels = [float(line["toxicity"]) for line in lines]
    table = pa.table({"id": ids, "text": texts, "label": labels})
    rows = freeze_rows([table], tmp_path / "rows", name="rows", split="all", source={})
    with serving(preset) as service:
        service.every = lambda n: FAULTS[n // 100 % len(FAULTS)] if n % 100 == 50 else None
        # Long enough for a busy machine: an answer that is late is asked for again.
        one = CANDIDATES.validate_python(service.candidate(timeout_s=10, batch_size=1))
        with one.open(None) as scorer:
            kept = score_rows(scorer, rows, one, str(tmp_path / "scores")).table()
        n_faults = len(service.seen) - sum(service.answered.values())
        assert kept["id"].to_pylist() == ids
        refused = [preset == "perspective" and is_foreign(one) for one in texts]
        wanted = [
            math.nan if unknown else expected(preset, one)
            for one, unknown in zip(texts, refused, strict=True)
        ]
        assert kept["score"].to_pylist() == pytest.approx(wanted, nan_ok=True)
        if any(refused):
            assert kept["missing"].to_pylist() == ["language" if one else None for one in refused]
        assert sum(service.answered.values()) == len(texts) - sum(refused)
        assert n_faults >= 20
