"""Draw the tables and figures of Borkan et al. (2019) and Dixon et al. (2018).

python docs/reproduce/published.py --reference FOLDER --data FOLDER --output FOLDER

`--reference` is a folder of published values, from which tables are drawn; this repository does not
contain any. `--data` (or BIASGATE_REAL_DATA) is the folder of real data: figures without public
data are drawn with it, and their titles state it. Either folder is enough.
`docs/evidence/numbers.md` describes each value.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dixon_experiment import draw_dixon
from matplotlib.figure import Figure
from normal_scores import column_of_table_2, heights
from own_data import draw_borkan
from printed import Printed, printed_table, published_report

from bias_metrics import evaluate_bias, pinned_auc, roc_auc
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.plot import distribution_panels, heatmap
from bias_metrics.plot._report import read_cells

BORKAN, DIXON = "Borkan et al. 2019", "Dixon et al. 2018"
TABLE_2 = f"the distributions of Table 2 ({BORKAN})"
PHRASES = f"phrases, as printed ({BORKAN}, Table 3)"
SHORT = f"short comments, as printed ({BORKAN}, Table 6)"
# The columns of Table 2 and their distributions.
COLUMNS = {
    "A": "small_right_shift(A?)",
    "B": "large_right_shift(B)",
    "C": "size_skew_pos(C)",
    "D": "left_shift(D)",
    "E": "low_subgroup_sep(E)",
    "F": "wide_no_overlap(F)",
    "G": "wide_overlap(G)",
}
MODELS = {"baseline": "baseline", "control": "random control", "debias": "bias-mitigated"}


def main() -> None:
    """Draw the pictures for which the folders have data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=Path, help="folder of published values")
    parser.add_argument("--data", type=Path, help="folder of real data, else BIASGATE_REAL_DATA")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    given = os.environ.get("BIASGATE_REAL_DATA")
    data = arguments.data or (Path(given) if given else None)
    folders = [folder for folder in (arguments.reference, data) if folder is not None]
    if not folders:
        parser.error("give --reference, --data (or set BIASGATE_REAL_DATA), or both")
    for folder in folders:
        if not folder.is_dir():
            parser.error(f"{folder} must be a folder; there is none")
    arguments.output.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, Figure] = {}
    if arguments.reference is not None:
        pictures |= draw_published(arguments.reference)
    if data is not None:
        pictures |= draw_borkan(data) | draw_dixon(data)
    for name, figure in pictures.items():
        figure.savefig(arguments.output / f"{name}.png", dpi=100)
        print(f"{arguments.output / name}.png")


def draw_published(folder: Path) -> dict[str, Figure]:
    """Draw every table for which the folder has values."""
    values = json.loads((folder / "published_values.json").read_text("utf-8"))
    dixon = values["dixon2018"]
    return {
        **_draw_borkan_2(
            values["table2_as_printed"], json.loads((folder / "borkan_table2.json").read_text())
        ),
        **_draw_borkan_3_and_6(folder),
        "borkan-table5": _draw_borkan_5(_read_rows(folder / "borkan_table5.csv")),
        "dixon-table3": _draw_dixon_3(dixon["table3_pinned"]),
        "dixon-table4": _draw_dixon_4(dixon["table4_mean_auc"]),
        "dixon-table5": _draw_dixon_5(dixon["table5_sums"]),
    }


def _read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _draw_borkan_2(printed: dict[str, Any], drawn: dict[str, Any]) -> dict[str, Figure]:
    """Draw Table 2: the distributions, the printed numbers, and the numbers of our functions."""
    rows, panels = [], {}
    for letter, name in COLUMNS.items():
        column, gaps = printed[letter], printed[letter]["aegs"]
        # The table has the gaps of G in reverse order.
        positive, negative = gaps[::-1] if letter == "G" else gaps
        cells = column["sub"], column["bpsn"], column["bnsp"], positive, negative
        pairs = zip(SUBGROUP_METRICS, map(str, cells), strict=True)
        rows.append({"subgroup": letter} | {f"T_{metric}": cell for metric, cell in pairs})
        panels[f"{letter}  {name.partition('(')[0].replace('_', ' ')}"] = column_of_table_2(
            drawn[name]
        )
    printed = published_report(rows, "T")
    ours: dict[str, Mapping[str, Any]] = {}
    for name, (y_true, y_score, members) in panels.items():
        ours |= read_cells(evaluate_bias(y_true, y_score, {name: members}))
    return {
        "borkan-table2": heatmap(
            printed, title=f"As printed: columns A to G on {TABLE_2}", intervals=False
        ),
        "borkan-table2-ours": heatmap(
            {"subgroups": ours}, title=f"Ours: columns A to G on {TABLE_2}"
        ),
        "borkan-table2-distributions": distribution_panels(panels, title=f"Quantiles of {TABLE_2}"),
    }


