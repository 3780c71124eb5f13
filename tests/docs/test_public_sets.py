"""The guide's lines for a published test set, on invented cases of the same form."""

from pathlib import Path

import pandas as pd
import yaml

from biasgate.tasks.data.freezing import SOURCES, freeze_source

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "evaluation-files.md"
TARGETS = ["women", "trans people", "gay people", "black people", "disabled people"]
TARGETS += ["Muslims", "immigrants", None]
CASES = pd.DataFrame(
    {
        "case_id": range(16),
        "functionality": ["derog_impl_h", "ident_pos_nh"] * 8,
        "test_case": [f"invented case {at}" for at in range(16)],
        "label_gold": ["hateful", "non-hateful"] * 8,
        "target_ident": TARGETS * 2,
        "templ_id": [at // 8 for at in range(16)],
    }
)


def test_the_lines_of_the_guide_read_a_published_set(tmp_path):
    block = GUIDE.read_text("utf-8").partition("#### Public test sets")[2].partition("```yaml")[2]
    [settings] = yaml.safe_load(block.partition("```")[0])["evaluation_sets"]
    CASES.to_csv(tmp_path / settings["path"], index=False)
    settings["path"] = tmp_path / settings["path"]
    found = freeze_source(SOURCES.validate_python(settings), tmp_path / "store")
    columns = {name: found.column(name).to_pylist() for name in found.columns}
    assert found.identities == TARGETS[:-1]
    assert columns["label"] == [1, 0] * 8
    assert columns["cluster"] == ["0"] * 8 + ["1"] * 8
    assert columns["slice/functionality.derog_impl_h"] == [True, False] * 8
    assert columns["identity/women"] == [1, 0, 0, 0, 0, 0, 0, None] * 2
