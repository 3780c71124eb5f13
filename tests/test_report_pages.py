"""Pages in a real browser without a network: they show, run and print, and names run nothing."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.judged import by_place, judge, rows, summary_of

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.reporting.page.page import build_candidate_page, build_evaluation_page
from biasgate.tasks.reporting.page.writing import render_page

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.slow

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
AXE = "axe-core@4.14.1"
NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[a](javascript:alert(1))",
    "a|b",
    "=cmd()",
    "\u202egnp.exe",
    "עברית",
    "homosexual_gay_or_lesbian_and_a_name_that_is_far_too_long_for_any_column",
]


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Two candidates beside a champion; nothing mentions the last identity."""
    folder = tmp_path_factory.mktemp("judged")
    found = []
    for seed, name in enumerate(("first", "second")):
        columns = rows(NAMES, empty=NAMES[-1:], champion=True, shift=0.8 * (seed == 0), seed=seed)
        found.append(judge(folder / name, columns, name=name))
    return found


@pytest.fixture(scope="module", params=["candidate", "evaluation"])
def address(request, tmp_path_factory, judged):
    """Address of a page in a file."""
    path = tmp_path_factory.mktemp("pages") / "report.html"
    page = build_candidate_page(*judged[0])
    if request.param == "evaluation":
        page = build_evaluation_page(summary_of(judged), by_place(judged))
    path.write_bytes(render_page(page))
    return path.as_uri()


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is missing")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The script of axe-core, which only this test needs."""
    if shutil.which("npm") is None:
        pytest.skip("no npm to fetch axe-core with")
    folder = tmp_path_factory.mktemp("axe")
    fetched = subprocess.run(
        ["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, timeout=120, check=False
    )
    if fetched.returncode:
        pytest.skip(f"npm cannot fetch {AXE}: {fetched.stderr.decode()[-200:]}")
    shutil.unpack_archive(folder / fetched.stdout.decode().strip(), folder, filter="data")
    return folder / "package" / "axe.min.js"


@pytest.fixture
def opened(browser, address, tmp_path, request):
    """A page opened without a network; it must neither run a name, nor ask, nor complain."""
    made = []

    def opened(**options):
        context = browser.new_context(offline=True, **options)
        page = context.new_page()
        said = []
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda asked: said.append(asked.url) if asked.url != address else None)
        page.goto(address)
        made.append((context, page, said))
        return page

    yield opened
    for number, (context, page, said) in enumerate(made):
        page.screenshot(path=tmp_path / f"{request.node.name}-{number}.png", full_page=True)
        assert said == []
        context.close()


