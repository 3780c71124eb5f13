"""All checks of the doctor, in the order in which problems are best solved."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

import httpx
from packaging.requirements import Requirement

from biasgate.tasks.common.errors import CandidateError, InputError, to_install
from biasgate.tasks.common.prefect_artifacts import api_url
from biasgate.tasks.common.secrets import masked
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.freezing import freeze
from biasgate.tasks.evidence.file import RIVALS
from biasgate.tasks.ledger.entry import LEASE
from biasgate.tasks.ledger.ledger import CHAMPION
from biasgate.tasks.mlflow_server.local_store import DATABASE
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.server import REGISTRY, TRACKING, address_in
from biasgate.tasks.promoting.rivals import find_rivals
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.scoring.scored import try_candidate
from biasgate.tasks.signing.keys import PRIVATE_KEY, SHORT, PrivateKey, TrustedKeys
from biasgate.tasks.store import Workplace


def examine(store: Path, config: Path | None = None, *, may_write: bool = True) -> Iterator[Check]:
    """Yield every check, each as soon as it is made.

    `may_write`: whether to try in the registry if an alias can be set.
    """
    looks: dict[str, Callable[[], Iterator[Check]]] = {
        "versions": check_versions,
        "GPU": check_gpu,
        "disks": partial(check_disks, {"store": store}),
        "MLflow": partial(check_mlflow, store, may_write=may_write),
        "Prefect": check_prefect,
        "signing key": check_keys,
        "store": partial(check_store, store),
        "data": partial(check_evaluation, config),
        "champion": partial(check_champion, config, store),
    }
    for what, look in looks.items():
        yield from each_check(what, look)


Status = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True)
class Check:
    """What was found about one thing."""

    what: str
    """The thing."""
    status: Status
    """`wrong`: evaluations fail, or nobody could promote. `warning`: they may."""
    found: str
    """What was found."""
    do: str = ""
    """What to do; empty if nothing is."""


def each_check(what: str, look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Yield what a look found; if it fails, that it failed, as one more line."""
    try:
        yield from look()
    except InputError as error:
        yield Check(what, "wrong", masked(str(error)), "See the sentence before.")
    except Exception as error:  # noqa: BLE001 - libraries raise anything, and other lines count too
        text = masked(f"{type(error).__name__}: {error}".splitlines()[0])
        yield Check(what, "wrong", text, f"Put the {what} in order, then run the doctor again.")


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


_TIMEOUT_S = 10.0
_LATE_S = 30.0
_MLFLOW, _REGISTRY, _PREFECT = "MLflow", "MLflow's registry", "Prefect"
_VARIABLES = {_MLFLOW: TRACKING, _REGISTRY: REGISTRY, _PREFECT: "PREFECT_API_URL"}


def has_runs(store: Path) -> bool:
    """Return whether MLflow may know of anything: a server is named, or the store has runs."""
    return bool(address_in(TRACKING)) or (store / DATABASE).exists()


def check_mlflow(store: Path, *, may_write: bool) -> Iterator[Check]:
    """Check that MLflow answers, and that this machine may set an alias there.

    `store`: the store, whose database is used if `MLFLOW_TRACKING_URI` names no server.
    `may_write`: whether to try it: a model of its own is registered, gets an alias, and is deleted.
    """
    if not has_runs(store):
        yield Check("MLflow", "ok", f"{store} has no runs yet; the first evaluation makes them")
        return
    gateway = Gateway.of_store(store)
    if gateway.uri.startswith("http"):
        lines = list(_check_http(gateway.uri))
        yield from lines
        if any(line.status == "wrong" for line in lines):
            return
    else:
        gateway.models()
        yield Check("MLflow", "ok", f"{masked(gateway.uri)} answers; MLflow {version('mlflow')}")
    if gateway.registry and gateway.registry.startswith("http"):
        yield from _check_http(gateway.registry, _REGISTRY)
    if may_write:
        yield from _check_rights(gateway)


