"""The table of metrics shows every name in full, whatever the width of the terminal."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from support.judging import CHOICES, report_of
from support.made import UNDEFINED, bias_of, report_with, result, verdict_of

from bias_metrics import Key, MetricValue, RowCounts
from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from biasgate.tasks.reporting.terminal_table import format_title, print_table

NAMES = [
    "asian", "atheist", "bisexual", "black", "buddhist", "christian", "female", "heterosexual",
    "hindu", "homosexual_gay_or_lesbian", "intellectual_or_learning_disability", "jewish",
    "latino", "male", "muslim", "other_disability", "other_gender", "other_race_or_ethnicity",
    "other_religion", "other_sexual_orientation", "physical_disability",
    "psychiatric_or_mental_illness", "transgender", "white",
]  # fmt: skip


def cell(value):
    return MetricValue(value, low=None if value is None else value - 0.0165, high=value)


def report(numbers=None, **changes):
    cells = {one: cell(-0.123 if one.endswith("_aeg") else 0.783) for one in SUBGROUP_METRICS}
    known = {"final_score": cell(0.87)} | {one: cells[one] for one in FINAL_SCORE_PARTS}
    subgroups = dict.fromkeys(NAMES, cells) | {"white": cells | {"bnsp_auc": UNDEFINED}}
    rows = dict.fromkeys(NAMES, RowCounts(2_345, 10_000)) | {None: RowCounts(45_000, 352_283)}
    bias = bias_of(subgroups, auc=cell(0.9), counts=rows).add_numbers(
        {Key(metric): one for metric, one in (known | (numbers or {})).items()}
    )
    choices = CHOICES | {"n_rows": 42870, "n_rows_measured": 42870}
    named = {"on": "comments", "candidate": {"name": "a"}}
    return report_of(replace(bias, **changes), choices=choices, **named)


def printed(width, *, unmet=True):
    results = [result("fail", group=name, metric="negative_aeg") for name in NAMES[: 20 * unmet]]
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_table(out, report(), verdict_of(*results))
    return out.file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 118, 200])
def test_every_name_and_value_is_whole_at_every_width(width):
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    lines = text.splitlines()
    for name in NAMES:
        named = [one for one in lines if one.split()[:1] == [name] or f"│ {name} " in one]
        assert len(named) == 1
    assert text.count("0.783") == 24 * 3 - 1 + 3
    assert text.count("-0.123 ✕") + text.count("-0.123 ±.008 ✕") == 20
    assert "…" not in text


@pytest.mark.parametrize("width", [80, 100, 200])
def test_intervals_are_shown_from_80_columns_on(width):
    assert printed(width).count("0.783 ±.008") == 24 * 3 - 1 + 3
    assert "± is half the width" in printed(width)


def test_the_final_score_is_named_by_what_it_is_over_and_by_why_it_is_undefined():
    assert "final score over 24 identities 0.870 ±.008" in format_title(report())
    undefined = MetricValue(None, "undefined: asian has [no] positives")
    found = report({"final_score": undefined}, covered=("asian",))
    assert format_title(found).endswith("final score over 1 identity undefined")
    out = Console(file=io.StringIO(), width=118, highlight=False)
    print_table(out, found, verdict_of())
    said = " ".join(out.file.getvalue().split())
    assert "The final score is undefined: asian has [no] positives." in said
    assert "checks use one-sided bounds" in said


def test_below_that_the_legend_says_where_they_are():
    assert "±.008" not in printed(60).replace("0.900 ±.008", "").split("\n", 3)[3]
    assert "Intervals are in bias_metrics.csv." in printed(60)


@pytest.mark.parametrize("width", [60, 200])
def test_the_mark_is_explained_where_there_is_one(width):
    assert "✕ fails a check (see below)." in " ".join(printed(width).split())
    assert "✕" not in printed(width, unmet=False)


def test_a_wide_terminal_gets_a_table_and_a_narrow_one_two_lines_for_each_identity():
    assert "│ muslim" in printed(200)
    lines = printed(80).splitlines()
    at = lines.index("muslim  12,345 rows, 2,345 positive")
    assert lines[at + 1].split()[0] == "0.783"


def test_names_of_identities_are_no_markup():
    found = report_with({"[red]a[/red]": report().bias.subgroups["asian"]})
    out = Console(file=io.StringIO(), width=200, highlight=False)
    print_table(out, found, verdict_of())
    assert "│ [red]a[/red] " in out.file.getvalue()
