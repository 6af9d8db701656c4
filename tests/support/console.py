"""Pages of the console in Chromium: opening, chatting, measuring, and screenshots for documents.

Screenshots are kept only if the environment has KEEP_SCREENSHOTS.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.support.web_system import WebSystem

# What the browser logs about refused requests.
LOGGED = ("Failed to load resource",)
SCREENSHOTS = Path(__file__).resolve().parents[2] / "docs" / "console"


def save_screenshot(page: Page, name: str) -> None:
    """Write a screenshot of the visible part of a page to docs/console/NAME.png."""
    if "KEEP_SCREENSHOTS" in os.environ:
        SCREENSHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png")


@contextmanager
def open_page(browser: Browser, web_system: WebSystem, path: str, **how: Any) -> Iterator[Page]:
    """Open a page. Fails unless it answers 200, on script errors and on requests elsewhere."""
    context = browser.new_context(**how)
    page, faults, asked = context.new_page(), list[str](), list[str]()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "console", lambda message: faults.append(message.text) if message.type == "error" else None
    )
    page.on("request", lambda request: asked.append(request.url))
    try:
        answer = page.goto(web_system.url + path)
        assert answer is not None and answer.status == 200, (path, answer)
        yield page
        assert [url for url in asked if not url.startswith(web_system.url)] == []
        assert [fault for fault in faults if not fault.startswith(LOGGED)] == []
    finally:
        context.close()


def send(page: Page, text: str) -> Any:
    """Send a message in the chat and return its exchange."""
    page.locator("#text").fill(text)
    page.locator("#text").press("Enter")
    exchange = page.locator("#exchanges > li").last
    expect(exchange.locator(".text").first).to_have_text(text)
    expect(exchange).to_have_attribute("aria-busy", "false")
    return exchange


def overflow(page: Page) -> int:
    """Return by how many px the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))
