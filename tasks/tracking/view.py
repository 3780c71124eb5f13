"""Saved views of MLflow's list of runs, with columns, order and charts of an evaluation.

MLflow stores a saved view as a tag of the experiment, and opens it by a link. The format is
undocumented; a browser test checks that MLflow can open the view.
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
"""Artifact folder of the pictures of a run."""
SHOWN = {"mlflow.loggedImages": "true"}
"""Tag with which MLflow looks for pictures of a run."""
# MLflow reads key and step from the name. With a fixed ending, a retry overwrites the file.
_FILE_NAME = "{key}+step+0+timestamp+0+biasgate"
# Size of the small pictures of a grid, which open the original. MLflow's own have 256 pixels.
_THUMBNAIL_SIZE = (1000, 1400)
# Names of MLflow's own sections: metrics without a slash, and metrics of the machine.
_OWN_SECTIONS = ("Model metrics", "System metrics")
# With more identities, the bars are too narrow to read.
_MAX_BARS = 30
# Layouts of a section: charts per row, and height of a chart.
_THREE, _WIDE, _TALL = (3, 420), (1, 620), (1, 900)
_WIDTHS = {WORD: 220, TREATED_WORST: 300, WORSENED: 300, FAILED: 110, INSUFFICIENT: 140}


def make_saved_views(
    parent: str, baseline: str, metrics: Iterable[str], now: int
) -> dict[str, str]:
    """Return the experiment tags with two views: of an evaluation, and of all evaluations.

    Runs are compared with the run `baseline`; `now` is in milliseconds since 1970.
    """
    keys = sorted(set(metrics))
    filters = {
        LATEST: f"tags.mlflow.parentRunId = '{parent}'",
        ALL: f"tags.`{VERDICT}` LIKE '%'",
    }
    return {
        f"{TAG}{view}": _make_view(_NAMES[view], condition, _make_sections(baseline, keys), now)
        for view, condition in filters.items()
    }


def _make_view(name: str, condition: str, sections: Sequence[_Section], now: int) -> str:
    columns = _list_columns()
    state = {
        "searchFilter": condition,
        # Ordered by time, MLflow would add the parent runs of evaluations to the list.
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
    content = json.dumps(state, separators=(",", ":")).encode()
    packed = f"deflate;{base64.b64encode(zlib.compress(content, 9)).decode()}"
    return json.dumps({"name": name, "createdAt": now, "updatedAt": now, "state": packed})


@dataclass(frozen=True)
class _Chart:
    """A chart in a section."""

    kind: str
    name: str
    options: dict[str, JsonValue]

    def record(self, section: str) -> JsonValue:
        """Return the chart in MLflow's format."""
        return {
            "uuid": f"biasgate-{section}-{self.name}",
            "type": self.kind,
            "metricSectionId": _format_section_id(section),
            "deleted": False,
            "isGenerated": False,
            "runsCountToCompare": 10,
            **self.options,
        }


@dataclass(frozen=True)
class _Section:
    """A section of the page; a closed section does not draw its charts until it is opened."""

    name: str
    charts: tuple[_Chart, ...] = ()
    shape: tuple[int, int] = _THREE
    is_open: bool = True

    def record(self) -> JsonValue:
        """Return the section in MLflow's format."""
        columns, height = self.shape
        return {
            "uuid": _format_section_id(self.name),
            "name": self.name,
            "display": self.is_open,
            "columns": columns,
            "cardHeight": height,
            "isReordered": True,
            "deleted": False,
            "isGenerated": False,
        }


def _list_columns() -> list[str]:
    # The first five are visible without scrolling.
    names = [("tags", WORD), ("tags", TREATED_WORST), ("tags", WORSENED)]
    names += [("metrics", FAILED), ("metrics", INSUFFICIENT)]
    for metric in SUBGROUP_METRICS:
        names += [("metrics", f"worst/{metric}"), ("tags", f"{WORST_TAG}.{metric}")]
    names += [("metrics", "auc/overall"), ("metrics", "final_score"), ("attributes", "Dataset")]
    return [f"{kind}.`{name}`" for kind, name in names]


def _make_sections(baseline: str, keys: list[str]) -> list[_Section]:
    """Return the sections in order.

    The last sections are closed and empty: MLflow fills them with a chart of every metric.
    """
    overview = {
        "checks that did not pass": [FAILED, INSUFFICIENT],
        "worst identity": [f"worst/{metric}" for metric in AUCS],
        "all comments": ["auc/overall", "final_score"],
    }
    keys_by_metric = {
        metric: [key for key in keys if key.startswith(f"{metric}/")] for metric in SUBGROUP_METRICS
    }
    bars = (
        _make_bar_chart(metric, metric_keys)
        for metric, metric_keys in keys_by_metric.items()
        if 0 < len(metric_keys) <= _MAX_BARS
    )
    prefixes = sorted({key.rpartition("/")[0] for key in keys} - {""})
    return [
        _Section(OVERVIEW, tuple(_make_bar_chart(*chart) for chart in overview.items())),
        _Section(SIDE_BY_SIDE, (_make_picture_grid(*PICTURES.values()),), _TALL),
        *(
            _Section(name, (_make_picture_grid(key),), _TALL, is_open=False)
            for name, key in PICTURES.items()
        ),
        _Section(DIFFERENCES, (_make_difference_chart(baseline),), _TALL),
        _Section(BARS, tuple(bars), _WIDE, is_open=False),
        *(_Section(name, is_open=False) for name in (*prefixes, *_OWN_SECTIONS)),
    ]


def _format_section_id(name: str) -> str:
    return f"biasgate-section-{name}"


def _make_bar_chart(name: str, keys: Sequence[str]) -> _Chart:
    return _Chart(
        "BAR", name, {"metricKey": "", "selectedMetricKeys": [*keys], "displayName": name}
    )


def _make_picture_grid(*keys: str) -> _Chart:
    """Return a grid of pictures, with a column for each run."""
    return _Chart("IMAGE", "pictures", {"imageKeys": [*keys], "step": 0, "showRunParams": False})


def _make_difference_chart(baseline: str) -> _Chart:
    options: dict[str, JsonValue] = {
        "chartName": DIFFERENCES,
        "compareGroups": ["Model metrics"],
        "showChangeFromBaseline": True,
        "showDifferencesOnly": True,
        "baselineColumnUuid": baseline,
    }
    return _Chart("DIFFERENCE", "metrics", options)


def write_grid_pictures(results: Path, folder: Path) -> bool:
    """Copy pictures under the names that MLflow's grid reads; return True if any exists."""
    for key in PICTURES.values():
        source = results / f"{key}.png"
        if not source.exists():
            continue
        name = _FILE_NAME.format(key=key)
        shutil.copyfile(source, folder / f"{name}.png")
        with Image.open(source) as picture:
            thumbnail = picture.convert("RGB")
        thumbnail.thumbnail(_THUMBNAIL_SIZE)
        # Twice as fast as the default method, and 2 % larger.
        thumbnail.save(folder / f"{name}+compressed.webp", quality=80, method=2)
    return any(folder.iterdir())
