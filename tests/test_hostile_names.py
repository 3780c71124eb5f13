"""Hostile names: refused where they would be folders, and only text on every page that has them."""

import csv
import io
import json
import subprocess
import sys
import urllib.request

import pytest
import yaml
from markdown_it import MarkdownIt
from support.hostile import HEBREW, IMAGE, NAMES, OVERRIDE, SCRIPT

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.reading_evaluation import read_evaluation

ABOUT = {
    "details": f"{SCRIPT} {IMAGE}\n\n</td></tr></table> a|b\n```",
    "intended_use": f"[a](javascript:alert(1)) {OVERRIDE}",
    "out_of_scope": f"<details open ontoggle=alert(1)> {HEBREW}",
    "ethical_considerations": "<style>body {display: none}</style> =cmd()",
    "contact": "a@b.c\n\n# Verdict\n\n**Passed**\n<svg onload=alert(1)>",
}
SET = {"name": "rows", "source": "table", "path": "rows.csv", "identities": NAMES}
EVALUATION = {
    "name": "Hostile names",
    "evaluation_sets": [SET],
    "candidates": [{"name": "scores", "kind": "scores", "path": "scores.csv"}],
    "model_card": ABOUT,
}


def write_files(folder, **changes):
    """Comments of which each mentions one hostile name; the scores know nothing."""
    n = 100 * len(NAMES)
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "label", *NAMES])
        for row in range(n):
            mentioned = row % len(NAMES)
            of_names = [int(at == mentioned) for at in range(len(NAMES))]
            writer.writerow([row, row // len(NAMES) % 2, *of_names])
    scores = "".join(f"{row},{0.0005 * (row * 37 % 997)}\n" for row in range(n))
    (folder / "scores.csv").write_text("id,prediction\n" + scores)
    path = folder / "hostile.yaml"
    path.write_text(yaml.safe_dump(EVALUATION | changes, allow_unicode=True), "utf-8")
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["name", "candidates", "evaluation_sets"])
def test_names_of_folders_and_experiments_are_refused(tmp_path, name, what):
    changed = name if what == "name" else [EVALUATION[what][0] | {"name": name}]
    with pytest.raises(InputError, match="name: must be at most 100 letters, digits"):
        read_evaluation(write_files(tmp_path, **{what: changed}))


@pytest.fixture(scope="module")
def results(tmp_path_factory, prefect_services):
    """The folder of an evaluation by the command, on a Prefect server with pages."""
    folder = tmp_path_factory.mktemp("hostile")
    command = [sys.executable, "-m", "biasgate", "evaluate", write_files(folder)]
    command += ["--output", "out"]
    done = subprocess.run(
        command, cwd=folder, env=prefect_services, check=False, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    return folder / "out" / "rows" / "scores"


@pytest.fixture
def page(browser, tmp_path, request):
    """A page in which no name may open a dialog or ask for a picture."""
    context = browser.new_context(viewport={"width": 1600, "height": 1000})
    page = context.new_page()
    said = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda asked: said.append(asked.url) if ":9/" in asked.url else None)
    page.on("request", lambda asked: said.append(asked.url) if asked.url.endswith("/x") else None)
    yield page
    page.screenshot(path=tmp_path / f"{request.node.name}.png")
    assert said == []
    context.close()


def artifact(environment, key):
    """The id of an artifact on Prefect's server."""
    content = json.dumps({"artifacts": {"key": {"any_": [key]}}}).encode()
    asked = urllib.request.Request(  # noqa: S310 - of this test
        f"{environment['PREFECT_API_URL']}/artifacts/filter",
        data=content,
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked) as answer:  # noqa: S310 - the same
        return json.loads(answer.read())[0]["id"]


@pytest.mark.slow
@pytest.mark.usefixtures("results")
def test_the_table_on_prefects_page_has_a_row_for_each_name(page, prefect_services):
    root = prefect_services["PREFECT_API_URL"].removesuffix("/api")
    key = "biasgate-hostile-names-identities"
    page.goto(f"{root}/artifacts/artifact/{artifact(prefect_services, key)}")
    page.get_by_role("row").nth(len(NAMES)).wait_for()
    rows = page.get_by_role("row").all()[1:]
    assert {len(row.get_by_role("cell").all()) for row in rows} == {8}
    shown = {row.get_by_role("cell").nth(1).inner_text().strip() for row in rows}
    assert shown == {escape_invisible(name) for name in NAMES}
    for tag in ("img", "a", "code", "strong", "h1"):
        assert page.locator("td").locator(tag).count() == 0


@pytest.mark.slow
@pytest.mark.usefixtures("results")
def test_the_newer_of_prefects_pages_runs_no_name(page, prefect_services):
    page.route(lambda url: "127.0.0.1" not in url, lambda route: route.abort())
    root = prefect_services["PREFECT_API_URL"].removesuffix("/api")
    for key in ("biasgate-hostile-names", "biasgate-hostile-names-identities"):
        page.goto(f"{root}/v2/artifacts/artifact/{artifact(prefect_services, key)}")
        page.get_by_text("alert(1)").first.wait_for()


@pytest.mark.slow
@pytest.mark.usefixtures("results")
def test_the_summary_on_prefects_page_shows_names_as_text(page, prefect_services):
    root = prefect_services["PREFECT_API_URL"].removesuffix("/api")
    page.goto(f"{root}/artifacts/artifact/{artifact(prefect_services, 'biasgate-hostile-names')}")
    page.get_by_role("heading", name="Hostile names: Blocked").wait_for()
    assert page.locator("li", has_text=SCRIPT).count()
    assert page.locator("li", has_text=IMAGE).count()
    for tag in ("img", "a", "strong", "h1"):
        assert page.locator("li").filter(has_text=" of ").locator(tag).count() == 0


@pytest.mark.slow
def test_a_model_card_read_with_html_runs_nothing_and_keeps_its_tables(page, results):
    text = (results / "model_card.md").read_text("utf-8")
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    page.set_content(reader.render(text))
    assert page.locator("img, script, svg, style, details").count() == 0
    assert page.locator("a").evaluate_all("all => all.map(one => one.href)") == []
    rows = page.locator("tbody tr").all()
    assert {row.locator("td").count() for row in rows} == {8}
    shown = {row.locator("td").first.inner_text() for row in rows}
    assert shown == {" ".join(escape_invisible(name).split()) for name in NAMES}
    titles = page.locator("h2").all_inner_texts()
    assert titles.count("Details") == 1
    assert titles[-1] == "Caveats"
    assert page.locator("h1").count() == 1


@pytest.mark.slow
def test_names_in_the_table_of_metrics_are_no_formulas_and_can_be_read_back(results):
    text = (results / "bias_metrics.csv").read_text("utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    groups = dict.fromkeys(row["group"] for row in rows if row["group"])
    assert [name.removeprefix("'") for name in groups] == NAMES
    assert not [name for name in groups if name.startswith(("=", "+", "-", "@"))]
