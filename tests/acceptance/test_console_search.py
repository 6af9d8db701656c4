"""Statement 3 of the console: a search explains each score, and a suggestion leads to a hit."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import chromium
from tests.support.bundles import STORE, make_agent, make_bundle, make_commands, make_uid
from tests.support.console import open_page, save_screenshot
from tests.support.console_content import RECORDS, post
from tests.support.pages import deploy_bundle
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

WINDOW: Any = {"width": 1280, "height": 800}
NUMBER = re.compile(r"\d\.\d{3}")


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def test_the_parts_of_a_score_add_up_and_a_suggestion_finds_the_record(
    browser: Browser, web_system: WebSystem
) -> None:
    how = {"memory_id": STORE, "mode": "hybrid"}  # a block that searches so, makes vectors
    finder = make_agent("find", "memory_search", how, on="find")
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands(), finder))
    for record in RECORDS:
        post(web_system, f"/v1/pipelines/{uid}/records", record)
    wait_for(lambda: count_parts(web_system, uid) == 2, "the vectors")

    with open_page(browser, web_system, f"/pipelines/{uid}/memory", viewport=WINDOW) as page:
        page.get_by_label("Search this store").fill("setting the usr")
        page.get_by_role("button", name="Search").click()

        hit = page.locator("[data-row]").first
        expect(hit).to_contain_text("Ada set userName")
        hit.locator("summary").click()
        *parts, score = [float(text) for text in NUMBER.findall(hit.locator("dl").inner_text())]
        assert len(parts) == 2 and abs(sum(parts) - score) < 0.002
        assert hit.locator("rect").count() == len(parts)
        save_screenshot(page, "memory-search")
        page.get_by_role("link", name="user", exact=True).click()

        expect(page.get_by_label("Search this store")).to_have_value("setting the user")
        expect(page.locator("[data-row]").first).to_contain_text("Ada set userName")
        expect(page.locator(".suggestion")).to_have_count(0)


def count_parts(web_system: WebSystem, uid: str) -> int:
    """Return how many arms found the best record of a search: words, and meaning with vectors."""
    wanted = {"query": "setting a username", "mode": "hybrid", "explain": True}
    found = post(web_system, f"/v1/pipelines/{uid}/records/search", wanted)
    return len(found["explanation"]["hits"][0]["arms"])
