"""The addresses of MLflow that this machine is set up for: runs, and the registry of models.

`MLFLOW_TRACKING_URI` names the server of runs, and `MLFLOW_REGISTRY_URI` that of models if it is
another one, as in MLflow itself.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from biasgate.tasks.common.errors import InputError

TRACKING, REGISTRY = "MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"
_DATABRICKS = frozenset({"databricks", "databricks-uc", "uc"})


def tracking_address() -> str | None:
    """Return the address of the server of runs; None for the database of a store."""
    return _supported(TRACKING)


def registry_address() -> str | None:
    """Return the address of the registry, if it is named apart from the server of runs."""
    return _supported(REGISTRY)


def require_supported(uri: str, name: str) -> str:
    """Return an address, unless it is one of Databricks."""
    if urlsplit(uri).scheme in _DATABRICKS or uri in _DATABRICKS:
        msg = (
            f"{name} must name MLflow's own server, a database or nothing, since "
            "biasgate does not work with Databricks and Unity Catalog; "
            f"got {urlsplit(uri).scheme or uri}."
        )
        raise InputError(msg)
    return uri


def _supported(name: str) -> str | None:
    found = os.environ.get(name)
    return require_supported(found, name) if found else None
