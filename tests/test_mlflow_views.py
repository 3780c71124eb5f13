"""The links that `biasgate ui` prints, opened in a real browser: three candidates on two sets.

Each candidate but one is unfair to somebody, and a champion was there before.
"""

import json
import re

import pytest
from support.browser import links_of, mlflow_page, started_ui
from support.hostile import NAMES, OVERRIDE
from support.several_candidates import UNFAIR, evaluate, write_files

from biasgate.tasks.common.printable import escape_invisible

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.slow

RUNS = [f"{candidate} on {one}" for candidate in UNFAIR for one in ("news", "forum")]


@pytest.fixture(scope="module")
def judged(tmp_path_factory, prefect_home):
    """Folder of the evaluations, with one store: `toxicity`, and `hostile` with hostile names."""
    folder = tmp_path_factory.mktemp("judged")
    cases = {
        "toxicity": {},
        "hostile": {"identities": NAMES, "rows": 800, "only": ("shifted",)},
    }
    for name, options in cases.items():
        prefect_home(folder / name / "prefect")
        write_files(folder / name, name=name, **options)
        evaluate(folder / name, "first.yaml", folder / "store")
        evaluate(folder / name, "second.yaml", folder / "store")
    return folder


@pytest.fixture(scope="module")
def printed(judged):
    with started_ui(judged / "store") as (_, printed):
        yield printed


@pytest.fixture(scope="module")
def links(printed):
    return links_of(printed, "toxicity")


@pytest.fixture
def page(browser, tmp_path, request):
    with mlflow_page(browser, tmp_path / f"{request.node.name}.png") as page:
        yield page


def opened(page, address):
    page.goto(address)
    expect(page.get_by_role("button", name="Latest evaluation")).to_be_visible()
    return page


def expect(what):
    return playwright.expect(what)


def to_section(page, name):
    """Scroll to a section of charts; its header has the number of charts, too."""
    headers = page.get_by_test_id("experiment-view-compare-runs-section-header")
    header = headers.filter(has_text=re.compile(f"^{name}"))
    header.first.scroll_into_view_if_needed()


def test_the_first_link_tells_which_identity_got_worse_than_the_champion_and_by_how_much(
    page, links
):
    opened(page, links["candidates"])
    row = page.get_by_role("row").filter(has_text="worse_than_champion")
    expect(row.first).to_be_visible()
    told = page.get_by_text(re.compile(rf"({'|'.join(UNFAIR['shifted'])}) BPSN AUC 0\.\d+ → 0\.\d"))
    expect(told.first).to_be_visible()


def test_the_candidates_of_the_latest_evaluation_are_listed_the_worst_first(page, links):
    opened(page, links["candidates"])
    expect(page.get_by_text(f"{len(RUNS)} matching runs")).to_be_visible()
    runs = page.get_by_role("link", name=re.compile(" on (news|forum)$"))
    expect(runs).to_have_count(len(RUNS))
    names = runs.all_inner_texts()
    assert sorted(names) == sorted(RUNS)
    assert {names[0], names[1]} == {"shifted on news", "shifted on forum"}


def test_another_link_lists_those_of_all_evaluations(page, links):
    page.goto(links["all evaluations"])
    expect(page.get_by_text(f"{len(RUNS) + 2} matching runs")).to_be_visible()


def test_charts_open_with_few_bars_and_no_chart_of_a_single_identity(page, links):
    opened(page, links["charts"])
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    for prefix in ("bpsn_auc", "n_rows"):
        to_section(page, prefix)
    assert page.locator(".js-plotly-plot").count() <= 3


def test_pictures_of_all_candidates_stand_side_by_side_and_open_large(page, links):
    opened(page, links["charts"])
    to_section(page, "Pictures side by side")
    grid = page.get_by_role("table").filter(has_text="intervals").first
    for key in ("harm", "difference", "heatmap", "intervals"):
        row = grid.get_by_role("row").filter(has_text=key)
        expect(row.locator("img")).to_have_count(len(RUNS))
    picture = grid.locator("img").first
    assert picture.evaluate("image => image.complete && image.naturalWidth") > 500
    picture.click()
    large = page.locator(".rc-image-preview-img, [class*=image-preview-img]").first
    expect(large).to_be_visible()


