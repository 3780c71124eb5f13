"""The MLflow plugin: `mlflow.models.evaluate(..., evaluators="biasgate")`.

MLflow finds the plugin by the entry point `mlflow.model_evaluator`, and imports it with its own
evaluators. Slow imports are therefore inside the functions that need them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator

MODEL_TYPE = "bias"
TABLE = "bias_metrics.json"
_OPTIONS = {"power_mean_groups", "background", "clusters", "confidence"}
_THRESHOLDS = {"label_threshold", "identity_threshold"}


class BiasEvaluator(ModelEvaluator):
    """Evaluator that measures the scores of a model with `bias_metrics.evaluate_bias`.

    `evaluator_config` has `subgroups`: the columns of mentioned identities, as fractions or 0
    and 1; null means 0. It may have `label_threshold` and `identity_threshold`
    (default 0.5), `clusters` (a column), `power_mean_groups`, `background` and `confidence`.
    """

    def can_evaluate(
        self, *, model_type: str | None, evaluator_config: Mapping[str, object] | None, **_: Any
    ) -> bool:
        """Return True if the model type is `bias`, or if the configuration has subgroups."""
        return model_type == MODEL_TYPE or "subgroups" in (evaluator_config or {})

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, object] | None,
        model: Any = None,
        **_: Any,
    ) -> EvaluationResult:
        """Measure bias; log a table of subgroups, and metrics under the keys of biasgate's runs.

        Raises
        ------
        InputError
            If an option is unknown, a column is missing or a score cannot be measured.
        """
        import mlflow  # noqa: PLC0415
        import numpy as np  # noqa: PLC0415
        from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact  # noqa: PLC0415

        from bias_metrics import evaluate_bias  # noqa: PLC0415
        from bias_metrics.parts import reaches_cut, widen_floats  # noqa: PLC0415
        from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415
        from biasgate.tasks.reporting.report import build_wide_table  # noqa: PLC0415
        from biasgate.tasks.tracking.log_runs import collect_counts, collect_metrics  # noqa: PLC0415

        config: dict[str, Any] = dict(evaluator_config or {})
        rows = dataset.features_data
        _check_config(config.keys(), config.get("subgroups"), rows)
        names = list(config["subgroups"])
        options = {key: config[key] for key in _OPTIONS & config.keys()}
        columns = set(names)
        if "clusters" in options:
            columns.add(options["clusters"])
            options["clusters"] = np.asarray(rows[options["clusters"]])
        threshold = config.get("identity_threshold", 0.5)
        scores = dataset.predictions_data
        if model is not None:
            scores = model.predict(rows.drop(columns=sorted(columns)))
        bias = evaluate_bias(
            reaches_cut(widen_floats(dataset.labels_data), config.get("label_threshold", 0.5)),
            _select_positive(np.asarray(scores)),
            {
                name: reaches_cut(widen_floats(rows[name].to_numpy(na_value=np.nan)), threshold)
                for name in names
            },
            **options,
        )
        metrics = collect_metrics(bias) | collect_counts(bias)
        gateway = Gateway(mlflow.get_tracking_uri(), registry=mlflow.get_registry_uri())
        gateway.log(run_id, metrics=metrics)
        table = build_wide_table(bias)
        gateway.log_table(run_id, table, TABLE)
        uri = f"{gateway.client.get_run(run_id).info.artifact_uri}/{TABLE}"
        artifact = JsonEvaluationArtifact(uri=uri, content=table)
        return EvaluationResult(metrics=metrics, artifacts={TABLE: artifact}, run_id=run_id)


def _check_config(keys: Collection[str], names: Any, rows: Any) -> None:
    from biasgate.tasks.common.errors import InputError  # noqa: PLC0415

    options = _OPTIONS | _THRESHOLDS | {"subgroups"}
    unknown = sorted({*keys} - options)
    if unknown:
        msg = (
            f"`evaluator_config` must have known keys; got {unknown[0]!r} "
            f"(known: {sorted(options)})."
        )
        raise InputError(msg)
    if not names or isinstance(names, str):
        msg = f"`evaluator_config` must name columns in `subgroups`, as a list; got {names!r}."
        raise InputError(msg)
    missing = [name for name in names if name not in getattr(rows, "columns", [])]
    if missing:
        msg = f"`subgroups` must be columns of the data; got {missing[0]!r}."
        raise InputError(msg)


def _select_positive(scores: Any) -> Any:
    """Return the scores of the positive class, which is the second of two columns.

    Raises
    ------
    InputError
        If there are more than two columns.
    """
    from biasgate.tasks.common.errors import InputError  # noqa: PLC0415

    if scores.ndim == 2 and scores.shape[1] in {1, 2}:
        return scores[:, -1]
    if scores.ndim != 1:
        msg = f"predictions must have 1 or 2 scores per row; got shape {scores.shape}."
        raise InputError(msg)
    return scores
