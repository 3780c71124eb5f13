"""What `label_noise` returns: every number under three readings of the same votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bias_metrics._core.tables import Row, Table, Tabular, labelled
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from bias_metrics.raters.expected import FINAL, OVERALL, Key
from bias_metrics.report.report import BiasReport, cell_of

READINGS = ("panel", "expected", "consensus")


@dataclass(frozen=True)
class RatedValue:
    """A number, and how much of its uncertainty comes from raters."""

    value: MetricValue
    """The number with its interval."""
    rater_share: MetricValue
    """The part of the squared standard error that comes from raters, from 0 to 1. The rest comes
    from comments."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        share: dict[str, Any] = {"rater_share": self.rater_share.value}
        if self.rater_share.reason is not None:
            share["rater_share_reason"] = self.rater_share.reason
        return self.value.to_dict(interval=True) | share


@dataclass(frozen=True)
class Reading:
    """Every number of an evaluation under one reading of the votes."""

    numbers: dict[Key, RatedValue]
    """By subgroup (None for a number of all rows) and metric: the five metrics of each subgroup; of
    all rows `auc`, the power means under the names of their metrics, and `final_score`."""

    def __getitem__(self, key: Key) -> RatedValue:
        """Return one number."""
        return self.numbers[key]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, arranged like a bias report."""
        subgroups: dict[str, Any] = {}
        for (name, metric), one in self.numbers.items():
            if name is not None:
                subgroups.setdefault(name, {})[metric] = one.to_dict()
        means = {metric: self.numbers[None, metric].to_dict() for metric in FINAL_SCORE_PARTS}
        return {
            "overall": {"auc": self.numbers[OVERALL].to_dict()},
            "subgroups": subgroups,
            "power_mean": means,
            "final_score": self.numbers[FINAL].to_dict(),
        }

    def rows(self) -> list[Row]:
        """Return one record per number."""
        return [
            {"subgroup": name, "metric": _METRIC.get((name, metric), metric)}
            | cell_of(one.value)
            | {"rater_share": one.rater_share.value, "rater_share_reason": one.rater_share.reason}
            for (name, metric), one in self.numbers.items()
        ]


_METRIC: dict[Key, str] = {(None, metric): f"power_mean_{metric}" for metric in FINAL_SCORE_PARTS}


@dataclass(frozen=True)
class LabelNoise(Tabular):
    """Bias metrics of labels that a few raters gave."""

    panel: Reading
    """Labels as these comments' own raters gave them: the numbers of `evaluate_bias`."""
    expected: Reading
    """Labels that one more rater would give: each comment is toxic with its probability."""
    consensus: Reading
    """Labels that all raters together would give, if everybody rated every comment."""
    redrawn: dict[str, MetricValue]
    """Overall `auc` and `final_score` if the model of votes draws new panels of the same sizes.
    Close to those of `panel` if the model fits; `consensus` is only as good as the model."""
    agreement: MetricValue
    """How often two raters of a comment agree, from 0 to 1."""
    n: int
    n_draws: int
    """n, n_draws: comments, and draws of the model."""
    raters: dict[str, float]
    """`least`, `median` and `most` raters of a comment."""

    @property
    def readings(self) -> dict[str, Reading]:
        """The three readings by name."""
        return {name: getattr(self, name) for name in READINGS}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "n": self.n,
            "raters": self.raters,
            "agreement": self.agreement.to_dict(),
            "n_draws": self.n_draws,
            "redrawn": {name: one.to_dict() for name, one in self.redrawn.items()},
        } | {name: one.to_dict() for name, one in self.readings.items()}

    def rows(self) -> list[Row]:
        """Return one record per reading and number; those of all rows have no subgroup."""
        return labelled("reading", {name: one.rows() for name, one in self.readings.items()})

    def _table(self) -> Table:
        header = ["subgroup", "metric"]
        for name in READINGS:
            header += [name, "from raters"]
        body = [
            [key[0] or "", _METRIC.get(key, key[1])]
            + [text for reading in self.readings.values() for text in _texts(reading.numbers[key])]
            for key in self.panel.numbers
        ]
        title = (
            f"{self.n:,} comments with {self.raters['least']:g} to {self.raters['most']:g} raters "
            f"(median {self.raters['median']:g}), two of whom agree {_percent(self.agreement)}"
        )
        return Table(header, body, title)


def numbers_of(report: BiasReport) -> dict[Key, MetricValue]:
    """Return every number of a report by key."""
    found: dict[Key, MetricValue] = {OVERALL: report.overall.auc}
    for name, bias in report.subgroups.items():
        found |= {(name, metric): value for metric, value in _cells(bias).items()}
    found |= {(None, metric): mean for metric, mean in report.power_mean.by_metric().items()}
    return found | {FINAL: report.final_score}


def _cells(bias: Any) -> Mapping[str, MetricValue]:
    return {metric: getattr(bias, metric) for metric in SUBGROUP_METRICS}


def _texts(value: RatedValue) -> tuple[str, str]:
    return str(value.value), _percent(value.rater_share)


def _percent(share: MetricValue) -> str:
    return "?" if share.value is None else f"{share.value:.0%}"
