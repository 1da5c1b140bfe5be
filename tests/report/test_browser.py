"""The page in a real browser, which is asked what it fetched, what it complained of and what it drew.

The browser's own logs are read, not the page's: Chromium's network events say what was requested, its console what was
refused. Pages that are known to be bad show that these checks can fail.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.image import imread
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from bench.catalog import machine_profiles
from bench.report import lesson, page
from bench.report.findings import gather
from bench.report.lesson import Lesson

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars"),
)
DRAWN = """
const pictures = [...document.querySelectorAll('img, svg')];
return pictures.map(each => {
  const box = each.getBoundingClientRect();
  const inside = each.tagName === 'IMG' ? each.naturalWidth
    : [...each.querySelectorAll('path, use')].filter(part => part.getBoundingClientRect().width > 0).length;
  return [each.tagName.toLowerCase(), box.width, box.height, inside];
});
"""

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Visit:
    """What the browser tells of one page: requests by their address, console messages, pictures, widths in pixels.

    The width is the one that the screen was given: a phone's browser widens `innerWidth` to whatever does not fit.
    """

    requests: list[str]
    complaints: list[str]
    pictures: list[tuple[str, float, float, float]]
    scroll_width: int
    width: int

    def faults(self, path: Path) -> list[str]:
        """Everything that a report's page must not do."""
        outside = [f"requested {url}" for url in self.requests if url != path.as_uri() and not url.startswith("data:")]
        blank = [f"not drawn: {picture}" for picture in self.pictures if min(picture[1:]) <= 0]
        sideways = [f"{self.scroll_width} wide on {self.width}"] if self.scroll_width > self.width else []
        return [*outside, *self.complaints, *blank, *sideways]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    missing = [path for path in (CHROMIUM, DRIVER) if shutil.which(path) is None]
    if missing and os.environ.get("WINGSPAN_REQUIRE_BROWSER") == "1":
        pytest.fail(
            f"WINGSPAN_REQUIRE_BROWSER=1, and there is no {' or '.join(missing)} (Debian: apt install chromium chromium-driver)"
        )
    if missing:
        pytest.skip(f"no {' or '.join(missing)} on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def visit(browser: webdriver.Chrome) -> Callable[..., Visit]:
    def open_page(path: Path, width: int = 1280, scheme: str = "light") -> Visit:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get("about:blank")
        browser.get_log("performance"), browser.get_log("browser")
        browser.get(path.as_uri())
        scroll_width = browser.execute_script("return document.scrollingElement.scrollWidth")
        pictures = [tuple(each) for each in browser.execute_script(DRAWN)]
        return Visit(requests(browser), complaints(browser), pictures, scroll_width, width)

    return open_page


def requests(browser: webdriver.Chrome) -> list[str]:
    """Every address that the network stack was asked for, refused by policy or not."""
    events: list[dict[str, Any]] = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def complaints(browser: webdriver.Chrome) -> list[str]:
    """Errors and warnings of the console, blocked content among them."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, lesson_runs: pd.DataFrame, lesson_steps: pd.DataFrame) -> Path:
    path = tmp_path_factory.mktemp("report") / "lesson.html"
    path.write_text(page.to_html(page.compose(lesson_runs, lesson_steps, machine_profiles())), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_asks_for_nothing_complains_of_nothing_and_draws_everything(
    width: int, scheme: str, report: Path, visit: Callable[..., Visit]
) -> None:
    seen = visit(report, width, scheme)
    assert seen.faults(report) == []
    assert report.as_uri() in seen.requests
    assert [picture[0] for picture in seen.pictures] == ["svg"] * 4
    assert all(picture[1] > 300 and picture[2] > 200 and picture[3] > 50 for picture in seen.pictures)


def test_the_page_without_runs_is_as_quiet(tmp_path: Path, visit: Callable[..., Visit]) -> None:
    path = tmp_path / "empty.html"
    path.write_text(page.to_html(page.compose(pd.DataFrame(), pd.DataFrame())), encoding="utf-8")
    assert visit(path, 390).faults(path) == []


def test_the_style_is_let_through_and_follows_the_readers_scheme(
    report: Path, visit: Callable[..., Visit], browser: webdriver.Chrome
) -> None:
    def colours() -> tuple[str, str]:
        body, card = (browser.find_element(By.CSS_SELECTOR, name) for name in ("body", ".card"))
        return body.value_of_css_property("background-color"), card.value_of_css_property("background-color")

    visit(report, scheme="light")
    light = colours()
    visit(report, scheme="dark")
    dark = colours()
    assert light[0] != dark[0]
    assert light[1] == dark[1] == "rgba(255, 255, 255, 1)"


def test_a_figure_wider_than_the_screen_has_a_shadow_until_one_has_scrolled_to_its_end(
    report: Path, visit: Callable[..., Visit], browser: webdriver.Chrome
) -> None:
    def edge() -> float:
        """How light the figure's white margin is at the right: 1 is white."""
        picture = imread(BytesIO(browser.find_element(By.CSS_SELECTOR, ".card").screenshot_as_png))
        return float(picture[4:8, -6:-3, :3].mean())

    visit(report, 390)
    assert edge() < 0.9
    browser.execute_script("const card = document.querySelector('.card'); card.scrollLeft = card.scrollWidth")
    assert edge() == 1
    visit(report, 1280)
    assert edge() == 1


def test_hostile_text_runs_nothing(tmp_path: Path, run_row: Callable[..., dict[str, Any]], visit: Callable[..., Visit]) -> None:
    text = "<script>document.title='owned'</script><img src=http://192.0.2.1/x onerror=\"document.title='owned'\">"
    rows = pd.DataFrame([run_row(model=text, machine=text, reason=text, question=text, chip=text)])
    path = tmp_path / "hostile.html"
    path.write_text(page.to_html(page.compose(rows, pd.DataFrame())), encoding="utf-8")
    assert visit(path).faults(path) == []


# --- the lesson on trial -----------------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("WINGSPAN_AXE", ROOT / "node_modules/axe-core/axe.min.js"))
CHECKED = """
const done = arguments[0], told = each => [each.impact, each.id, each.nodes[0].html];
document.querySelectorAll("details").forEach(each => { each.open = true; });
axe.run().then(found => done(found.violations.map(told)), fault => done([["fault", `${fault}`, ""]]));
"""
COLUMN = """
const rows = [...document.querySelectorAll('#every-claim table')[0].tBodies[0].rows];
return rows.filter(row => !row.hidden).map(row => row.cells[arguments[0]].textContent);
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Lesson:
    return lesson.gather_lesson(gather(pd.DataFrame(), pd.DataFrame()), tmp_path_factory.mktemp("nothing"))


@pytest.fixture(scope="module")
def trial(
    tmp_path_factory: pytest.TempPathFactory, judged: Lesson, lesson_runs: pd.DataFrame, lesson_steps: pd.DataFrame
) -> Callable[[str], Path]:
    """The page of the lesson on trial with runs beside it, in a language; each is made once."""
    folder, made = tmp_path_factory.mktemp("trial"), dict[str, Path]()

    def written(code: str) -> Path:
        if code not in made:
            document = page.compose(lesson_runs, lesson_steps, machine_profiles(), judge=lambda _: judged, language=code)
            made[code] = folder / f"{code}.html"
            made[code].write_text(page.to_html(document), encoding="utf-8")
        return made[code]

    return written


@pytest.mark.parametrize(("code", "width", "scheme"), [("en", 1280, "light"), ("fr", 390, "dark"), ("ro", 390, "light")])
def test_the_trial_asks_for_nothing_complains_of_nothing_and_draws_everything(
    code: str, width: int, scheme: str, trial: Callable[[str], Path], visit: Callable[..., Visit]
) -> None:
    seen = visit(trial(code), width, scheme)
    assert seen.faults(trial(code)) == []
    assert [picture[0] for picture in seen.pictures] == ["svg"] * 7


FIRST = """
const top = name => document.querySelector(name).getBoundingClientRect().top;
return [document.querySelector("#verdicts .groups").getBoundingClientRect().bottom, top("#winners figure"), top("#reach figure"),
  top("#every-claim")];
"""


@pytest.mark.parametrize(("width", "screens"), [(1280, (1, 1, 2.5)), (390, (1.5, 2, 3))])
def test_the_first_screen_has_every_verdict_then_come_the_winner_map_and_the_frontier(
    width: int, screens: tuple[float, ...], trial: Callable[[str], Path], visit: Callable[..., Visit], browser: webdriver.Chrome
) -> None:
    visit(trial("en"), width)
    glance, winners, reach, every = browser.execute_script(FIRST)
    assert glance < winners < reach < every
    assert [place < 900 * most for place, most in zip((glance, winners, reach), screens, strict=True)] == [True] * 3
    assert len(browser.find_elements(By.CSS_SELECTOR, "#verdicts .groups a")) == 53


def test_axe_finds_nothing_serious(trial: Callable[[str], Path], visit: Callable[..., Visit], browser: webdriver.Chrome) -> None:
    if not AXE.is_file():
        pytest.skip("no axe-core: npm install --no-save axe-core, or its axe.min.js in WINGSPAN_AXE")
    browser.set_script_timeout(120)
    for width, scheme in ((1280, "light"), (390, "dark")):
        visit(trial("en"), width, scheme)
        browser.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text("utf-8")})
        found = browser.execute_async_script(CHECKED)
        assert [each for each in found if each[0] not in ("minor", "moderate")] == []


def column(browser: webdriver.Chrome, number: int) -> list[str]:
    """The texts of a column of the table of all claims, those that are shown."""
    found: list[str] = browser.execute_script(COLUMN, number)
    return found


def test_a_table_is_sorted_by_its_headings_also_by_keyboard(
    trial: Callable[[str], Path], visit: Callable[..., Visit], browser: webdriver.Chrome
) -> None:
    visit(trial("en"))
    heading = browser.find_elements(By.CSS_SELECTOR, "#every-claim table")[0].find_elements(By.TAG_NAME, "th")[4]
    before, button = column(browser, 4), heading.find_element(By.TAG_NAME, "button")
    button.send_keys(Keys.ENTER)
    assert column(browser, 4) == sorted(before, key=natural)
    assert heading.get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.SPACE)
    assert column(browser, 4) == sorted(before, key=natural, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"


def natural(text: str) -> list[Any]:
    """As people sort names with numbers in them; the browser leaves punctuation in, as here."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text)]


@pytest.mark.parametrize("code", ["en", "fr", "ro"])
def test_numbers_are_sorted_by_what_they_say_in_any_language(
    code: str, trial: Callable[[str], Path], visit: Callable[..., Visit], browser: webdriver.Chrome
) -> None:
    visit(trial(code))
    browser.find_element(By.CSS_SELECTOR, "#winners summary").click()
    table = browser.find_elements(By.CSS_SELECTOR, "#winners table")[0]
    table.find_elements(By.CSS_SELECTOR, "th button")[2].click()
    script = "return [...arguments[0].tBodies[0].rows].map(row => row.cells[2].textContent)"
    found = [int("".join(filter(str.isdigit, text))) for text in browser.execute_script(script, table)]
    assert found == sorted(found)
    assert set(found) == {512, 2048, 8192, 32_768}


def test_a_table_is_filtered_by_words(
    trial: Callable[[str], Path], visit: Callable[..., Visit], browser: webdriver.Chrome
) -> None:
    visit(trial("en"))
    box = browser.find_element(By.CSS_SELECTOR, "#every-claim .filter input")
    assert box.get_attribute("aria-label") == "Filter: Table: Every claim"
    box.send_keys("speed RATIO")
    assert column(browser, 4) == ["speed.ratio"]
    assert browser.find_element(By.CSS_SELECTOR, "#every-claim .filter output").text == "1 of 53 rows"
    box.send_keys(Keys.BACKSPACE * 20)
    assert len(column(browser, 4)) == 53


def test_a_link_to_a_claim_unfolds_it(
    trial: Callable[[str], Path], visit: Callable[..., Visit], browser: webdriver.Chrome
) -> None:
    visit(trial("en"))
    fold = browser.find_element(By.ID, "claim-speed.ratio")
    assert not fold.get_property("open")
    browser.find_elements(By.CSS_SELECTOR, "#verdicts a[href='#claim-speed.ratio']")[0].click()
    assert fold.get_property("open")


def test_without_script_everything_is_there_and_on_paper_unfolded(
    trial: Callable[[str], Path], visit: Callable[..., Visit], browser: webdriver.Chrome
) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        seen = visit(trial("en"))
        assert seen.faults(trial("en")) == []
        assert len(column(browser, 4)) == 53
        assert browser.find_elements(By.CSS_SELECTOR, "th button, .filter") == []
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        inner = browser.find_element(By.CSS_SELECTOR, "#claim-speed\\.ratio .scroll")
        assert inner.size["height"] > 50
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


BAD = {
    "an outside image": ('<img src="http://192.0.2.1/x.png" alt="x">', "requested http://192.0.2.1/x.png"),
    "an outside style": ('<link rel="stylesheet" href="http://192.0.2.1/x.css">', "requested http://192.0.2.1/x.css"),
    "an outside font": (
        "<style>@font-face { font-family: x; src: url(http://192.0.2.1/x.woff) } p { font-family: x }</style><p>text</p>",
        "requested http://192.0.2.1/x.woff",
    ),
    "a neighbouring file": ('<img src="beside.png" alt="x">', "beside.png"),
    "an image that cannot be drawn": ('<img src="data:image/png;base64,AAAA" alt="x">', "not drawn: ('img'"),
    "an empty drawing": ('<svg width="100" height="100"></svg>', "not drawn: ('svg'"),
    "a script that fails": ("<script>throw new Error('broken')</script>", "broken"),
    "a page wider than the screen": ('<div style="width: 3000px">wide</div>', "3000 wide on 390"),
    "what the policy refuses": (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'"><p style="color: red">red</p>',
        "Content Security Policy",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_the_checks_can_fail(name: str, tmp_path: Path, visit: Callable[..., Visit]) -> None:
    content, fault = BAD[name]
    path = tmp_path / "bad.html"
    head = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>*{margin:0}</style>'
    path.write_text(head + content, encoding="utf-8")
    assert any(fault in found for found in visit(path, 390).faults(path))
