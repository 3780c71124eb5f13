"""Libraries that are imported only when needed; only numpy is required."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str, what: str) -> Any:
    """Import a module, or say which package `what` needs."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise
        msg = f"{what} needs {package}, which is not installed. Run: pip install {package}"
        raise ModuleNotFoundError(msg, name=package) from error
