"""Start of the command: reports missing or shadowed packages before anything is imported."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# All other code is inside the package `biasgate`, whose name is uncommon.
OURS = ("bias_metrics",)
# A package of the extra `app` that no other dependency installs.
_APP = ("prefect", "mlflow", "pandas", "pyarrow", "sklearn", "typer")
USAGE = 2


def main() -> None:
    """Run the command `biasgate`."""
    problem = shadowed() or missing_extra()
    if problem:
        sys.stderr.write(f"biasgate: {problem}\n")
        raise SystemExit(USAGE)
    from biasgate.tasks.common.garbage import raise_gc_threshold  # noqa: PLC0415

    raise_gc_threshold()
    from biasgate.cli import app  # noqa: PLC0415

    app()


def shadowed() -> str | None:
    """Return an error text if one of our packages would be imported from another place.

    A `bias_metrics.py` in the working folder comes first if that folder is on Python's path,
    and would run instead of ours.
    """
    root = Path(__file__).resolve().parent.parent
    for name in OURS:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve() if spec and spec.origin else None
        if found != root / name / "__init__.py":
            return (
                f"the package {name!r} must come from {root}, but Python finds "
                f"{found or 'none with code'}. Another file or folder has the same name: "
                "rename it, run from another folder, or remove its folder from PYTHONPATH."
            )
    return None


def missing_extra() -> str | None:
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
