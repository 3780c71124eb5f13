"""Which code made a number: releases, and digests of source files."""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from importlib.metadata import version
from pathlib import Path

import bias_metrics
from biasgate.tasks.common.files import file_digest


@cache
def code_digest() -> str:
    """SHA-256 of the source code of the metric library, which decides."""
    folder = Path(bias_metrics.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(
            path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
        )
    return digest.hexdigest()


def code_of(kind: type, base: type, package: str | None) -> list[str | None]:
    """Return what changes with the code of a class that a configuration names.

    `kind`, `base`: the class, and the class of this project that it extends. The files of both, and
    of all classes between them, count. `package`: the package that adds it, with its version; None
    if it is biasgate's own.
    """
    between = [one for one in kind.__mro__ if issubclass(one, base)]
    files = dict.fromkeys(Path(inspect.getfile(one)) for one in between)
    return [version("biasgate"), code_digest(), package, *map(file_digest, files)]
