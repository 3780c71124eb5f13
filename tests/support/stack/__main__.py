"""What `make stack-up`, `stack-status` and `stack-down` run."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from support.stack.servers import Stack

from biasgate.tasks.common.errors import InputError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="make stack-up",
        description="PostgreSQL, an S3-compatible store, MLflow, Prefect and a worker on this "
        "machine. What `up` prints on standard output is to be run by the shell.",
    )
    parser.add_argument("command", choices=("up", "down", "status"))
    parser.add_argument("folder", type=Path, help="where all data and logs are kept")
    given = parser.parse_args(arguments)
    stack = Stack(given.folder.resolve(), say=_say)
    try:
        if given.command == "up":
            stack.up()
            for key, value in stack.environment().items():
                sys.stdout.write(f"export {key}={shlex.quote(value)}\n")
        elif given.command == "down":
            stack.down()
            _say("nothing runs; the data is still in " + str(stack.folder))
        else:
            return _print_status(stack)
    except InputError as error:
        _say(str(error))
        return 2
    return 0


def _print_status(stack: Stack) -> int:
    running = {name: stack.runs(name) for name in stack.services}
    for name, service in stack.services.items():
        place = f"127.0.0.1:{service.port}" if service.port else ""
        sys.stdout.write(f"{name:10} {'runs' if running[name] else 'stopped':8} {place}\n")
    return 0 if all(running.values()) else 3


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
