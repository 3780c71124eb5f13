"""What `benchmarks.same_numbers` calls the same, and what it must not."""

import json

import pytest

pytest.importorskip("pyarrow")
same_numbers = pytest.importorskip("benchmarks.same_numbers")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

VERDICT = {
    "outcome": "pass",
    "decided_on": "2026-11-21",
    "run_id": "97c2c42970cc4d5a8a2593bdaea92200",
    "bias": {"subgroups": {"muslim": {"auc": 0.8125}, "gay": {"auc": None}}},
    "results": [{"group": "muslim", "sentence": "auc of muslim is 0.8125.", "measured": False}],
}
PAGE = "<html><style>p {{}}</style><h1>Passed</h1><p title='bound {0}'>auc {0}</p></html>"


def write(folder, verdict=VERDICT, page="0.8125", cell="0.5", score=0.25):
    (folder / "set").mkdir(parents=True)
    (folder / "set" / "verdict.json").write_text(json.dumps(verdict))
    (folder / "set" / "report.html").write_text(PAGE.format(page))
    (folder / "set" / "junit.xml").write_text(
        f"<suite time='{cell}'><case name='a'>b</case></suite>"
    )
    (folder / "table.csv").write_text(f"subgroup,auc\nmuslim,{cell}\n")
    (folder / "notes.md").write_text("Written to /tmp/x.1/out at 2026-11-21 10:00:00 UTC.\n")
    pq.write_table(pa.table({"id": ["a", "b"], "score": [0.5, score]}), folder / "rows.parquet")
    return folder


def changed(**values):
    return json.loads(json.dumps(VERDICT)) | values


@pytest.fixture
def compared(tmp_path, capsys):
    before = write(tmp_path / "before")

    def run(**values):
        after = write(tmp_path / "after", **values)
        return same_numbers.main([str(before), str(after)]), capsys.readouterr().out

    return run


def test_another_run_of_the_same_numbers_is_the_same(compared):
    other = changed(decided_on="2026-12-01", run_id="9ba53edc4b2541e9a33a5cc26f80c429")
    other["bias"]["subgroups"]["muslim"]["auc"] += 1e-13
    code, printed = compared(verdict=other)
    assert code == 0
    assert "no difference" in printed
    assert "ignored: times, the key 'decided_on', 1 times" in printed
    assert "ignored: ids and digests in texts, 2 times" in printed
    # auc twice, measured, the cell of the CSV, and two scores
    assert "compared: 6 numbers" in printed


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {
                "verdict": changed(
                    bias={"subgroups": {"muslim": {"auc": 0.8126}, "gay": {"auc": None}}}
                )
            },
            "changed: set/verdict.json: bias.subgroups.*.auc (1 times; 0.8125 -> 0.8126)",
        ),
        ({"verdict": changed(outcome="fail")}, "changed: set/verdict.json: outcome"),
        ({"verdict": changed(results=[])}, "1 -> 0 items"),
        ({"cell": "0.500000001"}, "changed: table.csv: auc.*"),
        ({"cell": "inf"}, "0.5 -> Infinity"),
        ({"cell": "nan"}, "0.5 -> NaN"),
        ({"score": 0.25000000001}, "changed: rows.parquet: score.*"),
        ({"page": "0.8135"}, "lines of set/report.html: 4 differ"),
    ],
)
def test_a_number_or_a_verdict_that_differs_fails(compared, values, told):
    code, printed = compared(**values)
    assert code == 1
    assert told in printed


def test_numbers_of_a_table_are_compared_by_what_they_are_about(tmp_path, capsys):
    auc = {"metric": "auc", "value": 0.9}
    bpsn = {"metric": "bpsn_auc", "group": "muslim", "value": 0.8}
    folders = [
        str(write(tmp_path / str(at), changed(numbers=numbers)))
        for at, numbers in enumerate(([auc, bpsn], [bpsn, auc], [auc, bpsn | {"value": 0.7}]))
    ]
    assert same_numbers.main(folders[:2]) == 0
    assert same_numbers.main(folders[1:]) == 1
    told = "changed: set/verdict.json: numbers.bpsn_auc/*.value (1 times; 0.8 -> 0.7)"
    assert told in capsys.readouterr().out


TABLE = {
    "counts": [{"group": None, "n_positive": 40}, {"group": "gay", "n_positive": 7}],
    "numbers": [
        {"metric": "auc", "value": 0.9},
        {"metric": "auc", "group": "gay", "value": 0.8},
        {"metric": "fpr_gap", "group": "gay", "threshold": "given", "value": 0.1},
        {"metric": "fpr_gap", "group": "gay", "threshold": "equal_errors", "value": 0.2},
        {"metric": "auc", "group": "gay", "against": "champion", "value": 0.3},
    ],
}


def table(part, at, **values):
    """Return the table with other values of one of its items."""
    found = json.loads(json.dumps(TABLE))
    found[part][at] |= values
    return found


