"""What a check of a version found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    what : str
        Policy, report, evidence, tags, verdict, model, attestation, signature, record, rule,
        ledger, alias, dataset.
    holds : bool
        Whether it is as it should be.
    sentence : str
        The result in words.
    """

    what: str
    holds: bool
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"what": self.what, "holds": self.holds, "sentence": self.sentence}
