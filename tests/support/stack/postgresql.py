"""A PostgreSQL of Debian's packages, with its data in a folder, on a port of 127.0.0.1."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError

DEBIAN = Path("/usr/lib/postgresql")
_USER = "postgres"  # of Debian's package


def programs() -> Path:
    """Return the folder of PostgreSQL's programs, the newest version.

    Raises
    ------
    InputError
        If there is none.
    """
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda one: float(one.parts[-3]))
    on_path = shutil.which("initdb")
    if found or on_path:
        return found[-1].parent if found else Path(str(on_path)).resolve().parent
    msg = f"PostgreSQL must be installed; {DEBIAN} has none. Run `apt-get install postgresql`."
    raise InputError(msg)


def as_user() -> dict[str, Any]:
    """Return how to start PostgreSQL, which refuses to run as root.

    Raises
    ------
    InputError
        If this is root and the user of Debian's package does not exist.
    """
    if os.geteuid() != 0:
        return {}
    try:
        pwd.getpwnam(_USER)
    except KeyError as error:
        msg = (
            f"PostgreSQL does not run as root, and user {_USER} does not exist. "
            "Run `apt-get install postgresql`, or start the stack as another user."
        )
        raise InputError(msg) from error
    return {"user": _USER, "group": _USER, "extra_groups": []}


@dataclass(frozen=True)
class Postgresql:
    """A cluster of databases.

    Attributes
    ----------
    folder : Path
        Holds its data. The user who runs it must be able to reach it.
    port : int
        Where it listens.
    user, password : str
        Who may use it.
    """

    folder: Path
    port: int
    user: str
    password: str

    @property
    def data(self) -> Path:
        """The folder of PostgreSQL's own files."""
        return self.folder / "data"

    def command(self) -> list[str]:
        """Return the command that runs it."""
        options = ["-D", str(self.data), "-p", str(self.port), "-h", "127.0.0.1", "-k", ""]
        return [str(programs() / "postgres"), *options]

    def make(self) -> None:
        """Make the cluster if it is not there.

        Raises
        ------
        InputError
            If the user who runs it cannot reach the folder.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        user = as_user()
        if user:
            shutil.chown(self.folder, _USER, _USER)
        look = ["/bin/ls", str(self.folder)]
        if subprocess.run(look, check=False, capture_output=True, **user).returncode:
            msg = (
                f"the folder of the stack must be one that user {_USER} can reach; "
                f"got {self.folder}. Choose another, such as /srv/biasgate."
            )
            raise InputError(msg)
        if (self.data / "PG_VERSION").exists():
            return
        password = self.folder / "password"
        password.touch(mode=0o600)
        password.write_text(self.password, "utf-8")
        if user:
            shutil.chown(password, _USER, _USER)
        command = [str(programs() / "initdb"), "-D", str(self.data), "-U", self.user, "--no-sync"]
        command += ["--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8"]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **user)
        password.unlink()

    def complete(self, statements: Iterable[str]) -> None:
        """Run the statements that a new cluster runs once."""
        done = self.folder / "complete"
        if done.exists():
            return
        for one in statements:
            self.run(one)
        done.touch()

    def run(self, statement: str) -> None:
        """Run a statement on the running cluster."""
        options = ["-h", "127.0.0.1", "-p", str(self.port), "-U", self.user, "-d", "postgres"]
        subprocess.run(
            [programs() / "psql", *options, "-v", "ON_ERROR_STOP=1", "-qc", statement],
            check=True,
            capture_output=True,
            env=os.environ | {"PGPASSWORD": self.password},
        )
