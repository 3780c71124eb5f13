"""Start of the command: reports missing or shadowed packages before anything is imported."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# Packages of the extra `app` that no other dependency installs.
_APP = ("prefect", "mlflow", "pandas", "pyarrow", "sklearn", "typer")
_USAGE = 2


def main() -> None:
    """Run the command `biasgate`."""
    problem = describe_shadowing() or describe_missing_extra()
    if problem:
        sys.stderr.write(f"biasgate: {problem}\n")
        raise SystemExit(_USAGE)
    from biasgate.tasks.common.garbage import raise_gc_threshold  # noqa: PLC0415

    raise_gc_threshold()
    from biasgate.cli import app  # noqa: PLC0415

    app()


def describe_shadowing() -> str | None:
    """Return an error text if Python would import another `bias_metrics` than ours.

    A `bias_metrics.py` in the working folder has priority if that folder is on Python's path. All
    other code is in the package `biasgate`, whose name is uncommon.
    """
    root = Path(__file__).resolve().parent.parent
    spec = importlib.util.find_spec("bias_metrics")
    path = Path(spec.origin).resolve() if spec and spec.origin else None
    if path == root / "bias_metrics" / "__init__.py":
        return None
    return (
        f"the package 'bias_metrics' must come from {root}, but Python finds "
        f"{path or 'none with code'}. Another file or folder has the same name: "
        "rename it, run from another folder, or remove its folder from PYTHONPATH."
    )


def describe_missing_extra() -> str | None:
    """Return an error text if only the metric library is installed."""
    missing = [name for name in _APP if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return (
        f"the command needs the extra `app` ({', '.join(missing)} not installed). Run: "
        'pip install ".[app]" in a checkout of biasgate, or with the path of its wheel in place of '
        "the dot. The library bias_metrics works without it."
    )


if __name__ == "__main__":
    main()