def _check_http(uri: str, what: str = _MLFLOW) -> Iterator[Check]:
    """Check a server's answer, its version and its clock."""
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    found = _asked(what, f"{uri.rstrip('/')}/version", (user, password) if user else None)
    if isinstance(found, Check):
        yield found
        return
    theirs, ours = found.text.strip(), version("mlflow")
    text = f"{masked(uri)} answers; MLflow {theirs[:20]} there, {ours} here"
    if _minor(theirs) == _minor(ours):
        yield Check(what, "ok", text)
    else:
        yield Check(what, "warning", text, f"Run MLflow {_minor(ours)} on the server, too.")
    yield from _check_clock(what, found)


def check_prefect() -> Iterator[Check]:
    """Check that Prefect's server answers, if one is named."""
    url = api_url()
    if not url:
        text = "no server is named, so each command starts one of its own"
        yield Check("Prefect", "ok", text, "For schedules, set PREFECT_API_URL to a server.")
        return
    found = _asked("Prefect", f"{url.rstrip('/')}/admin/version", None)
    if isinstance(found, Check):
        yield found
        return
    theirs, ours = found.text.strip('"\n '), version("prefect")
    text = f"{masked(url)} answers; Prefect {theirs[:20]} there, {ours} here"
    if _minor(theirs) == _minor(ours):
        yield Check("Prefect", "ok", text)
    else:
        yield Check("Prefect", "warning", text, f"Run Prefect {_minor(ours)} on the server, too.")
    yield from _check_clock("Prefect", found)


def _asked(what: str, url: str, auth: tuple[str, str] | None) -> httpx.Response | Check:
    """Return a server's answer, or what is wrong with it."""
    try:
        found = httpx.get(url, timeout=_TIMEOUT_S, auth=auth)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        name = _VARIABLES[what]
        text = f"{masked(url)} does not answer ({type(error).__name__})"
        return Check(what, "wrong", text, f"Start the server, or set {name} to another address.")
    if found.status_code in {401, 403}:
        text = f"{masked(url)} refuses this user ({found.status_code})"
        return Check(what, "wrong", text, "Set user and password, or ask who runs the server.")
    if found.is_error or "<html" in found.text[:500].lower():
        text = f"{masked(url)} answers {found.status_code}, and not as {what} does"
        return Check(what, "wrong", text, "Look at the address, and at the server's log.")
    return found


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def _check_clock(what: str, answer: httpx.Response) -> Iterator[Check]:
    """Compare the clocks: entries of the ledger expire by them."""
    with suppress(ValueError, KeyError, TypeError):
        theirs = parsedate_to_datetime(answer.headers["date"])
        apart = abs((datetime.now(UTC) - theirs).total_seconds())
        text = f"{apart:.0f} s apart from the clock of {what}'s server"
        do = "Let both machines set their clocks by NTP."
        if apart >= LEASE.total_seconds():
            yield Check("clock", "wrong", f"{text}; entries of the ledger expire at once", do)
        else:
            yield (
                Check("clock", "warning", text, do)
                if apart > _LATE_S
                else Check("clock", "ok", text)
            )


def _check_rights(gateway: Gateway) -> Iterator[Check]:
    """Register a model of its own, set an alias, read it back, and delete the model."""
    name = f"biasgate-doctor-{uuid.uuid4().hex[:8]}"
    do = "Ask who runs the registry for the right to register models and to set aliases."
    try:
        made = gateway.record_version(name, None, {})
        gateway.set_alias(name, CHAMPION, made.version)
        found = gateway.alias(name, CHAMPION)
        gateway.delete_alias(name, CHAMPION)
    except Exception as error:  # noqa: BLE001 - as above
        text = masked(f"{type(error).__name__}: {error}".splitlines()[0])
        yield Check("rights", "wrong", f"no alias can be set: {text}", do)
        with suppress(Exception):
            gateway.delete_model(name)
        return
    if found is None or found.version != made.version:
        yield Check("rights", "wrong", "an alias that was set could not be read back", do)
    else:
        yield Check("rights", "ok", "a model was registered, got an alias, and was removed again")
    try:
        gateway.delete_model(name)
    except Exception as error:  # noqa: BLE001 - as above
        text = masked(f"{type(error).__name__}: {error}".splitlines()[0])
        yield Check("rights", "warning", f"model {name} is left: {text}", "Delete it by hand.")


_FUTURE_S = 300.0


