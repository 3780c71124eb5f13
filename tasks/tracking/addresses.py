"""Addresses of MLflow's pages, relative to its root.

Without `workflowType`, MLflow 3 opens its page for language models, which is empty here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

_WORKFLOW = "workflowType=machine_learning"


def format_runs_address(experiment_id: str) -> str:
    """Return the address of the list of runs of an experiment."""
    return f"#/experiments/{experiment_id}/runs?{_WORKFLOW}"


def format_view_address(experiment_id: str, view: str, *, charts: bool = False) -> str:
    """Return the address of a saved view: as a table, or as charts and pictures."""
    mode = "&compareRunsMode=CHART" if charts else ""
    return f"{format_runs_address(experiment_id)}{mode}&viewStateShareKey={view}"


def format_models_address(experiment_id: str) -> str:
    """Return the address of the tab *Models* of an experiment."""
    return f"#/experiments/{experiment_id}/models?{_WORKFLOW}"


def format_run_address(experiment_id: str, run_id: str) -> str:
    """Return the address of a run."""
    return f"#/experiments/{experiment_id}/runs/{run_id}?{_WORKFLOW}"


def format_artifact_address(experiment_id: str, run_id: str, path: str) -> str:
    """Return the address of an artifact on the page of its run."""
    return f"#/experiments/{experiment_id}/runs/{run_id}/artifacts/{quote(path)}?{_WORKFLOW}"


def format_comparison_address(experiment_id: str, run_ids: Sequence[str]) -> str:
    """Return the address of the page that compares the parameters and metrics of runs."""
    runs = quote(json.dumps(list(run_ids), separators=(",", ":")))
    return f"#/compare-runs?runs={runs}&experiments={quote(json.dumps([experiment_id]))}"


def format_tables_address(experiment_id: str, view: str) -> str:
    """Return the address of the page that compares tables and files of the runs in a view."""
    return f"{format_runs_address(experiment_id)}&compareRunsMode=ARTIFACT&viewStateShareKey={view}"
