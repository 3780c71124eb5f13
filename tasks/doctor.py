"""Checks of this installation and its servers; problems are best solved in their order."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

import httpx
from packaging.requirements import Requirement

from biasgate.tasks.common.errors import InputError, describe_missing_module, format_install_hint
from biasgate.tasks.common.files import find_existing_folder
from biasgate.tasks.common.prefect_artifacts import get_api_url
from biasgate.tasks.common.secrets import mask_secrets
from biasgate.tasks.mlflow_server.local_store import DATABASE
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.server import REGISTRY, TRACKING, read_address
from biasgate.tasks.signing.keys import PRIVATE_KEY, SHORT_ID_LENGTH, PrivateKey, TrustedKeys

GIB = 2**30
_WRONG_BELOW_GIB, _WARN_BELOW_GIB, _MIN_FILES = 1, 10, 1000
_TIMEOUT_S = 10.0
_SHOWN_PACKAGES = ("mlflow", "prefect", "numpy", "pandas", "pyarrow", "scikit-learn")
# Known failures with versions outside the required range.
_KNOWN_FAILURES = {
    "fastapi": "Prefect 3.8 breaks, in part silently: flows die, reads answer 422",
    "sqlalchemy": "Prefect breaks, in part silently: its scheduler stops",
    "pyarrow": "MLflow 3.17 needs pyarrow below 26",
    "mlflow": "stores and registries of another version may not open",
    "prefect": "flows and deployments of another version may not run",
}
# Pairs (a, b): if a is installed, b is required. Package metadata cannot express this.
_CONDITIONAL_REQUIREMENTS = (("prefect<3.9", "sqlalchemy<2.1"),)


@dataclass(frozen=True)
class Diagnosis:
    """The result of one check."""

    what: str
    status: Literal["ok", "warning", "wrong"]
    """`wrong`: evaluations or promotions fail. `warning`: they may."""
    found: str
    do: str = ""
    """The remedy; may be empty."""


def run_checks(store: Path) -> Iterator[Diagnosis]:
    """Run every check, and yield each result as soon as it is available."""
    checks: dict[str, Callable[[], Iterable[Diagnosis]]] = {
        "versions": check_versions,
        "GPU": check_gpu,
        "disks": partial(check_disks, {"store": store}),
        "MLflow": partial(check_mlflow, store),
        "Prefect": check_prefect,
        "signing key": check_keys,
    }
    for name, check in checks.items():
        yield from guard_check(name, check)


def guard_check(name: str, check: Callable[[], Iterable[Diagnosis]]) -> Iterator[Diagnosis]:
    """Yield the results of a check; an error that it raises becomes a result, `wrong`."""
    try:
        yield from check()
    except InputError as error:
        yield Diagnosis(name, "wrong", mask_secrets(str(error)), "See the message above.")
    except Exception as error:  # noqa: BLE001 - libraries raise anything; other checks go on
        text = describe_missing_module(error) or f"{type(error).__name__}: {error}".splitlines()[0]
        yield Diagnosis(name, "wrong", mask_secrets(text), "See the message above.")


def check_versions(named: Sequence[str] | None = None) -> Iterator[Diagnosis]:
    """Compare the versions of installed packages with the required versions.

    `named`: requirements, as in a package's metadata. Default: those of biasgate.
    """
    has_errors = False
    named = (requires("biasgate") or []) if named is None else named
    paired = [
        second for first, second in _CONDITIONAL_REQUIREMENTS if _is_satisfied(Requirement(first))
    ]
    for requirement in map(Requirement, (*named, *paired)):
        extra = "text" if _is_for_extra(requirement, "text") else "app"
        if requirement.name == "biasgate" or not (
            _is_for_extra(requirement, "") or _is_for_extra(requirement, extra)
        ):
            continue
        installed = _find_version(requirement.name)
        if installed is None and extra == "text":
            continue  # the check of the GPU reports it
        if _is_satisfied(requirement):
            continue
        has_errors = True
        reason = _KNOWN_FAILURES.get(
            requirement.name.lower(), "biasgate was not tried with other versions"
        )
        text = f"{requirement.name} must be {requirement.specifier or 'installed'}; "
        text += "it is missing" if installed is None else f"{installed} is installed ({reason})"
        remedy = f'pip install "{requirement.name}{requirement.specifier}"'
        yield Diagnosis("versions", "wrong", text, remedy)
    if not has_errors:
        packages = ", ".join(
            f"{name} {_find_version(name) or 'missing'}" for name in ("biasgate", *_SHOWN_PACKAGES)
        )
        yield Diagnosis("versions", "ok", f"Python {platform.python_version()}, {packages}")


def _is_for_extra(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _is_satisfied(requirement: Requirement) -> bool:
    installed = _find_version(requirement.name)
    return installed is not None and requirement.specifier.contains(installed, prereleases=True)


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_gpu() -> Iterator[Diagnosis]:
    """Diagnosis whether torch can use a GPU; only candidates of kind `transformer` do."""
    driver = _list_driver_gpus()
    if importlib.util.find_spec("torch") is None:
        if driver:
            remedy = f"For candidates of kind `transformer`: {format_install_hint('text')}"
            yield Diagnosis("GPU", "warning", f"{driver}; torch is not installed", remedy)
        else:
            text = "torch is not installed; only candidates of kind `transformer` need it"
            yield Diagnosis("GPU", "ok", text)
        return
    import torch  # noqa: PLC0415 - takes seconds, and may be missing

    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        name = torch.cuda.get_device_name()
        text = f"{name}, {free / GIB:.1f} of {total / GIB:.1f} GiB free, torch {torch.__version__}"
        yield Diagnosis("GPU", "ok", text)
    elif driver:
        text = f"{driver}; torch {torch.__version__} cannot use it"
        yield Diagnosis("GPU", "wrong", text, "Install the build of torch for this driver's CUDA.")
    else:
        yield Diagnosis("GPU", "ok", "none; candidates of kind `transformer` are scored on the CPU")


def _list_driver_gpus() -> str:
    """Return the names of the GPUs that the driver lists; empty if no driver answers."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return ""
    query = [command, "--query-gpu=name", "--format=csv,noheader"]
    try:
        result = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ", ".join(result.stdout.split("\n")).strip(", ") if result.returncode == 0 else ""


