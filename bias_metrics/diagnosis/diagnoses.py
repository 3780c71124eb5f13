"""What `diagnose_bias` returns: the pattern of bias of each subgroup, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bias_metrics._core.tables import Row, Tabular, labelled
from bias_metrics._core.values import MetricValue
from bias_metrics.diagnosis.patterns import Pattern
from bias_metrics.groups.counts import as_dicts
from bias_metrics.report.report import cell_of


@dataclass(frozen=True)
class Diagnosis(Tabular):
    """The pattern that one subgroup shows, and the evidence for it.

    Attributes
    ----------
    pattern : str
        A letter of Table 2 of Borkan et al. (2019), a shift of one class such as "harmless
        higher", "other", "none" or "no evidence".
    name : str
        Name of the pattern.
    sentence : str
        What users will notice, or why no pattern can be named.
    evidence : dict of str to MetricValue
        The numbers that decided it, with their intervals.
    """

    pattern: Pattern
    name: str
    sentence: str
    evidence: dict[str, MetricValue]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        evidence = {name: value.to_dict(interval=True) for name, value in self.evidence.items()}
        return {
            "pattern": self.pattern,
            "name": self.name,
            "sentence": self.sentence,
            "evidence": evidence,
        }

    def rows(self) -> list[Row]:
        """Return one record per number that decided the pattern."""
        return labelled("evidence", {name: [cell_of(one)] for name, one in self.evidence.items()})


class Diagnoses(dict[str, Diagnosis], Tabular):
    """The diagnosis of each subgroup, by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return as_dicts(self)

    def rows(self) -> list[Row]:
        """Return one record per subgroup: the pattern, its name and the sentence."""
        return [
            {"subgroup": name, "pattern": one.pattern, "name": one.name, "sentence": one.sentence}
            for name, one in self.items()
        ]