def _draw_borkan_3_and_6(folder: Path) -> dict[str, Figure]:
    third = _read_rows(folder / "borkan_table3_transcribed.csv")
    sixth = _read_rows(folder / "borkan_table6_short.csv")
    tables = [
        ("borkan-table3-at1", third, "T1", "TOXICITY@1", PHRASES, None),
        ("borkan-table3-at6", third, "T6", "TOXICITY@6", PHRASES, None),
        *(
            (
                f"borkan-table6-at{at}",
                sixth,
                f"{column}:TOXICITY",
                f"TOXICITY@{at}",
                SHORT,
                "subset_size",
            )
            for at, column in ((1, "Rock"), (6, "RockV6_2"))
        ),
    ]
    return {
        file: heatmap(
            published_report(rows, columns, n=n), title=f"{name} on {where}", intervals=False
        )
        for file, rows, columns, name, where, n in tables
    }


def _draw_borkan_5(rows: list[dict[str, str]]) -> Figure:
    return printed_table(
        {
            row["subgroup"]: [
                Printed(f"{int(row['count']):,}"),
                Printed(row["percent_toxic"], "percent_toxic"),
            ]
            for row in rows
        },
        ["Comments", "Percent\ntoxic"],
        title=f"{BORKAN}, Table 5, as printed",
        note="Colour: 0 to 50 percent.",
    )


def _draw_dixon_3(printed: dict[str, Any]) -> Figure:
    y_true, y_score, groups = heights(4000)
    rows: dict[str, list[Printed | None]] = {
        "combined": [
            Printed(f"{printed['combined_auc']}", "auc"),
            Printed(f"{roc_auc(y_true, y_score).value:.3f}", "auc"),
            None,
            None,
        ]
    }
    for name, mask in groups.items():
        ours = (
            roc_auc(y_true[mask], y_score[mask]).value,
            pinned_auc(y_true, y_score, mask).value,
        )
        rows[name] = [
            Printed(text, "auc")
            for theirs, value in zip(printed[name], ours, strict=True)
            for text in (str(theirs), f"{value:.3f}")
        ]
    return printed_table(
        rows,
        ["AUC\nas printed", "AUC\nours", "Pinned AUC\nas printed", "Pinned AUC\nours"],
        title=f"{DIXON}, Table 3: printed, and solved from normal distributions",
        note="Ours: equal variances, AUC .93 each, one group shifted until all together have .79.",
    )


def _draw_dixon_4(printed: dict[str, Any]) -> Figure:
    return printed_table(
        {
            name: [Printed(f"{value:.3f}", "auc") for value in printed[key]]
            for key, name in {
                "baseline": "baseline",
                "random_control": "random control",
                "debiased": "bias-mitigated",
            }.items()
        },
        ["General\ntest set", "Phrase\ntemplates"],
        title=f"{DIXON}, Table 4, as printed: mean AUC",
        note="Means over 10 trained models each. Colour: 0.5 to 1.",
    )


def _draw_dixon_5(printed: dict[str, Any]) -> Figure:
    names = {
        "tnr/fpr_equality_difference": "false positive",
        "fnr_equality_difference": "false negative",
        "pinned_auc_equality_difference": "pinned AUC",
    }
    return printed_table(
        {
            name: [
                Printed(f"{printed[key][m]:.2f}", "equality_difference", printed[key][m] / 500)
                for m in MODELS
            ]
            for key, name in names.items()
        },
        list(MODELS.values()),
        title=f"{DIXON}, Table 5, as printed:\nequality differences",
        note="Sums over 50 terms and 10 trained models. Colour: the mean of one, 0 to 0.2.",
    )


if __name__ == "__main__":
    main()