def check_disks(places: Mapping[str, Path]) -> Iterator[Diagnosis]:
    """Diagnosis that folders are writable and have space. They need not exist.

    `places`: folders by purpose. The folder of temporary files is checked as well.
    """
    for purpose, place in {**places, "temporary files": Path(tempfile.gettempdir())}.items():
        folder = find_existing_folder(place)
        name = f"disk of the {purpose}"
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"x")
        except OSError as error:
            text = f"{folder} cannot be written to: {error.strerror}"
            yield Diagnosis(name, "wrong", text, "Make it writable, or name another place.")
            continue
        free = shutil.disk_usage(folder).free / GIB
        n_files = os.statvfs(folder).f_favail if hasattr(os, "statvfs") else _MIN_FILES
        text, remedy = (
            f"{free:.1f} GiB free at {folder}",
            "Free space, for example with `biasgate clean`.",
        )
        if 0 < n_files < _MIN_FILES:
            text, remedy = f"{text}, and room for only {n_files} more files", "Remove some files."
            yield Diagnosis(name, "wrong", text, remedy)
        elif free < _WARN_BELOW_GIB:
            yield Diagnosis(name, "wrong" if free < _WRONG_BELOW_GIB else "warning", text, remedy)
        else:
            yield Diagnosis(name, "ok", text)