def unfold(page):
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_the_window_and_names_run_nothing(opened, width, scheme):
    page = opened(viewport={"width": width, "height": 900}, color_scheme=scheme)
    unfold(page)
    wide = "[...document.querySelectorAll('body *')].filter(one => one.closest('.scroll') === null"
    wide += " && one.getBoundingClientRect().right > innerWidth).map(one => one.outerHTML)"
    assert page.evaluate(wide) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for name in NAMES[:2]:
        playwright.expect(page.get_by_text(name, exact=True).first).to_be_attached()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_wrong_for_readers_with_keyboard_or_screen_reader(opened, axe, scheme):
    page = opened(color_scheme=scheme, bypass_csp=True)
    unfold(page)
    page.evaluate(axe.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [(one["id"], one["impact"]) for one in found["violations"]] == []


def test_the_slider_moves_every_number_by_keyboard(opened):
    page = opened()
    unfold(page)
    explorer = page.locator(".explorer").first
    slider = explorer.get_by_role("slider")
    table = explorer.locator("tbody")
    before, start = table.inner_text(), slider.get_attribute("aria-valuetext")
    slider.focus()
    page.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext") != start
    assert explorer.locator(".threshold").inner_text() == slider.get_attribute("aria-valuetext")
    missed = float(explorer.locator(".missed").inner_text().removesuffix("%"))
    assert missed < 10  # nearly everything is flagged
    assert table.inner_text() != before
    explorer.get_by_role("button", name="the given threshold").click()
    assert table.inner_text() == before


def test_drawings_move_with_the_numbers(opened):
    page = opened()
    unfold(page)
    explorer = page.locator(".explorer").first
    drawn = "box => [...box.querySelectorAll('circle.d')].map(one => one.getAttribute('cx'))"
    before = explorer.evaluate(drawn)
    explorer.get_by_role("slider").focus()
    page.keyboard.press("End")
    assert explorer.evaluate(drawn) != before
    assert not [one for one in explorer.evaluate(drawn) if re.search("NaN|undefined", one)]
    explorer.get_by_role("button", name="the given threshold").click()
    assert places(explorer.evaluate(drawn)) == pytest.approx(places(before), abs=0.3)


def places(drawn):
    """Where shapes are, in hundredths of the axis."""
    return list(map(float, drawn))


def test_without_scripts_tables_show_and_controls_do_not(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("#metrics .controls").is_hidden()
    assert page.locator("#metrics table:visible").count()
    assert page.locator("table.board tbody tr").first.is_visible()
    page.locator("table.board a").first.click()  # a link unfolds the place that it leads to
    assert page.locator("details.story dl:visible").count()


def shown_names(page):
    return page.locator("#metrics table:visible tbody tr:visible th bdi").all_inner_texts()


def test_identities_are_found_by_name_and_by_what_is_wrong(opened):
    page = opened()
    page.locator("#metrics .name").fill("a|")
    assert shown_names(page) == ["a|b"]
    page.locator("#metrics .name").fill("")
    page.locator("#metrics .kind").select_option("worse")
    assert shown_names(page) == [NAMES[0]]
    page.locator("#metrics .kind").select_option("")
    assert len(shown_names(page)) == len(NAMES)


def test_a_change_has_the_colour_of_its_cell_whatever_else_is_in_its_row(opened):
    change = opened().locator("#metrics td.worse em").first
    before = change.evaluate("one => getComputedStyle(one).color")
    change.evaluate("one => one.closest('tr').classList.add('better')")
    assert change.evaluate("one => getComputedStyle(one).color") == before


def test_a_heading_sorts_up_down_and_back_to_the_worst_first(opened):
    page = opened()
    before = shown_names(page)
    heading = page.locator("#metrics table:visible thead th button").nth(2)
    values = "[...document.querySelectorAll('#metrics table')].find(one => one.checkVisibility())"
    values = f"[...({values}).querySelectorAll('tbody tr')].map(row => row.children[2])"
    values += ".filter(Boolean).map(cell => Number(cell.querySelector('b')?.textContent))"
    values += ".filter(Number.isFinite)"
    heading.click()
    rising = page.evaluate(values)
    assert rising == sorted(rising)
    heading.click()
    assert page.evaluate(values) == sorted(rising, reverse=True)
    heading.click()
    assert shown_names(page) == before


def test_rows_are_saved_as_csv_in_which_no_name_is_a_formula(opened):
    page = opened()
    with page.expect_download() as waited:
        page.locator("#metrics .save").click()
    lines = Path(waited.value.path()).read_text("utf-8").splitlines()
    assert re.match(r'"identity","n","(.+?)","\1 low"', lines[0])
    assert len(lines) == 1 + len(NAMES)
    assert any(one.startswith('"\'=cmd()"') for one in lines)


def test_another_candidate_takes_the_place_of_the_champion(opened, request):
    page = opened()
    rival = page.locator("#metrics .rival")
    if "candidate" in request.node.callspec.id:
        assert rival.count() == 0
        return
    marks = "[...document.querySelectorAll('#p0 .c')].map(one => one.getAttribute('cx'))"
    own = page.evaluate(marks)
    rival.select_option("p1")
    assert page.evaluate(marks) != own
    rival.select_option("")
    assert page.evaluate(marks) == own


def test_only_candidates_on_the_same_set_are_offered_beside(browser, tmp_path):
    found = []
    for of_set in ("news", "chats"):
        for seed, name in enumerate(("first", "second")):
            columns = rows(NAMES[:3], shift=0.5, seed=seed)
            found.append(judge(tmp_path / of_set / name, columns, name=name, of_set=of_set))
    path = tmp_path / "report.html"
    path.write_bytes(render_page(build_evaluation_page(summary_of(found), by_place(found))))
    page = browser.new_page()
    page.goto(path.as_uri())
    part, rival = page.locator("select.part"), page.locator("select.rival")

    def offered():
        return rival.locator("option:not([disabled])").all_inner_texts()[1:]

    for of_set in ("news", "chats"):
        label = next(one for one in part.locator("option").all_inner_texts() if of_set in one)
        part.select_option(label=label)
        assert rival.input_value() == ""
        assert len(offered()) == 2
        assert all(of_set in one for one in offered())
        rival.select_option(label=offered()[1])
    page.close()


def test_the_script_draws_as_the_page_was_drawn(opened):
    page = opened()
    drawn = "[...document.querySelectorAll('#metrics .grid svg')].map(one => one.outerHTML)"
    before = page.evaluate(drawn)
    assert len(before) > 30
    rival = page.locator("#metrics .rival")
    if rival.count():
        rival.select_option("p1")
        assert page.evaluate(drawn) != before
        rival.select_option("")
        again = page.evaluate(drawn)
        shapes = [re.sub(r"[\d.]+", "", one) for one in before]
        assert [re.sub(r"[\d.]+", "", one) for one in again] == shapes
        # Numbers are drawn as they are written, with three decimals.
        assert numbers_in(again) == pytest.approx(numbers_in(before), abs=0.3)


def numbers_in(texts):
    return [float(one) for text in texts for one in re.findall(r"\d+\.?\d*", text)]


def test_paper_has_the_tables_and_no_controls(opened):
    page = opened()
    page.emulate_media(media="print")
    assert page.locator("#metrics .controls").is_hidden()
    assert page.locator("#metrics .grid:visible").count() == 1
    shown = "[...document.querySelectorAll('section')].filter(one => one.checkVisibility())"
    bare = "one => one.innerText.trim() === one.querySelector('h2').innerText.trim()"
    assert page.evaluate(f"{shown}.length") > 3
    assert page.evaluate(f"{shown}.filter({bare}).length") == 0
    # Chromium leaves buttons out where it repeats a heading on the next page.
    head = page.locator("#metrics .grid:visible thead th").nth(1)
    assert head.get_by_role("button").is_hidden()
    name = head.evaluate("one => getComputedStyle(one, '::before').content")
    assert name.strip('"') in {METRICS[one].title for one in SUBGROUP_METRICS}
    assert page.pdf(format="A4").startswith(b"%PDF")