@pytest.mark.parametrize("part", TABLE)
def test_numbers_of_a_table_may_stand_in_any_order(tmp_path, part):
    before = write(tmp_path / "before", changed(bias=TABLE))
    after = write(tmp_path / "after", changed(bias=TABLE | {part: TABLE[part][::-1]}))
    assert same_numbers.main([str(before), str(after)]) == 0


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (table("counts", 1, n_positive=8), "changed: set/verdict.json: bias.counts.*.n_positive"),
        (table("numbers", 0, value=0.91), "changed: set/verdict.json: bias.numbers.auc.value"),
        (table("numbers", 1, value=0.81), "changed: set/verdict.json: bias.numbers.auc/*.value"),
        (table("numbers", 2, value=0.11), "bias.numbers.fpr_gap/*/given.value"),
        (table("numbers", 4, value=0.31), "bias.numbers.auc/*/champion.value"),
        (
            table("numbers", 2, threshold="half"),
            "missing: set/verdict.json: bias.numbers.fpr_gap/*",
        ),
        (
            TABLE | {"numbers": TABLE["numbers"][1:]},
            "missing: set/verdict.json: bias.numbers.auc (",
        ),
        (TABLE | {"numbers": TABLE["numbers"][:1]}, "5 -> 1 items"),
    ],
)
def test_a_number_of_a_table_that_differs_or_is_missing_fails(tmp_path, capsys, other, told):
    before = write(tmp_path / "before", changed(bias=TABLE))
    after = write(tmp_path / "after", changed(bias=other))
    assert same_numbers.main([str(before), str(after)]) == 1
    assert told in capsys.readouterr().out
    assert same_numbers.main([str(after), str(before)]) == 1


@pytest.mark.parametrize("key", ["measured", "group"])
def test_a_key_that_is_missing_fails_and_one_that_is_new_does_not(compared, tmp_path, key):
    other = changed()
    del other["results"][0][key]
    code, printed = compared(verdict=other)
    assert (code, f"missing: set/verdict.json: results.*.{key}" in printed) == (1, True)
    assert same_numbers.main([str(tmp_path / "after"), str(tmp_path / "before")]) == 0


def test_other_words_are_told_and_do_no_harm_unless_a_number_in_them_differs(compared, tmp_path):
    other = changed()
    other["results"][0]["sentence"] = "The auc of muslim is 0.8125."
    code, printed = compared(verdict=other)
    assert (code, "wording: set/verdict.json: results.*.sentence" in printed) == (0, True)
    other["results"][0]["sentence"] = "The auc of muslim is 0.8126."
    (tmp_path / "after/set/verdict.json").write_text(json.dumps(other))
    assert same_numbers.main([str(tmp_path / "before"), str(tmp_path / "after")]) == 1


def test_a_file_that_is_missing_fails(compared, tmp_path):
    assert compared()[0] == 0
    (tmp_path / "after/rows.parquet").unlink()
    assert same_numbers.main([str(tmp_path / "before"), str(tmp_path / "after")]) == 1


TREE = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--output") + 1])
folder.mkdir(parents=True)
rows = pathlib.Path("rows.csv").read_text().count("\\n") if sys.argv[1] == "nightly" else 0
content = {{"rows": rows, "auc": {auc}, "cell": {{"value": {auc}, "low": {low}}}}}
(folder / "report.json").write_text(json.dumps(content))
sys.exit({code})
"""


def tree(folder, auc=0.5, low=0.25, code=3):
    (folder / "biasgate").mkdir(parents=True)
    (folder / "biasgate/__init__.py").touch()
    (folder / "biasgate/__main__.py").write_text(TREE.format(auc=auc, low=low, code=code))
    return folder


@pytest.mark.parametrize(
    ("other", "code", "told"),
    [
        ({}, 0, "largest difference of estimates: 0 of"),
        ({"auc": 0.75}, 1, "largest difference of estimates: 0.25 of max(1, |number|) demo/report"),
        ({"low": 0.125}, 1, "largest difference of bounds, errors and p-values: 0.12 of max"),
        ({"code": 4}, 1, "changed: night_1/exit_code.json: exit_code (1 times; 3 -> 4)"),
    ],
)
def test_two_trees_are_run_on_the_same_inputs(tmp_path, monkeypatch, capsys, other, code, told):
    monkeypatch.setenv("BENCHMARK_TREE", str(tree(tmp_path / "other")))
    monkeypatch.setenv("BIASGATE_REAL_DATA", "")
    monkeypatch.setattr(same_numbers, "THIS_TREE", tree(tmp_path / "this", **other))
    place = ["--keep", str(tmp_path / "kept"), "--only", "demo", "night_1"]
    assert same_numbers.main(place) == code
    assert told in capsys.readouterr().out
    kept = json.loads((tmp_path / "kept/before/night_1/report.json").read_text())
    assert kept["rows"] == 1_501


def test_a_command_that_ends_with_an_error_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCHMARK_TREE", str(tree(tmp_path / "other", code=2)))
    with pytest.raises(SystemExit, match="ended with 2"):
        same_numbers.main(["--keep", str(tmp_path / "kept"), "--only", "demo"])
