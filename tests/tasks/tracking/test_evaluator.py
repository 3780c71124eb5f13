"""The MLflow plugin returns the same numbers as `evaluate_bias`."""

import subprocess
import sys
from importlib.metadata import entry_points

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry

from bias_metrics import evaluate_bias
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.tracking.log_runs import collect_counts, collect_metrics
from biasgate.tasks.tracking.mlflow_plugin import TABLE, BiasEvaluator

# MLflow 3.17 handles tables in ways that pandas 3.1 deprecates.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning"),
]
SUBGROUPS = ["gay", "muslim"]


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    label = rng.random(500) < 0.4
    return pd.DataFrame(
        {
            "length": rng.random(500),
            "gay": rng.integers(0, 5, 500) / 4,
            "muslim": np.where(rng.random(500) < 0.1, np.nan, rng.integers(0, 2, 500)),
            "thread": rng.integers(0, 40, 500),
            "toxic": label.astype(float),
            "score": label + 1.5 * rng.random(500),
        }
    )


@pytest.fixture
def tracked(tmp_path):
    """A separate tracking store for MLflow's active run."""
    gateway = Gateway(f"sqlite:///{tmp_path / 'mlflow.db'}", (tmp_path / "artifacts").as_uri())
    mlflow.set_tracking_uri(gateway.uri)  # which writes MLFLOW_TRACKING_URI as well
    # The installed package says so by its entry point; a checkout need not be installed.
    _model_evaluation_registry.register("biasgate", BiasEvaluator)
    yield gateway
    mlflow.set_tracking_uri(None)


def expected(rows, **options):
    groups = {name: (rows[name] >= 0.5).to_numpy() for name in SUBGROUPS}
    return evaluate_bias(rows["toxic"] >= 0.5, rows["score"], groups, **options)


CHOICES = {"background": "no_identity", "power_mean_groups": ["gay"]}


def evaluate(gateway, rows, config, **options):
    experiment = gateway.ensure_experiment("plugin")
    with mlflow.start_run(experiment_id=experiment) as run:
        arguments = {"data": rows, "targets": "toxic", "predictions": "score"}
        arguments |= {"model_type": "bias"} | options
        found = mlflow.models.evaluate(
            evaluators="biasgate", evaluator_config={"subgroups": SUBGROUPS} | config, **arguments
        )
    return found, gateway.client.get_run(run.info.run_id)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({}, {}),
        pytest.param(CHOICES, CHOICES, marks=pytest.mark.slow),
        (CHOICES | {"clusters": "thread"}, CHOICES | {"clusters": "thread"}),
    ],
    ids=["as they are", "with choices", "with choices and clusters"],
)
def test_metrics_equal_those_of_the_library_under_the_keys_of_our_runs(
    tracked, rows, config, options
):
    if "clusters" in options:
        options = options | {"clusters": rows["thread"].to_numpy()}
    bias = expected(rows, **options)
    found, run = evaluate(tracked, rows, config, model_type="bias")
    keys = collect_metrics(bias) | collect_counts(bias)
    assert {"auc/overall", "bpsn_auc/muslim", "negative_aeg/gay", "n_rows/gay"} <= set(keys)
    assert found.metrics == pytest.approx(keys, abs=1e-12, rel=0)
    assert run.data.metrics == pytest.approx(keys, abs=1e-12, rel=0)


@pytest.mark.parametrize("width", ["float16", "float32", "Float32"])
def test_thresholds_select_the_same_rows_in_every_width(tracked, rows, width):
    columns = {name: (rows[name].fillna(0) * 7).round() / 10 for name in [*SUBGROUPS, "toxic"]}
    wide = rows.assign(**columns)
    narrow = wide.astype(dict.fromkeys(columns, width))
    options = {"label_threshold": 0.7, "identity_threshold": 0.7}
    of_wide, of_narrow = (evaluate(tracked, each, options)[0].metrics for each in (wide, narrow))
    assert of_wide["n_rows/gay"] > 0
    assert of_narrow == of_wide


def test_the_table_has_a_row_per_subgroup_with_intervals(tracked, rows):
    found, run = evaluate(tracked, rows, {})
    kept = tracked.read_json(run.info.run_id, TABLE)
    assert [row[0] for row in kept["data"]] == SUBGROUPS
    bias = expected(rows).subgroups
    lows = found.artifacts[TABLE].content["bpsn_auc_low"]
    assert lows == pytest.approx([bias[name].bpsn_auc.low for name in SUBGROUPS], abs=1e-12)


def test_a_model_gets_the_rows_without_the_columns_of_subgroups(tracked, rows):
    class Echo(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):
            del context, params
            assert list(model_input.columns) == ["length", "thread"]
            return np.column_stack([1 - model_input["length"], model_input["length"]])

    folder = tracked.artifacts.removeprefix("file://") + "/model"
    mlflow.pyfunc.save_model(folder, python_model=Echo(), pip_requirements=[])
    found, _ = evaluate(
        tracked,
        rows.drop(columns="score"),
        {},
        model=mlflow.pyfunc.load_model(folder),
        predictions=None,
    )
    bias = expected(rows.assign(score=rows["length"]))
    assert found.metrics["auc/overall"] == bias.overall.auc.value


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"subgroups": ["martian"]}, "must be columns of the data; got 'martian'"),
        ({"subgroups": "gay"}, "as a list; got 'gay'"),
        ({"subgroup": ["gay"]}, "must have known keys; got 'subgroup'"),
    ],
)
def test_a_wrong_option_is_refused(tracked, rows, config, message):
    with pytest.raises(InputError, match=message):
        evaluate(tracked, rows, config)


def test_other_evaluations_are_left_alone():
    judge = BiasEvaluator()
    assert not judge.can_evaluate(model_type="classifier", evaluator_config={})
    assert not judge.can_evaluate(model_type=None, evaluator_config=None)
    assert judge.can_evaluate(model_type="bias", evaluator_config={})
    assert judge.can_evaluate(model_type="classifier", evaluator_config={"subgroups": ["gay"]})


@pytest.mark.slow
def test_the_installed_package_names_the_plugin_which_loads_without_prefect():
    [found] = entry_points(group="mlflow.model_evaluator", name="biasgate")
    assert found.value == "biasgate.tasks.tracking.mlflow_plugin:BiasEvaluator"
    program = (
        "import sys, mlflow.models\n"
        "from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as a\n"
        "assert a.is_registered('biasgate')\n"
        "assert 'prefect' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-W", "error::UserWarning:mlflow.models", "-c", program], check=True
    )
