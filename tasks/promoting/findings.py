"""What a check of a version found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import printable


def described(error: Exception) -> str:
    """Return what went wrong, in one line: our own words, or what kind of error it was.

    Other errors may quote at length what somebody else wrote.
    """
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}."


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    """Policy, report, evidence, tags, verdict, model, attestation, signature, record, rule, ledger,
    alias, dataset."""
    holds: bool
    """Whether it is as it should be."""
    sentence: str
    """The result in words. It quotes tags, entries and names that others wrote, so that control
    characters in it are escaped."""

    def __post_init__(self) -> None:
        """Escape what could rewrite the lines of a terminal."""
        object.__setattr__(self, "sentence", printable(self.sentence))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"what": self.what, "holds": self.holds, "sentence": self.sentence}
