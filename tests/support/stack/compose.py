"""The file deployments/compose.yaml, read as commands for this machine.

Inside Docker each service has a host name of its own and listens on all addresses. Here all of them
are 127.0.0.1. Ports are the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parents[3] / "deployments" / "compose.yaml"
_VARIABLE = re.compile(r"\$\{(?P<name>\w+):-(?P<default>[^}]*)\}")
_PORT = re.compile(r"\$\{(?P<name>STACK_\w+_PORT):-")


@dataclass(frozen=True)
class Service:
    """One service of the file.

    Attributes
    ----------
    name : str
        Its name.
    command : list of str
        What runs it; empty if the image does.
    environment : dict
        What it needs beside the user's own environment.
    port : int or None
        Where it listens on 127.0.0.1.
    port_variable : str or None
        The variable that changes the port.
    health : list of str
        A command that succeeds once the service can be used.
    patience_s : float
        How long that may take.
    needs : list of str
        The services that must be healthy before.
    stop_signal : str
        What ends it.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    port: int | None
    port_variable: str | None
    health: list[str]
    patience_s: float
    needs: list[str]
    stop_signal: str


@dataclass(frozen=True)
class Compose:
    """The file with the values of its variables.

    Attributes
    ----------
    variables : dict
        Values of variables `STACK_...`; defaults are those of the file.
    """

    variables: Mapping[str, str] = field(default_factory=dict)

    def services(self) -> dict[str, Service]:
        """Return the services, each after those that it needs."""
        raw = _read()["services"]
        found = {name: self._service(name, raw[name], list(raw)) for name in raw}
        return {name: found[name] for name in _in_order(found)}

    def defaults(self) -> dict[str, str]:
        """Return every variable that the file names, with its value."""
        names = _VARIABLE.finditer(FILE.read_text("utf-8"))
        return {one["name"]: self.variables.get(one["name"]) or one["default"] for one in names}

    def first_statements(self) -> list[str]:
        """Return the SQL that a new database runs once."""
        return [one["content"] for one in _read()["configs"].values()]

    def _service(self, name: str, raw: Mapping[str, Any], hosts: list[str]) -> Service:
        here = self._here(raw, hosts)
        port = here["ports"][0].rpartition(":")[2] if raw.get("ports") else None
        variable = _PORT.search(raw["ports"][0]) if raw.get("ports") else None
        check = here["healthcheck"]
        return Service(
            name,
            command=here.get("command", []),
            environment=here["environment"],
            port=int(port) if port else None,
            port_variable=variable["name"] if variable else None,
            health=check["test"][1:],
            patience_s=float(check["retries"]) * float(check["interval"].removesuffix("s")),
            needs=list(here.get("depends_on", {})),
            stop_signal=here.get("stop_signal", "SIGTERM"),
        )

    def _here(self, value: Any, hosts: list[str]) -> Any:
        if isinstance(value, dict):
            return {key: self._here(one, hosts) for key, one in value.items()}
        if isinstance(value, list):
            return [self._here(one, hosts) for one in value]
        if not isinstance(value, str):
            return value
        found = _VARIABLE.sub(lambda one: self.variables.get(one["name"]) or one["default"], value)
        found = re.sub(rf"(?<=[/@])({'|'.join(hosts)}):(?=\d)", "127.0.0.1:", found)
        return found.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - which is what it prevents


def _read() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
    return found


def _in_order(services: Mapping[str, Service]) -> Iterator[str]:
    done: set[str] = set()
    while left := [name for name in services if name not in done]:
        for name in left:
            if done.issuperset(services[name].needs):
                done.add(name)
                yield name
