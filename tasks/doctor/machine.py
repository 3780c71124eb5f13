"""The machine: installed versions, GPU, disks."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from biasgate.tasks.common.errors import to_install
from biasgate.tasks.doctor.check import Check

GIB = 2**30
LEAST, FEW = 1 * GIB, 10 * GIB
_LEAST_FILES = 1000
_SHOWN = ("mlflow", "prefect", "numpy", "pandas", "pyarrow", "scikit-learn")
# What goes wrong outside of the bounds that biasgate names.
_BREAKS = {
    "fastapi": "Prefect 3.8 breaks, in part silently: flows die, reads answer 422",
    "sqlalchemy": "Prefect 3.8 breaks, in part silently: its scheduler stops",
    "pyarrow": "MLflow 3.17 needs pyarrow below 26, and installers fall back to MLflow 1",
    "mlflow": "stores and registries of another version may not open",
    "prefect": "flows and deployments of another version may not run",
}


def check_versions(named: Sequence[str] | None = None) -> Iterator[Check]:
    """Check installed packages against the versions that biasgate works with.

    `named`: requirements, as in a package's metadata. Default: those of biasgate.
    """
    wrong = False
    for require in map(Requirement, (requires("biasgate") or []) if named is None else named):
        extra = "text" if _is_of(require, "text") else "app"
        if require.name == "biasgate" or not (_is_of(require, "") or _is_of(require, extra)):
            continue
        try:
            found = version(require.name)
        except PackageNotFoundError:
            if extra == "text":
                continue  # only one kind of candidate needs it; the line on GPUs says so
            found = None
        if found is not None and require.specifier.contains(found, prereleases=True):
            continue
        wrong = True
        why = _BREAKS.get(require.name.lower(), "biasgate was not tried with others")
        said = f"{require.name} must be {require.specifier or 'installed'}; "
        said += "it is missing" if found is None else f"{found} is installed ({why})"
        yield Check("versions", "wrong", said, f'pip install "{require.name}{require.specifier}"')
    if not wrong:
        shown = ", ".join(f"{one} {_version(one)}" for one in ("biasgate", *_SHOWN))
        yield Check("versions", "ok", f"Python {platform.python_version()}, {shown}")


def _is_of(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def check_gpu() -> Iterator[Check]:
    """Check whether a GPU can be used; only the kind `transformer` needs one, to be fast."""
    driver = _nvidia()
    if importlib.util.find_spec("torch") is None:
        status, do = "ok", ""
        found = "torch is not installed; only candidates of kind `transformer` need it"
        if driver:
            status = "warning"
            found = f"{driver}; torch is not installed, so nothing uses it"
            do = f"For candidates of kind `transformer`: {to_install('text')}"
        yield Check("GPU", status, found, do)  # type: ignore[arg-type] # one of two words
        return
    import torch  # noqa: PLC0415 - takes seconds, and may be missing

    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        name = torch.cuda.get_device_name()
        found = f"{name}, {free / GIB:.1f} of {total / GIB:.1f} GiB free, torch {torch.__version__}"
        yield Check("GPU", "ok", found)
    elif driver:
        found = f"{driver}; torch {torch.__version__} cannot use it"
        yield Check("GPU", "wrong", found, "Install the build of torch for this driver's CUDA.")
    else:
        yield Check("GPU", "ok", "none; candidates of kind `transformer` are scored on the CPU")


def _nvidia() -> str:
    """Return the GPUs that the driver knows; empty without a driver that answers."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return ""
    query = [command, "--query-gpu=name", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ", ".join(found.stdout.split("\n")).strip(", ") if found.returncode == 0 else ""


def check_disks(places: Mapping[str, Path]) -> Iterator[Check]:
    """Check that places can be written to, and have space.

    `places`: folders, by their purpose; they need not exist. That of temporary files is added.
    """
    for what, place in {**places, "temporary files": Path(tempfile.gettempdir())}.items():
        folder = next(
            folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists()
        )
        yield _check_disk(f"disk of the {what}", folder)


def _check_disk(what: str, folder: Path) -> Check:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        do = "Make it writable, or name another place."
        return Check(what, "wrong", f"{folder} cannot be written to: {error.strerror}", do)
    free = shutil.disk_usage(folder).free
    files = os.statvfs(folder).f_favail if hasattr(os, "statvfs") else _LEAST_FILES
    found = f"{free / GIB:.1f} GiB free at {folder}"
    if 0 < files < _LEAST_FILES:
        return Check(what, "wrong", f"{found}, and only {files} more files", "Remove some files.")
    if free < LEAST:
        return Check(what, "wrong", found, "Free some space: `biasgate clean` says what can go.")
    do = "Soon free some space: `biasgate clean` says what can go."
    return Check(what, "warning", found, do) if free < FEW else Check(what, "ok", found)
