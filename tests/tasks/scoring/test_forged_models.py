"""No code of a model from a registry runs unless the evaluation file says `trusted: true`."""

import json
import pickle
import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import mlflow
import pytest
import skops.io
import yaml
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from support.comments import batch
from support.judging import report_of, verdict_of
from support.registered import workplace_of

from bias_metrics import evaluate_bias
from biasgate.tasks.common.command_lines import format_command
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.gating.policy import read_policy
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.rivals import find_rivals
from biasgate.tasks.scoring.kinds import hugging_face
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = [f"{word} {n}" for n in range(20) for word in ("kind words", "vile insult")]
SIGNATURE = {"inputs": '[{"type": "string", "required": true}]'}
MODEL = "models:/words/1"
ROOT = Path(mlflow.__file__).parent


def list_loaders():
    """Return every module of MLflow that pyfunc may name as the loader of a flavour."""
    loaders = []
    for path in sorted(ROOT.rglob("*.py")):
        if re.search(r"^\s*def _load_pyfunc\(", path.read_text("utf-8"), re.MULTILINE):
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            loaders.append(".".join(parts).removesuffix(".__init__"))
    return loaders


class Touch:
    """A class whose pickle creates a file when it is loaded."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "code has run"


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """A model as biasgate saves it."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    save_classifier(pipeline.fit(TEXTS, [0, 1] * 20), folder, TEXTS[:2])
    return folder


@pytest.fixture
def model(saved_model, tmp_path):
    return shutil.copytree(saved_model, tmp_path / "model")


def open_model(folder, **settings):
    settings = {"name": "words", "kind": "mlflow", "model": MODEL} | settings
    return CANDIDATES.validate_python(settings).open(workplace_of(folder))


def change_flavours(folder, change):
    """Change the flavours in the MLmodel file of a folder."""
    content = yaml.safe_load((folder / "MLmodel").read_text())
    change(content["flavors"])
    (folder / "MLmodel").write_text(yaml.safe_dump(content))


def forge(folder, loader, marker):
    """Write a minimal model of a flavour: pickles that create a file, under all usual names."""
    flavour = loader.split(".")[1]
    code = folder / "code" / "planted"
    code.mkdir(parents=True)
    (code / "__init__.py").write_text(f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n")
    payload = pickle.dumps(Touch(marker))
    names = ("model.pkl", "python_model.pkl", "data/model.pkl", "data/model.pth", "model.bin")
    for name in (*names, "data/pickle_module_info.txt", "model.skops", "model/pytorch_model.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(payload)
    keys = {"data": "model.pkl", "model_path": "model.pkl", "pickled_model": "model.pkl"}
    keys |= {"python_model": "python_model.pkl", "cloudpickle_version": "3", "code": "code"}
    keys |= {"serialization_format": "pickle", "model_data": "data", "model_class": "planted.X"}
    pyfunc = keys | {"loader_module": loader, "python_version": "3.11.7"}
    flavours = {"python_function": pyfunc, flavour: dict(keys)}
    content = {"flavors": flavours, "signature": SIGNATURE}
    (folder / "MLmodel").write_text(yaml.safe_dump(content))
    return folder


def test_the_flavours_of_mlflow_are_found():
    assert {"mlflow.sklearn", "mlflow.pytorch", "mlflow.pyfunc.model"} <= set(list_loaders())
    assert len(list_loaders()) > 20


@pytest.mark.parametrize("kind", ["mlflow", "tfidf", "transformer"])
@pytest.mark.parametrize("loader", list_loaders())
def test_a_forged_model_of_any_flavour_is_refused_before_its_code_runs(
    loader, kind, tmp_path, marker
):
    if kind == "transformer":
        pytest.importorskip("torch", reason="needs the extra `text`")
    folder = forge(tmp_path, loader, marker)
    with pytest.raises(InputError, match=r"format that does not execute|of another flavour"):
        open_model(folder, kind=kind)
    assert not marker.exists()


def test_the_payload_would_run_if_mlflow_loaded_it(tmp_path, marker):
    folder = forge(tmp_path, "mlflow.sklearn", marker)
    with pytest.raises(Exception, match=""), open_model(folder, trusted=True) as scorer:  # noqa: PT011 - whatever follows
        scorer.score(batch(["a text"]))
    assert marker.exists()


def set_values(flavour, **values):
    return lambda flavours: flavours[flavour].update(values)


def drop_sklearn(flavours):
    del flavours["sklearn"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_values("python_function", data="elsewhere"), "`data` in python_function"),
        (set_values("python_function", code="code"), "`code` in python_function"),
        (set_values("python_function", config={}), "`config` in python_function"),
        (set_values("python_function", model_path="model.pkl"), "model_path: 'model.pkl'"),
        (set_values("python_function", loader_module="mlflow.pyfunc.model"), "loader_module"),
        (set_values("python_function", predict_fn="__reduce__"), "predict_fn: '__reduce__'"),
        (set_values("sklearn", code="code"), "code: 'code'"),
        (set_values("sklearn", serialization_format="pickle"), "serialization_format: 'pickle'"),
        (set_values("sklearn", skops_trusted_types=["os.system"]), "skops_trusted_types"),
        (lambda one: one.update(onnx={}), "it has onnx, python_function, sklearn"),
        (lambda one: one.update(sklearn=[]), "`no options` in sklearn"),
        (drop_sklearn, "it has python_function"),
    ],
)
def test_a_declaration_that_lets_mlflow_load_something_else_is_refused(model, change, said):
    change_flavours(model, change)
    with pytest.raises(InputError) as error:
        open_model(model)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["../model.skops", "/model.skops", "folder/model.skops", 7, None])