def test_every_metric_of_every_candidate_stands_in_one_table_with_its_difference(page, links):
    opened(page, links["charts"])
    to_section(page, "Every metric of every candidate")
    expect(page.get_by_text("Show change from baseline")).to_be_visible()
    expect(page.get_by_test_id("negative-cell-direction").first).to_be_visible()


def test_the_tab_of_models_lists_each_candidate_and_its_registered_version(page, links):
    page.goto(links["models"])
    for name in UNFAIR:
        expect(page.get_by_role("link", name=name, exact=True).first).to_be_visible()
    versions = page.get_by_role("link", name=re.compile("toxicity"))
    expect(versions.first).to_be_attached()


def test_a_candidates_note_begins_with_what_got_worse_and_leads_to_its_page(page, links):
    opened(page, links["candidates"])
    page.get_by_role("link", name="shifted on news").click()
    expect(
        page.get_by_text(re.compile("Worse than the champion: (gay|old) ")).first
    ).to_be_visible()
    with page.expect_popup() as opened_page:
        page.get_by_role("link", name="Report", exact=True).click()
    shown = opened_page.value.frame_locator("iframe").first
    expect(shown.get_by_role("heading", name="Verdict")).to_be_visible()


def test_tables_of_candidates_stand_side_by_side(page, links):
    opened(page, links["candidates"])
    page.get_by_role("link", name="shifted on news").click()
    with page.expect_popup() as opened_page:
        page.get_by_role("link", name="Tables of candidates").click()
    table = opened_page.value.get_by_role("combobox", name=re.compile("bias_metrics.json"))
    expect(table).to_be_visible()
    expect(opened_page.value.get_by_text("transgender").first).to_be_visible()


def test_hostile_names_are_only_text_in_lists_charts_and_notes(page, printed, judged):
    links = links_of(printed, "hostile")
    opened(page, links["candidates"])
    expect(page.get_by_role("link", name="shifted on news")).to_be_visible()
    opened(page, links["charts"])
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    summary = json.loads((judged / "hostile" / "second" / "summary.json").read_text("utf-8"))
    root = links["models"].partition("/models")[0]
    run_ids = [summary["run_id"], *(one["run_id"] for one in summary["verdicts"])]
    for run_id in run_ids:
        page.goto(f"{root}/runs/{run_id}?workflowType=machine_learning")
        expect(page.get_by_role("link", name="Report", exact=True)).to_be_visible()
        note = page.locator(
            ".markdown-preview, [data-testid=note-view-content], .note-view-preview"
        )
        note = page.get_by_role("link", name="Report", exact=True).locator("xpath=../..")
        for tag in ("img", "script", "h1", "code", "details", "blockquote"):
            assert note.locator(tag).count() == 0, (tag, note.inner_html())
        assert {one.inner_text() for one in note.locator("a").all()} <= KNOWN_LINKS
        assert OVERRIDE not in page.content()


def test_a_note_says_the_outcome_of_each_candidate(page, printed, judged):
    summary = json.loads((judged / "hostile" / "second" / "summary.json").read_text("utf-8"))
    root = links_of(printed, "hostile")["models"].partition("/models")[0]
    page.goto(f"{root}/runs/{summary['run_id']}?workflowType=machine_learning")
    said = page.locator("p").filter(has=page.locator("strong"), has_text="shifted")
    expect(said.first).to_be_visible()
    outcomes = page.locator("p > strong")
    expect(outcomes).to_have_count(len(summary["decisions"]))
    assert escape_invisible(OVERRIDE) != OVERRIDE


KNOWN_LINKS = {
    "Report",
    "Table",
    "All candidates",
    "Charts and differences",
    "Compare the runs",
    "Tables of candidates",
    "Models",
}
