"""An exact replacement of the function shared by Kaggle's Jigsaw 2019 notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bias_metrics._core.masks import get_columns
from bias_metrics._core.tables import import_optional
from bias_metrics.metrics import AUCS
from bias_metrics.report.evaluation import evaluate_bias


def compute_bias_metrics_for_model(
    dataset: Any, subgroups: Iterable[str], model: str, label_col: str
) -> Any:
    """Measure a model by subgroup, as in the notebooks of the Jigsaw 2019 competition.

    Replaces the function of this name in those notebooks, with the same arguments, columns and
    order. Call `evaluate_bias` for intervals, Average Equality Gaps and aggregates.

    Parameters
    ----------
    dataset : pandas.DataFrame
        A row per comment. Columns of labels and subgroups must be boolean (or 0 and 1):
        threshold fractions with `>= 0.5` first.
    subgroups : iterable of str
        The columns of identity mentions.
    model : str
        The column of the model's scores.
    label_col : str
        The column of the labels, True for the positive (toxic) class.

    Returns
    -------
    pandas.DataFrame
        The columns `subgroup`, `subgroup_size`, `subgroup_auc`, `bpsn_auc` and `bnsp_auc`, with a
        row per subgroup, the lowest `subgroup_auc` first. AUCs are in [0, 1], ideal 1, and NaN (the
        missing value of pandas) if a class is empty.

    Raises
    ------
    KeyError
        If a column is missing.
    ModuleNotFoundError
        If pandas is not installed.
    ValueError, TypeError
        As `evaluate_bias`.

    References
    ----------
    Borkan et al. (2019), equations 1 to 3; Jigsaw Unintended Bias in Toxicity Classification
    (2019), benchmark kernel.

    Examples
    --------
    >>> import pandas as pd
    >>> comments = pd.DataFrame(
    ...     {"target": [0, 1, 0, 1], "score": [0.2, 0.9, 0.8, 0.7], "gay": [0, 0, 1, 1]}
    ... )
    >>> compute_bias_metrics_for_model(comments, ["gay"], "score", "target").values.tolist()
    [['gay', 2, 0.0, 1.0, 1.0]]
    """
    pandas = import_optional("pandas", "compute_bias_metrics_for_model")
    columns = get_columns(dataset, "dataset")
    names = list(subgroups)
    report = evaluate_bias(
        columns[label_col], columns[model], {name: columns[name] for name in names}, intervals=False
    )
    records = [
        {"subgroup": name, "subgroup_size": report.counts[name].n}
        | {metric: cells[metric].value for metric in AUCS}
        for name, cells in report.subgroups.items()
    ]
    frame = pandas.DataFrame(records, columns=["subgroup", "subgroup_size", *AUCS])
    frame = frame.astype(dict.fromkeys(AUCS, float))
    return frame.sort_values("subgroup_auc", ascending=True, kind="stable")
