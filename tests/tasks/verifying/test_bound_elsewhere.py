"""Comparison of files behind an MLflow server, of logged models, and on S3."""

import tempfile

import pytest
from mlflow import MlflowClient
from support.promoted import MODEL, frozen_set, judge_version, local, promote_one, scores_of
from support.s3 import serving_s3

import biasgate
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.verify import NotVerifiedError, require_champion

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "MLmodel").write_text("flavors: {}\n")
    (folder / "weights").write_text("judged")
    (folder / "tokenizer" / "vocabulary").write_text("a b c")
    return folder


@pytest.fixture
def store(tmp_path):
    frozen_set(tmp_path / "store")
    return tmp_path / "store"


def register_from_run(gateway, model):
    run_id = gateway.ensure_run(gateway.ensure_experiment("models"), "first", "first")
    gateway.log_folder(run_id, model, "model")
    return gateway.register(MODEL, run_id, "model", {})


def register_logged_model(gateway, model):
    """Register a model like `mlflow.*.log_model(..., registered_model_name=...)` of MLflow 3."""
    client: MlflowClient = gateway.client
    run_id = gateway.ensure_run(gateway.ensure_experiment("models"), "first", "first")
    experiment = gateway.get_experiment_id(run_id)
    logged = client.create_logged_model(experiment, name="first", source_run_id=run_id)
    client.log_model_artifacts(logged.model_id, str(model))
    client.finalize_logged_model(logged.model_id, "READY")
    client.create_registered_model(MODEL)
    made = client.create_model_version(
        MODEL, f"models:/{logged.model_id}", run_id=run_id, model_id=logged.model_id
    )
    return gateway.resolve(f"models:/{MODEL}/{made.version}")


def promote_model(gateway, store, folder, version):
    verdict = judge_version(gateway, store, folder, version, scores_of(store, seed=0, noise=1.6))
    assert promote_one([verdict], gateway.resolve(version.uri), gateway).promoted


def check_exchange(gateway, store, uri, exchange, tmp_path, monkeypatch):
    """Check that a champion verifies and opens, and that it fails with other weights."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert require_champion(MODEL, gateway, store).version == "1"
    assert not list(temporary.iterdir())
    folder = biasgate.open_champion(MODEL, tracking_uri=uri, folder=tmp_path)
    assert folder.parent == tmp_path  # so that whoever removes it removes everything
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "weights").read_text() == "judged"
    assert (folder / "tokenizer" / "vocabulary").read_text() == "a b c"
    exchange()
    expected = "toxicity/1 match the files judged .*: weights: changed"
    with pytest.raises(NotVerifiedError, match=expected):
        require_champion(MODEL, gateway)
    with pytest.raises(ValueError, match=expected):
        biasgate.open_champion(MODEL, tracking_uri=uri)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("register", [register_from_run, register_logged_model])
def test_files_behind_a_server(register, mlflow_server, model, store, tmp_path, monkeypatch):
    gateway = Gateway(mlflow_server)
    version = register(gateway, model)
    assert gateway.find_files_uri(version).startswith("mlflow-artifacts:")
    promote_model(gateway, store, tmp_path / "judged", version)

    def exchange():
        [weights] = (tmp_path / "artifacts").rglob("weights")
        weights.write_text("others")

    check_exchange(gateway, store, mlflow_server, exchange, tmp_path, monkeypatch)


def test_files_of_a_logged_model_in_a_local_store(model, store, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    gateway = local(store)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", gateway.uri)  # as a user of log_model sets it
    version = register_logged_model(gateway, model)
    promote_model(gateway, store, tmp_path / "judged", version)

    def exchange():
        [weights] = (store / "mlartifacts").rglob("weights")
        weights.write_text("others")

    check_exchange(gateway, store, gateway.uri, exchange, tmp_path, monkeypatch)


def test_files_on_s3(model, store, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with serving_s3("models") as client:
        gateway = Gateway(local(store).uri, "s3://models/artifacts")
        version = register_from_run(gateway, model)
        assert gateway.find_files_uri(version).startswith("s3://models/")
        promote_model(gateway, store, tmp_path / "judged", version)

        def exchange():
            listed = client.list_objects_v2(Bucket="models")["Contents"]
            [key] = [item["Key"] for item in listed if item["Key"].endswith("/weights")]
            client.put_object(Bucket="models", Key=key, Body=b"others")

        check_exchange(gateway, store, gateway.uri, exchange, tmp_path, monkeypatch)
