"""The page of 1,000 runs with 100,000 steps in headless Chromium: how long until it stands, by the browser's own clock."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

import pytest
from perf.many_runs import fill
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from bench.report.page import write

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (shutil.which(CHROMIUM) and shutil.which(DRIVER)), reason=f"no {CHROMIUM} with {DRIVER} here"),
]
RUNS, STEPS, LOADS = 1000, 100, 5
OPEN_S = 2.0
LOADED = "const page = performance.getEntriesByType('navigation')[0]; return [page.loadEventEnd, page.startTime]"


def test_the_page_opens_soon(cost: list[tuple[str, str]], tmp_path: Path) -> None:
    fill(tmp_path / "results", RUNS, STEPS)
    page = write(tmp_path / "results", tmp_path / "out").paths[0]
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    options.binary_location = CHROMIUM
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    loads_s = []
    try:
        for _ in range(LOADS):
            browser.get("about:blank")
            browser.get(page.as_uri())
            ended_ms, began_ms = browser.execute_script(LOADED)
            loads_s.append((ended_ms - began_ms) / 1000)
    finally:
        browser.quit()
    figure = f"{statistics.median(loads_s):.2f} s ({min(loads_s):.2f} to {max(loads_s):.2f}); {page.stat().st_size / 1e6:.1f} MB"
    cost.append((f"the page of {RUNS:,} runs and {RUNS * STEPS:,} steps opens", figure))
    assert statistics.median(loads_s) < OPEN_S
