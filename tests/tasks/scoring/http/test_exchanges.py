"""Each preset sends the request, and reads the answer, that its service documents."""

from pathlib import Path

import pytest
import yaml
from support.comments import batch
from support.services import KEY, SERVICES, serving

from biasgate.tasks.scoring.http.preset import list_presets, read_preset
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.outcomes import PartlyScored

EXCHANGES = Path(__file__).parent / "exchanges"


@pytest.mark.parametrize("preset", list_presets())
def test_the_documented_exchange(preset, monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", KEY)
    wanted = yaml.safe_load((EXCHANGES / f"{preset}.yaml").read_text("utf-8"))
    with serving(preset) as service:
        service.answer = lambda _: wanted["answer"]
        given = {"name": "a", "kind": "http", "preset": preset, "url": service.url, "version": "1"}
        with CANDIDATES.validate_python(given | wanted["candidate"]).open(None) as scorer:
            found = scorer.score(batch(wanted["texts"]))
        [request] = service.seen
    found = found.scores if isinstance(found, PartlyScored) else found
    assert found.tolist() == pytest.approx(wanted["scores"], abs=1e-12)
    is_text = isinstance(wanted["request"], str)
    assert (request.body.decode() if is_text else request.json) == wanted["request"]
    assert request.query == {name: [one] for name, one in wanted.get("query", {}).items()}
    for name, value in wanted.get("headers", {}).items():
        assert request.headers[name] == value.replace("SECRET", KEY)


def test_every_preset_has_an_exchange_and_a_server_and_cites_its_sources():
    assert sorted(SERVICES) == list_presets() == sorted(one.stem for one in EXCHANGES.glob("*"))
    for name in list_presets():
        preset = read_preset(name)
        exchange = yaml.safe_load((EXCHANGES / f"{name}.yaml").read_text("utf-8"))
        assert all(one.startswith("https://") for one in [*preset.sources, exchange["source"]])
