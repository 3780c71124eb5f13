"""The servers of a team, on free ports."""

import shutil
from contextlib import contextmanager

import pytest
from support.postgresql import free_port, reachable_folder, skip_without_postgresql
from support.stack.compose import Compose
from support.stack.servers import Stack


def free_ports():
    """Return a free port for each variable of compose.yaml that names one."""
    return {name: str(free_port()) for name in Compose().defaults() if name.endswith("_PORT")}


@contextmanager
def running_stack():
    """Yield a folder and the servers that run in it; the environment names them meanwhile."""
    skip_without_postgresql()
    home = reachable_folder()
    with pytest.MonkeyPatch.context() as patch:
        for name, port in free_ports().items():
            patch.setenv(name, port)
        stack = Stack(home / "stack")
        try:
            stack.up()
            for key, value in stack.environment().items():
                patch.setenv(key, value)
            yield home, stack
        finally:
            stack.down()
            shutil.rmtree(home)
