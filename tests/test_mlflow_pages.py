"""What a user sees of the demo in MLflow's pages, in a real browser."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.browser import links_of, mlflow_page, started_ui

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.slow

BIASGATE = [sys.executable, "-m", "biasgate"]
BIASED, BALANCED = "biased_labels on templates", "balanced_labels on templates"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Folder with the results of the demo, its store included."""
    folder = tmp_path_factory.mktemp("demo")
    environment = os.environ | {"PREFECT_HOME": str(folder / "prefect")}
    command = [*BIASGATE, "demo", "--output", "results"]
    subprocess.run(command, check=True, cwd=folder, env=environment, capture_output=True)
    return folder / "results"


@pytest.fixture(scope="module")
def pages(demo):
    """Address of the list of runs."""
    with started_ui(Path(f"{demo}-store")) as (server, printed):
        view = links_of(printed, "demo")["candidates"]
        yield view.partition("&viewStateShareKey")[0]
        listening = {one.laddr.ip for one in _listeners(server)}
        assert listening == {"127.0.0.1"}
        helpers = psutil.Process(server.pid).children(recursive=True)
    assert not [one for one in helpers if one.is_running()]


@pytest.fixture
def page(browser, tmp_path, request):
    with mlflow_page(browser, tmp_path / f"{request.node.name}.png") as page:
        yield page


def test_the_list_of_runs_unfolds_and_two_candidates_are_compared(page, pages):
    page.goto(pages)
    row = page.get_by_role("gridcell", name="evaluate demo")
    row.get_by_role("button").first.click()
    for name in (BIASED, BALANCED):
        playwright.expect(page.get_by_role("link", name=name)).to_be_visible()
    numbers = [
        page.get_by_role("row").filter(has_text=name).first.get_attribute("row-index")
        for name in (BIASED, BALANCED)
    ]
    for number in numbers:
        page.locator(f'[row-index="{number}"] input[type=checkbox]').first.check()
    page.get_by_role("button", name="Compare").click()
    assert_compared(page)


def test_the_evaluations_page_tells_the_verdicts_and_leads_to_the_comparison(page, pages):
    page.goto(pages)
    page.get_by_role("link", name="evaluate demo").click()
    for text in ("Blocked: biased_labels", "Passed with exceptions: balanced_labels"):
        playwright.expect(page.get_by_text(text).first).to_be_visible()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Compare the runs").click()
    assert_compared(opened.value)


def assert_compared(page):
    """Both names, and metrics of each kind, for which the table must be scrolled."""
    playwright.expect(page.get_by_text("Comparing 2 Runs")).to_be_visible()
    for text in (BIASED, BALANCED, "auc/overall"):
        playwright.expect(page.get_by_text(text, exact=True).last).to_be_visible()
    values = page.get_by_role("grid").last
    for metric in ("bnsp_auc/muslim", "bpsn_auc/muslim", "final_score", "negative_aeg/gay"):
        link = page.get_by_role("link", name=metric)
        for place in range(0, 10_000, 200):
            if link.count():
                break
            values.evaluate("(values, place) => { values.scrollTop = place }", place)
            page.wait_for_timeout(100)
        playwright.expect(link).to_be_visible()


def demands(demo):
    """How many demands the biased candidate does not meet, and of how many."""
    verdict = json.loads((demo / "templates" / "biased_labels" / "verdict.json").read_text())
    outcomes = [one["outcome"] for one in verdict["results"] if one["outcome"] != "skipped"]
    unmet = sum(one != "pass" for one in outcomes)
    assert unmet >= 6  # three metrics of the two identities that the demo is about
    return unmet, len(outcomes)


def test_a_runs_page_says_what_it_is_blocked_for(page, pages, demo):
    unmet, n_demands = demands(demo)
    page.goto(pages)
    page.get_by_role("link", name="evaluate demo").click()
    page.get_by_role("link", name=BIASED).click()
    for text in (
        f"{n_demands} checks: ",
        f"{n_demands - unmet} passed;",
        "Worst identity: gay: BPSN AUC 0.",
    ):
        playwright.expect(page.get_by_text(text).first).to_be_visible()


def test_the_heatmap_is_shown_among_the_artifacts(page, pages, demo):
    run_id = json.loads((demo / "summary.json").read_text())["verdicts"][0]["run_id"]
    root, _, experiment = pages.partition("/#/")
    experiment = experiment.partition("/runs")[0]
    page.goto(f"{root}/#/{experiment}/runs/{run_id}/artifacts")
    page.get_by_text("heatmap.png").click()
    picture = page.locator("img[src^=blob], img[src*=heatmap]").first
    playwright.expect(picture).to_be_visible()
    assert picture.evaluate("image => image.complete && image.naturalWidth") > 500


def test_the_page_of_the_evaluation_opens_among_the_artifacts_and_its_slider_works(
    page, pages, demo
):
    run_id = json.loads((demo / "summary.json").read_text())["run_id"]
    root, _, experiment = pages.partition("/#/")
    experiment = experiment.partition("/runs")[0]
    page.goto(f"{root}/#/{experiment}/runs/{run_id}/artifacts")
    page.get_by_text("report.html").click()
    shown = page.frame_locator("iframe").first
    playwright.expect(shown.get_by_role("heading", name="Verdict")).to_be_visible()
    playwright.expect(shown.get_by_text("1 of 2 candidates passed on templates")).to_be_visible()
    for fold in (0, 1):  # the section, and the first candidate
        shown.locator("#thresholds summary").nth(fold).click()
    before = shown.locator("#thresholds .flagged").first.inner_text()
    shown.get_by_role("slider").first.press("Home")
    assert shown.locator("#thresholds .flagged").first.inner_text() != before


def _listeners(server):
    processes = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
    return [
        one
        for process in processes
        for one in process.net_connections()
        if one.status == psutil.CONN_LISTEN
    ]
