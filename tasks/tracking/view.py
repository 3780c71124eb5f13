"""A saved view: MLflow's list of runs with the columns, the order and the charts of an evaluation.

MLflow's pages keep such a view as a tag of the experiment, and open it by a link. Its format is
that of the pages themselves; a browser test opens it.
"""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from pydantic import JsonValue

from bias_metrics.metrics import AUCS, SUBGROUP_METRICS
from biasgate.tasks.tracking.worst_numbers import (
    FAILED,
    INSUFFICIENT,
    TREATED_WORST,
    VERDICT,
    WORD,
    WORSENED,
    WORST_TAG,
)

TAG = "mlflow.sharedViewState."
LATEST, ALL = "biasgate", "biasgate-all"
_NAMES = {LATEST: "Latest evaluation", ALL: "All evaluations"}
OVERVIEW, DIFFERENCES = "Checks and worst identities", "Every metric of every candidate"
SIDE_BY_SIDE, BARS = "Pictures side by side", "Bars by identity"
PICTURES = {
    "Harm at the threshold": "harm",
    "Difference from the champion": "difference",
    "Every metric by identity": "heatmap",
    "Intervals by identity": "intervals",
}
FOLDER = "images"
"""Where a run has its pictures."""
SHOWN = {"mlflow.loggedImages": "true"}
"""The tag of a run whose pictures MLflow looks for."""
# MLflow reads key and step from the name. With a fixed end, logging again overwrites.
_NAME = "{key}+step+0+timestamp+0+biasgate"
# A grid shows small pictures, and the whole one at a click. MLflow's own have 256 pixels.
_SMALL = (1000, 1400)
# MLflow puts the metrics without a slash, and those of the machine, in sections of these names.
_GENERATED = ("Model metrics", "System metrics")
# Bars of more identities cannot be told apart.
_MOST_BARS = 30
# How a section shows its charts: how many in a row, and how high.
_THREE, _WIDE, _TALL = (3, 420), (1, 620), (1, 900)
_WIDTHS = {WORD: 220, TREATED_WORST: 300, WORSENED: 300, FAILED: 110, INSUFFICIENT: 140}


def saved_views(parent: str, baseline: str, metrics: Iterable[str], now: int) -> dict[str, str]:
    """Return the tags of an experiment that hold its views: of one evaluation, and of all.

    Others are compared with the run `baseline`; `now` is in milliseconds since 1970.
    """
    keys = sorted(set(metrics))
    filters = {
        LATEST: f"tags.mlflow.parentRunId = '{parent}'",
        ALL: f"tags.`{VERDICT}` LIKE '%'",
    }
    return {
        f"{TAG}{view}": _view(_NAMES[view], condition, _sections(baseline, keys), now)
        for view, condition in filters.items()
    }


def _view(name: str, condition: str, sections: Sequence[_Section], now: int) -> str:
    columns = _columns()
    state = {
        "searchFilter": condition,
        # MLflow adds the runs of evaluations to a list that is ordered by time.
        "orderByKey": f"metrics.`{FAILED}`",
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {
            column: width
            for column in columns
            for name, width in _WIDTHS.items()
            if column.endswith(f"`{name}`")
        },
        "runsHiddenMode": "FIRST_10_RUNS",
        "compareRunSections": [section.record() for section in sections],
        "compareRunCharts": [
            chart.record(section.name) for section in sections for chart in section.charts
        ],
        "isAccordionReordered": True,
        "hideEmptyCharts": True,
    }
    plain = json.dumps(state, separators=(",", ":")).encode()
    packed = f"deflate;{base64.b64encode(zlib.compress(plain, 9)).decode()}"
    return json.dumps({"name": name, "createdAt": now, "updatedAt": now, "state": packed})


@dataclass(frozen=True)
class _Chart:
    """A chart, with the options of its kind."""

    kind: str
    name: str
    options: dict[str, JsonValue]

    def record(self, section: str) -> JsonValue:
        """Return it as MLflow's pages keep it."""
        return {
            "uuid": f"biasgate-{section}-{self.name}",
            "type": self.kind,
            "metricSectionId": _section_id(section),
            "deleted": False,
            "isGenerated": False,
            "runsCountToCompare": 10,
            **self.options,
        }


