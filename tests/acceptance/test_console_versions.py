"""The page Versions in a browser: check, deploy, compare, and roll back."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.pages import deploy_bundle
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

WINDOW: Any = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def deploy(web_system: WebSystem, *names: str) -> str:
    uid = make_uid()
    for name in names:
        deploy_bundle(web_system.url, make_bundle(uid, *make_commands(), name=name))
    return uid


def active(web_system: WebSystem, uid: str) -> Any:
    return web_system.get(f"/v1/pipelines/{uid}").json


def rename(page: Page, old: str, new: str) -> None:
    text = page.get_by_label("Bundle as JSON")
    text.fill(text.input_value().replace(f'"{old}"', f'"{new}"'))


def test_a_bundle_is_checked_and_deployed(browser: Browser, web_system: WebSystem) -> None:
    uid = deploy(web_system, "tea")
    with open_page(browser, web_system, f"/pipelines/{uid}/bundle", viewport=WINDOW) as page:
        rename(page, "regex_match", "regex_macth")
        page.get_by_role("button", name="Check").click()

        outcome = page.locator("#outcome")
        expect(outcome).to_contain_text("5 faults.")
        line = outcome.get_by_role("button", name="Line").first
        line.click()
        chosen = page.evaluate(
            "(({value, selectionStart, selectionEnd}) => value.slice(selectionStart, selectionEnd))"
            "(document.getElementById('text'))"
        )
        assert "regex_macth" in chosen
        page.get_by_role("button", name="Deploy").click()  # refused, with the same faults
        expect(outcome).to_contain_text("5 faults.")
        assert active(web_system, uid)["version"] == 1

        rename(page, "regex_macth", "regex_match")
        rename(page, "tea", "coffee")
        page.get_by_role("button", name="Check").click()
        expect(outcome).to_contain_text("No faults.")
        assert active(web_system, uid)["version"] == 1
        page.get_by_role("button", name="Deploy").click()

        expect(page.locator("#toasts")).to_contain_text("Deployed as version 2.")
        expect(page.locator("#compare")).to_contain_text("coffee")
        assert active(web_system, uid)["name"] == "coffee"
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("tbody th").first).to_have_text("3")
        assert active(web_system, uid)["name"] == "tea"


def test_a_version_is_compared_and_rolled_back(browser: Browser, web_system: WebSystem) -> None:
    uid = deploy(web_system, "tea", "coffee")
    with open_page(browser, web_system, f"/pipelines/{uid}/bundle", viewport=WINDOW) as page:
        page.get_by_role("link", name="Compare").click()
        expect(page.locator("#compare del")).to_contain_text("tea")
        expect(page.locator("#compare ins")).to_contain_text("coffee")
        save_screenshot(page, "versions")

        page.get_by_role("button", name="Roll back").click()

        expect(page.locator("#toasts")).to_contain_text("Rolled back to version 1.")
        expect(page.get_by_label("Bundle as JSON")).to_have_value(
            re.compile('"pipeline_name": "tea"')
        )
        assert (active(web_system, uid)["name"], active(web_system, uid)["version"]) == ("tea", 3)


@pytest.mark.parametrize("choice", ["Deploy mine", "Keep theirs"])
def test_a_deploy_over_a_newer_version_asks_which_to_keep(
    browser: Browser, web_system: WebSystem, choice: str
) -> None:
    uid = deploy(web_system, "tea")
    with open_page(browser, web_system, f"/pipelines/{uid}/bundle", viewport=WINDOW) as page:
        rename(page, "tea", "mine")
        deploy_bundle(web_system.url, make_bundle(uid, *make_commands(), name="theirs"))
        page.get_by_role("button", name="Deploy").click()

        expect(page.locator("#outcome")).to_contain_text("A newer version was deployed")
        assert active(web_system, uid)["name"] == "theirs"
        page.get_by_role("button", name=choice).click()

        expect(page.locator("h2#bundle-title")).to_contain_text(
            "version 3" if choice == "Deploy mine" else "version 2"
        )
        assert active(web_system, uid)["name"] == ("mine" if choice == "Deploy mine" else "theirs")


@pytest.mark.parametrize("width", [320, 1280])
def test_nothing_scrolls_sideways(browser: Browser, web_system: WebSystem, width: int) -> None:
    uid = deploy(web_system, "n" * 200, "tea")
    window: Any = {"width": width, "height": 800}
    with open_page(browser, web_system, f"/pipelines/{uid}/bundle", viewport=window) as page:
        assert overflow(page) <= 0
        rename(page, "regex_match", "r" * 300)
        page.get_by_role("button", name="Check").click()
        expect(page.locator("#outcome")).to_contain_text("5 faults.")
        assert overflow(page) <= 0
