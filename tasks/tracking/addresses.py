"""Addresses of MLflow's pages, relative to its root.

Without `workflowType`, MLflow 3 shows its page for language models, which is empty.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

_KIND = "workflowType=machine_learning"


def runs_page(experiment_id: str) -> str:
    """Return the address of the list of runs."""
    return f"#/experiments/{experiment_id}/runs?{_KIND}"


def view_page(experiment_id: str, view: str, *, charts: bool = False) -> str:
    """Return the address of a saved view: as a table, or as charts and pictures."""
    mode = "&compareRunsMode=CHART" if charts else ""
    return f"{runs_page(experiment_id)}{mode}&viewStateShareKey={view}"


def models_page(experiment_id: str) -> str:
    """Return the address of the tab with all models of an experiment."""
    return f"#/experiments/{experiment_id}/models?{_KIND}"


def run_page(experiment_id: str, run_id: str) -> str:
    """Return the address of one run."""
    return f"#/experiments/{experiment_id}/runs/{run_id}?{_KIND}"


def artifact_page(experiment_id: str, run_id: str, path: str) -> str:
    """Return the address of one artifact, shown in the page of its run."""
    return f"#/experiments/{experiment_id}/runs/{run_id}/artifacts/{quote(path)}?{_KIND}"


def comparison_page(experiment_id: str, run_ids: Sequence[str]) -> str:
    """Return the address of the page that compares the parameters and metrics of runs."""
    runs = quote(json.dumps(list(run_ids), separators=(",", ":")))
    return f"#/compare-runs?runs={runs}&experiments={quote(json.dumps([experiment_id]))}"


def tables_page(experiment_id: str, view: str) -> str:
    """Return the address of the comparison of tables and files of the runs in a view."""
    return f"{runs_page(experiment_id)}&compareRunsMode=ARTIFACT&viewStateShareKey={view}"
