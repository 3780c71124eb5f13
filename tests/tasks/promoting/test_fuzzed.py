"""Any JSON value in any field of a document: `verify` ends with a finding."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlflow import MlflowException
from support import memory
from support.cells import cell
from support.promoted import MODEL, frozen_set, signing_key
from support.registry import Registry
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.mlflow_server.runs import Gateway

FILES = ("verdict.json", "report.json", "policy.json", "attestation.json")
NASTY = [
    "\x1b[2K\r\u202e",
    "\ud800",
    "9" * 400,
    "models:/",
    "../../x",
    "2026-01-01",
    10**30,
    -1,
    0,
    float("nan"),
    float("inf"),
    1e308,
    {},
    [],
    [{}],
    [[]] * 3,
]
for _ in range(70):
    NASTY[-1] = [NASTY[-1]]
VALUES = st.sampled_from(NASTY) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def list_places(content, above=()) -> Iterator[tuple]:
    """Yield the paths to all values of a document; of lists only the first two and the last."""
    yield above
    items = content.items() if isinstance(content, dict) else ()
    if isinstance(content, list):
        at_ends = [0, 1, len(content) - 1]
        items = [(index, item) for index, item in enumerate(content) if index in at_ends]
    for key, value in items:
        yield from list_places(value, (*above, key))


def replace_value(content, place, value):
    if not place:
        return value
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[place[0]] = replace_value(content[place[0]], place[1:], value)
    return copy


class World:
    """A store in memory with a signed champion, whose documents are changed in turn."""

    def __init__(self, folder, patch):
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setattr(Gateway, "from_store", staticmethod(memory.gateway_of))
        signing_key(patch, folder / "secret")
        frozen_set(folder / "store")
        self.registry = Registry(
            memory.in_memory(folder / "store"), folder / "store", folder, patch
        )
        self.registry.promote_next()
        self.paths = {file: self.registry.find_file(file) for file in FILES}
        self.paths["record.json"] = self.registry.rows.with_name("record.json")
        self.texts = {name: path.read_text("utf-8") for name, path in self.paths.items()}
        self.texts["entry"] = self.registry.read_tag(1)
        self.documents = {name: json.loads(text) for name, text in self.texts.items()}
        envelope = self.documents["attestation.json"]
        self.documents["statement"] = json.loads(base64.b64decode(envelope["payload"]))
        self.documents["tags"] = dict(self.registry.get_version().tags)
        self.all = [
            (name, place)
            for name, content in self.documents.items()
            for place in list_places(content)
        ]

    def write(self, name, content):
        """Store a document like an attacker with write access everywhere."""
        if name == "tags":
            for key, value in content.items() if isinstance(content, dict) else ():
                text = value if isinstance(value, str) else json.dumps(value)
                text = text.encode(errors="replace").decode()
                with suppress(MlflowException):  # a key that no store takes cannot be forged
                    self.registry.gateway.client.set_model_version_tag(MODEL, "1", key, text)
        elif name == "statement":
            payload = base64.b64encode(json.dumps(content).encode()).decode()
            envelope = self.documents["attestation.json"] | {"payload": payload}
            self.write("attestation.json", envelope)
        else:
            self.write_text(name, json.dumps(content))

    def restore(self, name):
        """Restore the exact bytes of a document."""
        if name == "tags":
            self.write(name, self.documents[name])
            for key in self.registry.get_version(1).tags.keys() - self.documents[name].keys():
                self.registry.gateway.client.delete_model_version_tag(MODEL, "1", key)
        else:
            stored = "attestation.json" if name == "statement" else name
            self.write_text(stored, self.texts[stored])

    def write_text(self, name, text):
        if name == "entry":
            self.registry.put_tag(1, text)
        else:
            self.paths[name].write_text(text, "utf-8")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield World(tmp_path_factory.mktemp("world"), patch)


def run_verify(world):
    result = CliRunner().invoke(app, ["verify", MODEL, "--store", str(world.registry.store)])
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert result.exit_code in {0, 3}, result.output
    assert "Traceback" not in result.output
    assert result.output.replace("\n", "").isprintable()
    return result.exit_code


def verify_changed(world, name, place, value):
    """Return the exit code of `verify` with another value in a document."""
    world.write(name, replace_value(world.documents[name], place, value))
    try:
        return run_verify(world)
    finally:
        world.restore(name)


def check_value(world, data):
    name, place = data.draw(st.sampled_from(world.all), "document and place")
    value = data.draw(VALUES, "value")
    code = verify_changed(world, name, place, value)
    assert run_verify(world) == 0
    content = replace_value(world.documents[name], place, value)
    if name in {"verdict.json", "statement"}:
        assert code == 3 or json.dumps(content) == json.dumps(world.documents[name])


def test_a_number_with_neither_value_nor_reason_is_a_finding(world):
    assert run_verify(world) == 0
    assert len(world.all) > 300
    report = world.documents["report.json"]
    at = report["bias"]["numbers"].index(cell(report["bias"], "bpsn_auc", "gay"))
    assert verify_changed(world, "report.json", ("bias", "numbers", at, "value"), None) == 3


@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_in_any_field_ends_in_a_finding_or_holds(world, data):
    check_value(world, data)


@pytest.mark.slow
@settings(max_examples=150, derandomize=False, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_values_drawn_anew_end_in_a_finding_or_hold(world, data):
    check_value(world, data)