@dataclass(frozen=True)
class _Section:
    """A part of the page; a closed one draws nothing until somebody opens it."""

    name: str
    charts: tuple[_Chart, ...] = ()
    shape: tuple[int, int] = _THREE
    is_open: bool = True

    def record(self) -> JsonValue:
        """Return it as MLflow's pages keep it."""
        columns, height = self.shape
        return {
            "uuid": _section_id(self.name),
            "name": self.name,
            "display": self.is_open,
            "columns": columns,
            "cardHeight": height,
            "isReordered": True,
            "deleted": False,
            "isGenerated": False,
        }


def _columns() -> list[str]:
    # These are seen without scrolling.
    names = [("tags", WORD), ("tags", TREATED_WORST), ("tags", WORSENED)]
    names += [("metrics", FAILED), ("metrics", INSUFFICIENT)]
    for metric in SUBGROUP_METRICS:
        names += [("metrics", f"worst/{metric}"), ("tags", f"{WORST_TAG}.{metric}")]
    names += [("metrics", "auc/overall"), ("metrics", "final_score"), ("attributes", "Dataset")]
    return [f"{kind}.`{name}`" for kind, name in names]


def _sections(baseline: str, keys: list[str]) -> list[_Section]:
    """Return the sections in order.

    Those at the end are closed and empty: MLflow fills each with a chart of every metric.
    """
    bars = [_bars(metric, keys) for metric in SUBGROUP_METRICS]
    prefixes = sorted({key.rpartition("/")[0] for key in keys} - {""})
    return [
        _Section(OVERVIEW, tuple(_overview())),
        _Section(SIDE_BY_SIDE, (_pictures(*PICTURES.values()),), _TALL),
        *(
            _Section(name, (_pictures(key),), _TALL, is_open=False)
            for name, key in PICTURES.items()
        ),
        _Section(DIFFERENCES, (_differences(baseline),), _TALL),
        _Section(BARS, tuple(bar for bar in bars if bar), _WIDE, is_open=False),
        *(_Section(name, is_open=False) for name in (*prefixes, *_GENERATED)),
    ]


def _section_id(name: str) -> str:
    return f"biasgate-section-{name}"


def _overview() -> list[_Chart]:
    shown = {
        "checks that did not pass": [FAILED, INSUFFICIENT],
        "worst identity": [f"worst/{metric}" for metric in AUCS],
        "all comments": ["auc/overall", "final_score"],
    }
    return [_bar_chart(name, keys) for name, keys in shown.items()]


def _bar_chart(name: str, keys: Sequence[str]) -> _Chart:
    options: dict[str, JsonValue] = {
        "metricKey": "",
        "selectedMetricKeys": [*keys],
        "displayName": name,
    }
    return _Chart("BAR", name, options)


def _pictures(*keys: str) -> _Chart:
    """Return a grid: of one picture of each run, or of several, with a column for each run."""
    return _Chart("IMAGE", "pictures", {"imageKeys": [*keys], "step": 0, "showRunParams": False})


def _differences(baseline: str) -> _Chart:
    options: dict[str, JsonValue] = {
        "chartName": DIFFERENCES,
        "compareGroups": ["Model metrics"],
        "showChangeFromBaseline": True,
        "showDifferencesOnly": True,
        "baselineColumnUuid": baseline,
    }
    return _Chart("DIFFERENCE", "metrics", options)


def _bars(metric: str, keys: list[str]) -> _Chart | None:
    own = [key for key in keys if key.startswith(f"{metric}/")]
    return _bar_chart(metric, own) if 0 < len(own) <= _MOST_BARS else None


def write_grid_pictures(results: Path, folder: Path) -> bool:
    """Copy pictures under the names that MLflow's grid reads; return whether there is any."""
    for key in PICTURES.values():
        source = results / f"{key}.png"
        if not source.exists():
            continue
        name = _NAME.format(key=key)
        shutil.copyfile(source, folder / f"{name}.png")
        with Image.open(source) as picture:
            small = picture.convert("RGB")
        small.thumbnail(_SMALL)
        # Twice as fast as by default, and 2 % larger.
        small.save(folder / f"{name}+compressed.webp", quality=80, method=2)
    return any(folder.iterdir())
