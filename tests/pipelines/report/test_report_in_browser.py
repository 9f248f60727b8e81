"""The page as Chromium lays it out, on a phone and on a desk, light and dark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.report.write import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install .[test]")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PHONE, SMALL_PHONE, DESK = 390, 360, 1280
CHARTS = {
    "Rows over time",
    "Cost over time",
    "Latency",
    "Prompt tokens",
    "Completion tokens",
    "stars",
    "score",
}

# Texts of charts that reach out of their figure, or into one another.
MISPLACED = """() => {
    const found = [];
    for (const figure of document.querySelectorAll('figure')) {
        const outer = figure.getBoundingClientRect();
        const texts = [...figure.querySelectorAll('svg text, .plot > div')].map(text => {
            const range = document.createRange();
            range.selectNodeContents(text);
            return [text.textContent, range.getBoundingClientRect()];
        });
        texts.forEach(([text, box], at) => {
            if (!(box.width > 0) || box.left < outer.left || box.right > outer.right
                || box.top < outer.top || box.bottom > outer.bottom) found.push(text + ' is outside');
            for (const [other, its] of texts.slice(at + 1)) {
                const beside = box.left >= its.right || its.left >= box.right;
                const apart = box.top >= its.bottom - 2 || its.top >= box.bottom - 2;
                if (!beside && !apart) found.push(text + ' meets ' + other);
            }
        });
    }
    return found;
}"""

# The least contrast, by WCAG 2, between a text and the first opaque colour behind it.
CONTRAST = """() => {
    const parse = colour => {
        const canvas = new OffscreenCanvas(1, 1).getContext('2d');
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = colour => {
        const [r, g, b] = colour.slice(0, 3).map(v => v / 255).map(
            v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let least = [99, ''];
    for (const element of document.querySelectorAll('body *')) {
        if (![...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
        if (element.closest('title, desc') || !element.getClientRects().length) continue;
        let behind = element;
        while (behind && parse(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
        const style = getComputedStyle(element);
        const front = light(parse(element.closest('svg') ? style.fill : style.color));
        const back = light(parse(getComputedStyle(behind || document.body).backgroundColor));
        const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
        if (contrast < least[0]) least = [contrast, element.textContent.slice(0, 60)];
    }
    return least;
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium: CHROMIUM names no binary, and there is none on the path")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [SMALL_PHONE, PHONE, DESK])
def test_the_page_is_whole(rich_output: Any, chromium: Any, width: int, scheme: str) -> None:
    write_report(rich_output.layout, str(rich_output.page))
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))

    page.goto(rich_output.page.as_uri())

    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [rich_output.page.as_uri()]
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    charts = page.locator("svg.chart").all()
    assert {chart.locator("> title").text_content() for chart in charts} == CHARTS
    for chart in charts:
        box = chart.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 100
        assert chart.locator("> desc").text_content()
        assert chart.locator(".bar, .line").count() > 0
    assert page.evaluate(MISPLACED) == []
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where
    page.close()


def test_dark_is_dark_and_print_is_light(rich_output: Any, chromium: Any) -> None:
    write_report(rich_output.layout, str(rich_output.page))
    page = chromium.new_page(color_scheme="dark")
    page.goto(rich_output.page.as_uri())
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(18, 19, 21)"
    page.emulate_media(media="print")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.close()


@pytest.mark.parametrize("count", [1, 2, 40])
def test_few_rows_and_many_runs_are_laid_out_as_well(output: Any, chromium: Any, count: int) -> None:
    for _ in range(count):
        output.run([{"label": "a"}], [{"reason": "timeout"}], seconds=0.1)
    write_report(output.layout, str(output.page))
    page = chromium.new_page(viewport={"width": SMALL_PHONE, "height": 700})
    page.goto(output.page.as_uri())
    assert page.evaluate(MISPLACED) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SMALL_PHONE
    page.close()
