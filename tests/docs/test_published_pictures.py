"""The command that draws the published tables: what it shows, and what it says is our own."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.text import Text
from own_data import draw_borkan
from published import draw_published, main

SCRIPT = Path(__file__).parents[2] / "docs" / "reproduce" / "published.py"


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


@pytest.fixture(scope="module")
def drawn(reference):
    return draw_published(reference)


def test_every_table_with_published_values_is_drawn_and_says_so(drawn, tmp_path):
    assert set(drawn) == {
        *("borkan-table2", "borkan-table2-ours", "borkan-table2-distributions"),
        *("borkan-table3-at1", "borkan-table3-at6", "borkan-table5"),
        *("borkan-table6-at1", "borkan-table6-at6"),
        *("dixon-table3", "dixon-table4", "dixon-table5"),
    }
    for name, figure in drawn.items():
        paper = "Borkan et al. 2019" if name.startswith("borkan") else "Dixon et al. 2018"
        assert paper in figure.get_suptitle()
        figure.savefig(tmp_path / f"{name}.png", dpi=30)


def test_table_5_of_borkan_shows_every_count_and_percentage_as_printed(drawn, reference):
    table = pd.read_csv(reference / "borkan_table5.csv", dtype=str)
    shown = [text.get_text() for text in drawn["borkan-table5"].axes[0].texts]
    expected = [
        text for _, n, percent in table.itertuples(index=False) for text in (f"{int(n):,}", percent)
    ]
    assert shown == expected


def test_tables_4_and_5_of_dixon_show_the_printed_means_and_sums(drawn, reference):
    values = json.loads((reference / "published_values.json").read_text())["dixon2018"]
    means = [f"{mean:.3f}" for row in ("baseline", "random_control", "debiased")
             for mean in values["table4_mean_auc"][row]]  # fmt: skip
    sums = [f"{one:.2f}" for row in values["table5_sums"].values() for one in row.values()]
    for name, expected in (("dixon-table4", means), ("dixon-table5", sums)):
        assert [text.get_text() for text in drawn[name].axes[0].texts] == expected


def test_the_gaps_of_table_2_stand_in_one_order(drawn):
    cells = drawn["borkan-table2"].axes[0].texts
    by_row = [[cell.get_text() for cell in cells if int(cell.get_position()[1]) == row]
              for row in range(7)]  # fmt: skip
    gaps = {row[-2][0] + row[-1][0] for row in by_row[4:]}  # E, F and G
    assert len(by_row[0]) == 5
    # Positive before negative: all three pull the subgroup's scores to the middle.
    assert {letter for pair in gaps for letter in pair} == {"+", "-"}
    assert len(gaps) == 1


def test_a_figure_without_public_data_is_titled_own_data(real_data):
    own = draw_borkan(real_data)
    assert set(own) == {
        *("own-borkan-table7", "own-borkan-figure2-negative", "own-borkan-figure2-positive"),
    }
    assert all(figure.get_suptitle().startswith("own data") for figure in own.values())
    assert "christian\nAEG +0.033" in texts(own["own-borkan-figure2-negative"])


@pytest.mark.slow
def test_the_command_draws_everything_it_has_folders_for(real_data, reference, tmp_path):
    command = [sys.executable, SCRIPT, "--data", real_data, "--reference", reference]
    subprocess.run([*command, "--output", tmp_path / "out"], check=True, capture_output=True)
    names = {path.stem for path in (tmp_path / "out").iterdir()}
    assert {f"own-dixon-figure{number}" for number in (3, 4, 5)} <= names
    assert {"own-dixon-table4", "own-dixon-table5", "own-borkan-table7", "borkan-table2"} <= names
    assert len(names) == 19


@pytest.mark.parametrize(
    ("options", "said"),
    [([], "give --reference, --data"), (["--reference", "nowhere"], "nowhere must be a folder")],
)
def test_the_command_needs_a_folder_that_exists(options, said, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("BIASGATE_REAL_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", ["published.py", *options, "--output", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        main()
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
