"""Start and stop the servers of the stack; what runs is remembered in a file of its folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
from support.stack.compose import Compose, Service
from support.stack.postgresql import Postgresql, as_user, programs

from biasgate.tasks.common.errors import InputError, format_install_hint

MARK = "BIASGATE_STACK"  # in the environment of every process of a stack: its folder
DATABASE = "postgres"
_PACKAGES = {"s3": ("boto3",), "mlflow": ("psycopg2",), "prefect": ("asyncpg",)}
_INSTALL = f"Run {format_install_hint('stack')}."
_STOP_S = 30.0
_TAIL = 1500


@dataclass(frozen=True)
class Stack:
    """The servers with their data in one folder.

    Attributes
    ----------
    folder : Path
        Has one folder for each service, logs, and what is remembered.
    say : callable
        Told what is being done.
    """

    folder: Path
    say: Callable[[str], None] = lambda _: None
    _started: dict[str, subprocess.Popen[Any]] = field(default_factory=dict, repr=False)

    @property
    def file(self) -> Path:
        """What is remembered: variables and processes."""
        return self.folder / "stack.json"

    @cached_property
    def compose(self) -> Compose:
        """The file of services, with the variables of the environment.

        Those of an earlier start are used where the environment has none.
        """
        given = {key: value for key, value in os.environ.items() if key.startswith("STACK_")}
        kept = self._remembered().get("variables", {})
        return Compose(kept if self._processes() else kept | given)

    @cached_property
    def services(self) -> dict[str, Service]:
        """The services, each after those that it needs."""
        return self.compose.services()

    def environment(self) -> dict[str, str]:
        """Return what a program that uses the stack needs."""
        worker = self.services["worker"].environment
        return {key: worker[key] for key in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI")}

    def up(self) -> None:
        """Start each service that does not run, and wait until it can be used.

        Raises
        ------
        InputError
            If a program is missing, a port is in use, or a service does not become healthy.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = [one for one in self.services.values() if not self.runs(one.name)]
        require_programs(missing)
        require_free_ports(missing)
        healthy = set(self.services) - {one.name for one in missing}
        for one in missing:  # those that do not need each other start at the same time
            for need in [need for need in one.needs if need not in healthy]:
                self.wait(need)
                healthy.add(need)
            self.launch(one.name)
        for one in missing:
            self.wait(one.name)

    def down(self) -> None:
        """Stop every service, those that need others first; no process stays."""
        for name in reversed(self.services):
            if self.runs(name):
                self.say(f"stops {name}")
            self.stop(name)
        _kill(self._marked())

    def start(self, name: str) -> None:
        """Start one service and wait until it can be used."""
        self.launch(name)
        self.wait(name)

    def launch(self, name: str) -> None:
        """Start one service."""
        service = self.services[name]
        self.say(f"starts {name}" + (f" on port {service.port}" if service.port else ""))
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        (self.folder / "logs").mkdir(exist_ok=True)
        command, options = service.command, {}
        if name == DATABASE:
            self.database.make()
            command, options = self.database.command(), as_user()
        python = {"python": sys.executable}
        with self._log(name).open("ab") as log:
            process = subprocess.Popen(
                [python.get(part, part) for part in command],
                cwd=home,
                env=self._environment(service),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **options,
            )
        self._started[name] = process
        started = psutil.Process(process.pid).create_time()
        self._remember(processes=self._processes() | {name: [process.pid, started]})

    def wait(self, name: str) -> None:
        """Wait until a service can be used.

        Raises
        ------
        InputError
            If it ends, or does not answer in time.
        """
        service = self.services[name]
        deadline = time.monotonic() + service.patience_s
        while time.monotonic() < deadline and self.runs(name):
            if self._is_healthy(service):
                if name == DATABASE:
                    of_image = f"CREATE DATABASE {service.environment['POSTGRES_DB']}"
                    self.database.complete([of_image, *self.compose.first_statements()])
                return
            time.sleep(0.5)
        how = "does not answer" if self.runs(name) else "ended"
        log = self._log(name)
        msg = f"{name} must start; it {how}. Its log {log} ends:\n{_end(log)}"
        raise InputError(msg)

    def stop(self, name: str, how: int | None = None) -> None:
        """Stop one service with all its processes; `how` is another signal than its own."""
        service = self.services[name]
        process = self._process(name)
        below = [] if process is None else process.children(recursive=True)
        if process is not None:
            process.send_signal(how or getattr(signal, service.stop_signal))
            psutil.wait_procs([process], timeout=_STOP_S)
        leader = self._processes().get(name, [None])[0]
        own = [one for one in self._marked() if leader and _session(one.pid) == leader]
        _kill([*below, *own])
        if name in self._started:
            self._started.pop(name).wait()
        kept = self._processes()
        if kept.pop(name, None):
            self._remember(processes=kept)

    def runs(self, name: str) -> bool:
        """Whether a service has a process."""
        return self._process(name) is not None

    @property
    def database(self) -> Postgresql:
        """The databases of MLflow and Prefect."""
        service = self.services[DATABASE]
        user, password = (service.environment[f"POSTGRES_{key}"] for key in ("USER", "PASSWORD"))
        return Postgresql(self.folder / DATABASE, service.port or 0, user, password)

    def _environment(self, service: Service) -> dict[str, str]:
        here = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        if service.name == DATABASE:
            here.append(str(programs()))
        path = os.pathsep.join(here)
        return {**os.environ, **service.environment, "PATH": path, MARK: str(self.folder.resolve())}

    def _is_healthy(self, service: Service) -> bool:
        command = [sys.executable if part == "python" else part for part in service.health]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            env=self._environment(service),
            cwd=self.folder / service.name,
        )
        return done.returncode == 0

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def _process(self, name: str) -> psutil.Process | None:
        pid, started = self._processes().get(name, [None, 0.0])
        try:
            process = psutil.Process(pid) if pid else None
        except psutil.NoSuchProcess:
            return None
        if process is None or abs(process.create_time() - started) > 1:
            return None
        return None if process.status() == psutil.STATUS_ZOMBIE else process

    def _marked(self) -> list[psutil.Process]:
        """Return all processes of this stack; those of PostgreSQL hide their environment."""
        found, place = [], str(self.folder.resolve())
        leaders = {one[0] for one in self._processes().values()}
        for one in psutil.process_iter():
            try:
                if one.environ().get(MARK) == place or _session(one.pid) in leaders:
                    found.append(one)
            except (psutil.Error, OSError):
                continue
        return [one for one in found if one.pid != os.getpid()]

    def _processes(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = self._remembered().get("processes", {})
        return found

    def _remembered(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}
        return found

    def _remember(self, processes: dict[str, list[Any]]) -> None:
        content = {"variables": self.compose.defaults(), "processes": processes}
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        part.touch(mode=0o600)  # it holds passwords
        part.write_text(json.dumps(content, indent=1), "utf-8")
        part.replace(self.file)


def require_programs(services: Iterable[Service]) -> None:
    """Raise an error that says what to install, if a program or package is missing."""
    for one in services:
        if one.name == DATABASE:
            programs()
            as_user()
        if one.name == "s3" and not shutil.which("rclone", path=_path()):
            msg = f"the program rclone must be installed; it was not found. {_INSTALL}"
            raise InputError(msg)
        for package in _PACKAGES.get(one.name, ()):
            if find_spec(package) is None:
                msg = f"the package {package} must be installed for {one.name}. {_INSTALL}"
                raise InputError(msg)


def require_free_ports(services: Iterable[Service]) -> None:
    """Raise an error if another program listens where a service is to listen."""
    for one in services:
        with socket.socket() as probe:
            probe.settimeout(1)
            if one.port and probe.connect_ex(("127.0.0.1", one.port)) == 0:
                msg = (
                    f"port {one.port} must be free for {one.name}; another program listens there. "
                    f"Stop it, or set {one.port_variable} to another port."
                )
                raise InputError(msg)


def _path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def _kill(processes: Iterable[psutil.Process]) -> None:
    known = list(processes)
    for one in known:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(known, timeout=10)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _end(file: Path) -> str:
    return file.read_text("utf-8", "replace")[-_TAIL:] if file.exists() else ""