def check_mlflow(store: Path) -> Iterator[Diagnosis]:
    """Diagnosis that MLflow and its registry answer, or that a local store opens."""
    if not read_address(TRACKING) and not (store / DATABASE).exists():
        yield Diagnosis(
            "MLflow", "ok", f"{store} does not have runs yet; the first evaluation creates them"
        )
        return
    gateway = Gateway.from_store(store)
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    auth = (user, os.environ.get("MLFLOW_TRACKING_PASSWORD", "")) if user else None
    for name, variable, uri in (
        ("MLflow", TRACKING, gateway.uri),
        ("MLflow's registry", REGISTRY, gateway.registry or ""),
    ):
        if uri.startswith("http"):
            url = f"{uri.rstrip('/')}/version"
            yield _check_server(name, url, variable, version("mlflow"), auth)
        elif uri == gateway.uri:
            gateway.list_models()
            yield Diagnosis(
                "MLflow", "ok", f"{mask_secrets(uri)} answers; MLflow {version('mlflow')}"
            )


def check_prefect() -> Iterator[Diagnosis]:
    """Diagnosis that Prefect's server answers, if its address is set."""
    address = get_api_url()
    if address:
        url = f"{address.rstrip('/')}/admin/version"
        yield _check_server("Prefect", url, "PREFECT_API_URL", version("prefect"))
    else:
        text = "no server is set, so each command starts its own"
        yield Diagnosis("Prefect", "ok", text, "For schedules, set PREFECT_API_URL to a server.")


def _check_server(
    name: str, url: str, variable: str, installed: str, auth: tuple[str, str] | None = None
) -> Diagnosis:
    """Compare a server's version with `ours`.

    `variable`: the environment variable that holds its address, for the message.
    """
    try:
        response = httpx.get(url, timeout=_TIMEOUT_S, auth=auth)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        text = f"{mask_secrets(url)} does not answer ({type(error).__name__})"
        return Diagnosis(name, "wrong", text, f"Start the server, or set {variable} to another.")
    if response.status_code in {401, 403}:
        text = f"{mask_secrets(url)} refuses this user ({response.status_code})"
        return Diagnosis(
            name, "wrong", text, "Set user and password, or ask the server's administrator."
        )
    if response.is_error or "<html" in response.text[:500].lower():
        text = f"{mask_secrets(url)} answers {response.status_code}, but not like {name}"
        return Diagnosis(name, "wrong", text, "Diagnosis the address, and the server's log.")
    server_version = response.text.strip('"\n ')[:20]
    text = f"{mask_secrets(url)} answers version {server_version}; {installed} is installed here"
    server_minor, own_minor = (
        ".".join(number.split(".")[:2]) for number in (server_version, installed)
    )
    if server_minor == own_minor:
        return Diagnosis(name, "ok", text)
    return Diagnosis(name, "warning", text, f"Run version {own_minor} on the server.")


def check_keys() -> Iterator[Diagnosis]:
    """Diagnosis the private key for signing, and the trusted keys."""
    private_key, trusted = PrivateKey.from_environment(), TrustedKeys.load()
    if private_key is None:
        text = "none: anyone with write access to the registry can forge verdicts"
        remedy = f"Run `biasgate keys new`, and set {PRIVATE_KEY}."
        if trusted:
            text = f"none, but {len(trusted.keys)} keys are trusted: this machine can only verify"
            remedy = f"Set {PRIVATE_KEY} on machines that run evaluations."
        yield Diagnosis("signing key", "warning", text, remedy)
        return
    key_id = private_key.public.key_id
    setting = os.environ[PRIVATE_KEY]
    path = Path(setting).expanduser() if len(setting) < 1024 and "\n" not in setting else None
    if trusted.keys[key_id].revoked_since:
        remedy = "Run `biasgate keys new`, and trust the new key."
        yield Diagnosis("signing key", "wrong", f"{key_id[:SHORT_ID_LENGTH]} is revoked", remedy)
    elif path is not None and path.is_file() and path.stat().st_mode & 0o077:
        remedy = "Let only its owner read it: chmod 600 FILE"
        yield Diagnosis(
            "signing key",
            "warning",
            f"others can read the file of {key_id[:SHORT_ID_LENGTH]}",
            remedy,
        )
    else:
        text = f"{key_id[:SHORT_ID_LENGTH]} signs; {len(trusted.keys)} keys are trusted"
        yield Diagnosis("signing key", "ok", text)