def test_only_a_file_at_the_top_of_the_folder_is_loaded(model, name):
    shutil.copy(model / "model.skops", model.parent / "model.skops")
    (model / "folder").mkdir()
    shutil.copy(model / "model.skops", model / "folder")
    change_flavours(model, set_values("sklearn", pickled_model=name))
    change_flavours(model, set_values("python_function", model_path=name))
    with pytest.raises(InputError, match=r"its file .* is not in the format of skops|is missing"):
        open_model(model)


def test_a_pickle_that_is_declared_and_named_as_skops_is_refused(model, marker):
    (model / "model.skops").write_bytes(pickle.dumps(Touch(marker)))
    with pytest.raises(InputError, match=r"'model\.skops' is not in the format of skops"):
        open_model(model)
    assert not marker.exists()


def shout(texts):
    return texts


def test_a_skops_file_with_a_type_that_may_run_code_is_refused_when_it_is_loaded(model):
    pipeline = make_pipeline(FunctionTransformer(shout), CountVectorizer(), LogisticRegression())
    skops.io.dump(pipeline.fit(TEXTS, [0, 1] * 20), model / "model.skops")
    for kind in ("mlflow", "tfidf"):
        with (
            open_model(model, kind=kind) as scorer,
            pytest.raises(InputError, match=r"types that may run code: .*shout"),
        ):
            scorer.score(batch(["a text"]))


@pytest.mark.parametrize("content", ["", "- a\n", "flavors: [", "flavors: 3\n"])
def test_an_mlmodel_that_is_none_is_refused(model, content):
    (model / "MLmodel").write_text(content)
    with pytest.raises(InputError, match=r"must have a file MLmodel|that does not execute code"):
        open_model(model)


def test_a_safe_model_needs_no_mlflow_to_be_loaded(model, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    with open_model(model) as scorer:
        low, high = scorer.score(batch(["kind words", "vile insult"]))
        assert low < 0.5 < high
        assert scorer.bound.not_bound is None


# ------------------------------------------------------------------ transformers


CONFIGS = [
    ("config.json", {"auto_map": {"AutoModel": "planted.X"}}),
    ("config.json", {"text_config": {"attn_implementation": "stranger/kernels"}}),
    ("config.json", {"_attn_implementation": "stranger/kernels"}),
    ("config.json", {"custom_pipelines": {"x": {"impl": "planted.X"}}}),
    ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["planted.X", None]}}),
    ("adapter_config.json", {"base_model_name_or_path": "/somewhere"}),
]


@pytest.mark.parametrize(("name", "content"), CONFIGS)
def test_a_transformer_that_names_code_is_refused_before_it_is_loaded(
    tmp_path, monkeypatch, name, content
):
    monkeypatch.setattr(hugging_face, "find_spec", lambda library: library)  # torch is an extra
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    (folder / name).write_text(json.dumps(content))
    settings = {"name": "t", "kind": "transformer", "folder": folder}
    with pytest.raises(InputError, match=r"its own code|names another model"):
        CANDIDATES.validate_python(settings).check()
    trusted = settings | {"trust_remote_code": "encoder"}
    CANDIDATES.validate_python(trusted).check()


