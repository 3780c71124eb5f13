"""The site: every page is in its navigation, and its reference is made from the code."""

import re
import subprocess
import sys
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from biasgate.tasks.evaluation_file import evaluation_schema, explain_keys, list_sections
from biasgate.tasks.gating.policy import list_policy_sections, make_policy_schema
from biasgate.tasks.scoring.http.preset import list_presets

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site():
    spec = spec_from_file_location("docs_site", DOCS / "site.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(site, tmp_path_factory):
    target = tmp_path_factory.mktemp("site") / "pages"
    site.main(target)
    return target


def test_every_page_has_one_place_in_the_navigation(site, pages):
    named = [page for _, listed in site.NAV.values() for page in listed]
    written = [path for ending in ("*.md", "*.ipynb") for path in DOCS.rglob(ending)]
    assert len(named) == len(set(named))
    assert {str(path.relative_to(DOCS).with_suffix("")) for path in written} <= set(named)
    assert all((pages / f"{one}.md").exists() or (pages / f"{one}.ipynb").exists() for one in named)


def test_each_key_has_a_heading_that_can_be_linked_to(pages):
    keys = (pages / "reference" / "evaluation-file.md").read_text("utf-8")
    threshold = "\n### every set: label_threshold\n\na number at most 1 and above 0, default 0.5.\n"
    assert threshold in keys
    also = "Also the keys of [every set](#every-set) and of [table](#table)"
    assert f"\n## huggingface\n\n{also}" in keys
    assert "\n### huggingface: revision\n\n" in keys
    assert "\n### huggingface: label_values\n" not in keys
    rules = (pages / "reference" / "policy.md").read_text("utf-8")
    assert re.search(r"\n### PolicyRule: floor\n|\n### \w+: floor\n", rules)
    assert (pages / "schemas" / "policy.schema.json").exists()


def test_a_command_that_explains_a_section_leads_to_its_keys(site, pages):
    guide = (pages / "guides" / "candidates.md").read_text("utf-8")
    assert "[`biasgate schema http`](../reference/evaluation-file.md#http)" in guide
    assert "`biasgate schema KIND` explains" in guide
    page = {"PolicyRule": "policy"}
    found = site._SECTION.sub(partial(site.link_keys, "..", page), "`biasgate schema PolicyRule`")
    assert found == "[`biasgate schema PolicyRule`](../policy.md#policyrule)"


def test_each_key_says_what_it_means():
    sections = list_sections(evaluation_schema()) | list_policy_sections(make_policy_schema())
    keys = [(name, *key) for name, section in sections.items() for key in explain_keys(section)]
    # `kind` and `source` are what names the section.
    assert [one for one in keys if not one[3] and one[1] not in {"kind", "source"}] == []


def test_each_preset_is_on_the_page_of_services(pages):
    said = (pages / "reference" / "services.md").read_text("utf-8")
    assert re.findall(r"^## preset: (\S+)$", said, re.MULTILINE) == list_presets()


def test_each_command_and_each_name_of_the_library_is_in_the_reference(pages):
    said = (pages / "reference" / "commands.md").read_text("utf-8")
    assert {"evaluate", "nightly", "policy", "schema"} <= set(
        re.findall(r"## `biasgate (\w+)`", said)
    )
    rooms = "".join(one.read_text("utf-8") for one in (pages / "reference").glob("library-*.md"))
    assert ".. autofunction:: bias_metrics.evaluate_bias\n" in rooms
    index = (pages / "reference" / "library.md").read_text("utf-8")
    assert "| `subgroup_auc` | AUC(Dg-, Dg+): " in index
    assert "| Borkan et al. (2019), equation 1. | `test_by_hand.py::" in index


def test_each_page_that_search_lists_first_exists(site, pages):
    listed = re.search(r"\^\(guides\\/\|\((.+?)\)\$\)", (pages / "search.js").read_text("utf-8"))
    assert set(listed[1].split("|")) < {name for _, names in site.NAV.values() for name in names}


def test_links_out_of_the_pages_become_paths_and_others_stay_links(pages):
    said = (pages / "guides" / "ci.md").read_text("utf-8")
    assert "`action.yml`" in said
    assert "](../../" not in said
    assert "](candidates.md#failures)" in said
    said = (pages / "evidence" / "models.md").read_text("utf-8")
    assert "successors.yaml (`docs/reproduce/successors.yaml` in the repository)" in said


@pytest.mark.slow
@pytest.mark.skipif(find_spec("sphinx") is None, reason="`make docs` installs Sphinx")
def test_the_site_is_built_without_a_warning(pages, tmp_path):
    asked = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        pages,
        tmp_path,
    ]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "searchindex.js" in {path.name for path in tmp_path.iterdir()}