def check_evaluation(config: Path | None) -> Iterator[Check]:
    """Check an evaluation file with its policy and everything that it names."""
    if config is None:
        text = "no evaluation file was named"
        yield Check("data", "ok", text, "Name it to check its data: biasgate doctor CONFIG")
        return
    if not config.is_file():
        yield Check("data", "wrong", f"{config} does not exist", "Name an evaluation file.")
        return
    found = read_evaluation(config)
    sets, candidates = len(found.evaluation_sets), len(found.candidates)
    text = f"{config}: sets {sets}, candidates {candidates}, policy {found.policy.name}"
    yield Check("data", "ok", text)


def check_champion(config: Path | None, store: Path) -> Iterator[Check]:
    """Check that champion and reference can score the sets of an evaluation as they are now.

    Nobody can be judged where they cannot. The sets are frozen, for the evaluation that follows;
    champion and reference are opened.
    """
    if config is None or not config.is_file():
        return
    evaluation, workplace = read_evaluation(config), Workplace(store)
    named = {
        role: one
        for role, one in zip(RIVALS, (evaluation.champion, evaluation.reference), strict=True)
        if one
    }
    registered = evaluation.registered_model if has_runs(store) else None
    if not named and registered is None:
        return
    rivals = find_rivals(
        named,
        registered,
        evaluation.policy,
        evaluation.candidates,
        workplace.gateway,
    )
    frozen = [
        str(freeze(evaluation_set, store).folder)
        for evaluation_set in evaluation.evaluation_sets
        if rivals
    ]
    sets = ", ".join(evaluation_set.name for evaluation_set in evaluation.evaluation_sets)
    for role, rival in rivals.items():
        name = rival.uri or rival.name
        try:
            try_candidate(rival, frozen, workplace)
        except (CandidateError, InputError) as error:
            text = f"{name} cannot score {sets}, so nobody can be judged: {masked(str(error))}"
            yield Check(role, "wrong", text, "Put it in order before the next evaluation.")
        else:
            yield Check(role, "ok", f"{name} can score {sets}")


def check_store(store: Path) -> Iterator[Check]:
    """Check that frozen sets are as they were frozen, and that no file is from the future."""
    folders = sorted(path for path in (store / "sets").glob("*") if (path / "record.json").exists())
    changed = False
    for folder in folders:
        try:
            EvaluationSet.load(folder)
        except InputError as error:
            changed = True
            do = f"Remove {folder}; the next evaluation freezes it again."
            yield Check("frozen sets", "wrong", str(error), do)
    if folders and not changed:
        text = f"all {len(folders)} in {store} are as they were frozen"
        yield Check("frozen sets", "ok", text)
    ahead = max((folder.stat().st_mtime - time.time() for folder in folders), default=0.0)
    if ahead > _FUTURE_S:
        text = f"files of the store are {ahead / 60:.0f} minutes from the future"
        yield Check("clock", "warning", text, "Let this machine set its clock by NTP.")


def check_keys() -> Iterator[Check]:
    """Check the private key that signs, and the keys that are trusted."""
    own, trusted = PrivateKey.here(), TrustedKeys.here()
    if own is None:
        if trusted:
            text = f"none, but {len(trusted.keys)} are trusted: this machine can only verify"
            do = f"Where evaluations run, set {PRIVATE_KEY}."
            yield Check("signing key", "warning", text, do)
            return
        text = "none: verdicts are not signed, so whoever may write to the registry may forge them"
        do = f"Run `biasgate keys new`, and set {PRIVATE_KEY}."
        yield Check("signing key", "warning", text, do)
        return
    key_id = own.public.key_id
    if trusted.keys[key_id].revoked_since:
        do = "Run `biasgate keys new`, and trust the new key."
        yield Check("signing key", "wrong", f"{key_id[:SHORT]} is revoked", do)
        return
    named = os.environ[PRIVATE_KEY]
    path = Path(named).expanduser() if len(named) < 1024 and "\n" not in named else None
    if path is not None and path.is_file() and path.stat().st_mode & 0o077:
        do = "Let only its owner read it: chmod 600 FILE"
        yield Check("signing key", "warning", f"others may read the file of {key_id[:SHORT]}", do)
        return
    yield Check("signing key", "ok", f"{key_id[:SHORT]} signs; {len(trusted.keys)} are trusted")