# ------------------------------------------------------------------ what a verdict may decide


def make_registry(options, files=None, uri=MODEL):
    """Return a registry with a version and its verdict, which records how it was opened."""
    name, _, number = uri.removeprefix("models:/").rpartition("/")
    version = ModelVersion(name, number, "run", {"biasgate.s.run_id": "r"})
    bias = evaluate_bias([0, 1], [0.1, 0.9], {})
    report = report_of(bias, candidate={"model": uri, "opened_as": options})
    files_of_run = {"report.json": report.to_dict(), "verdict.json": verdict_of(report).to_dict()}
    return SimpleNamespace(
        get_alias=lambda *_: version,
        resolve=lambda _: version,
        list_versions=lambda _: [],
        read_json=lambda _, name: files_of_run[name],
        open_download=lambda _: nullcontext(files),
        format_command=format_command,
    )


def find_rival(options, model=None, **named):
    """Return the settings that open a champion with these options in its verdict."""
    gateway = make_registry(options, model)
    rivals = {}
    if named:
        settings = {"name": "champion", "kind": "mlflow", "model": "models:/words@champion"}
        rivals = {"champion": CANDIDATES.validate_python(settings | named)}
    policy = read_policy("default", Path())
    return find_rivals(rivals, "words", policy, [], gateway)["champion"], gateway


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "mlflow", "trusted": True},
        {"kind": "python", "call": "os:system", "version": "1"},
        {"kind": "http", "url": "http://stranger.example/invocations", "version": "1"},
        {"kind": "scores", "path": "/etc/passwd"},
        {"kind": "scores", "file": "scores.csv", "read_by": 7},
        {"kind": "transformer", "trust_remote_code": "models:/words/1"},
        {"kind": "transformer", "folder": "/somewhere"},
        {"kind": "transformer", "train_on": {}},
        {"kind": "transformer", "max_tokens": "many"},
        {"kind": "acme"},
        {"kind": ["mlflow"]},
        {},
    ],
)
def test_a_verdict_cannot_make_code_run_or_send_texts_elsewhere(options):
    with pytest.raises(InputError, match=r"the verdict on models:/words/1 must"):
        find_rival(options)


def test_a_verdict_says_a_safe_kind_and_its_plain_options():
    found, _ = find_rival({"kind": "transformer", "toxic_label": "toxic", "max_tokens": 64})
    assert (found.kind, found.toxic_label, found.max_tokens) == ("transformer", "toxic", 64)
    assert found.model == MODEL
    found, _ = find_rival({"kind": "mlflow"})
    assert (found.kind, found.trusted) == ("mlflow", False)


def test_the_evaluation_file_may_trust_a_champion_and_counts_more_than_its_verdict(
    tmp_path, marker
):
    folder = forge(tmp_path, "mlflow.sklearn", marker)
    found, gateway = find_rival({"kind": "mlflow"}, folder)
    with pytest.raises(InputError, match="set `trusted: true` in the evaluation file"):
        found.open(SimpleNamespace(gateway=gateway))
    found, gateway = find_rival({"kind": "mlflow", "label": "a"}, trusted=True, label="b")
    assert (found.trusted, found.label) == (True, "b")
    assert not marker.exists()


def test_the_verdict_on_a_file_of_scores_cannot_name_another_file(tmp_path):
    (tmp_path / "version").mkdir()
    (tmp_path / "version" / "scores.csv").write_text("id,prediction\n1,0.5\n")
    secret = tmp_path / "secret.csv"
    secret.write_text("id,prediction\n1,0.5\n")
    for name in (str(secret), "../secret.csv"):
        options = {"kind": "scores", "file": name, "read_by": {"id": "id", "score": "prediction"}}
        rival, gateway = find_rival(options, tmp_path / "version")
        with pytest.raises(InputError, match=r"it holds scores\.csv"):
            rival.open(SimpleNamespace(gateway=gateway))
    rival, gateway = find_rival(options | {"file": "scores.csv"}, tmp_path / "version")
    with rival.open(SimpleNamespace(gateway=gateway)) as scorer:
        assert scorer.bound.what == "scores"
