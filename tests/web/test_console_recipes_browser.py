"""The page "Recipes" in Chromium: validation while typing, storing, a run, and a context."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.http import ask
from tests.support.pages import deploy_bundle
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

WINDOW: Any = {"width": 1280, "height": 800}
FACTS = ("Ada prefers email over phone calls", "Ada drinks green tea")
RECIPE = """{
  "id": "facts",
  "label": "Facts about Ada",
  "retrieval": {
    "pipeline": [
      {"type": "vector_search", "alias": "found", "collection": "memory:Ada", "minScore": 0},
      {"type": "rank", "source": "found", "topK": 5}
    ]
  }
}"""


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def call(web_system: WebSystem, method: str, uid: str, path: str, body: Any = b"") -> Any:
    answer = ask(web_system.url, method, f"/v1/pipelines/{uid}/{path}", body)
    assert answer.status in (200, 201), answer
    return answer.json


def fill(web_system: WebSystem) -> str:
    """Deploy a pipeline with two facts. Return its uid."""
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))
    for fact in FACTS:
        call(
            web_system, "POST", uid, "entries", {"memory": "Ada", "content": fact, "mode": "create"}
        )
    return uid


def enter(page: Page, definition: str) -> Any:
    """Enter a definition. Return the element with the result of its check."""
    page.get_by_label("Definition as JSON").fill(definition)
    return page.locator("#validation")


def test_faults_appear_with_their_lines_while_the_user_types(
    web_system: WebSystem, browser: Browser
) -> None:
    uid = fill(web_system)
    with open_page(browser, web_system, f"/pipelines/{uid}/recipes", viewport=WINDOW) as page:
        expect(page.get_by_text("No recipes yet.")).to_be_visible()
        found = enter(page, RECIPE.replace('"rank"', '"rnak"').replace("Facts about Ada", ""))
        expect(found).to_contain_text("2 faults.")
        expect(found.locator("li").filter(has_text="/label")).to_contain_text("Line 3")
        expect(found.locator("li").filter(has_text="/retrieval")).to_contain_text("Line 7")
        save_screenshot(page, "recipe-faults")

        expect(enter(page, RECIPE[:-1])).to_contain_text("Not valid JSON")
        expect(enter(page, RECIPE)).to_contain_text("Valid.")
        assert call(web_system, "GET", uid, "recipes")["items"] == []


def test_a_recipe_is_stored_run_and_assembled(web_system: WebSystem, browser: Browser) -> None:
    uid = fill(web_system)
    with open_page(browser, web_system, f"/pipelines/{uid}/recipes", viewport=WINDOW) as page:
        enter(page, RECIPE)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="Facts about Ada")).to_be_visible()
        assert [one["id"] for one in call(web_system, "GET", uid, "recipes")["items"]] == ["facts"]

        page.locator("#run").get_by_label("Intent").fill("how to reach Ada by email")
        page.get_by_role("button", name="Run").click()
        result = page.locator("#result")
        expect(result).to_contain_text("Finished in")
        expect(result.locator("pre")).to_contain_text(FACTS[0])
        expect(result.get_by_role("row").filter(has_text="rank")).to_be_visible()
        result.scroll_into_view_if_needed()
        save_screenshot(page, "recipe-run")

        page.locator("#assemble").get_by_label("Intent").fill("email")
        page.get_by_role("button", name="Assemble").click()
        context = page.locator("#context")
        expect(context).to_contain_text("of 800 tokens")
        expect(context.get_by_role("meter")).to_be_visible()
        expect(context.locator("pre")).to_contain_text(FACTS[0])


def test_a_recipe_is_changed_and_deleted(web_system: WebSystem, browser: Browser) -> None:
    uid = fill(web_system)
    call(web_system, "POST", uid, "recipes", b'{"definition": ' + RECIPE.encode() + b"}")
    with open_page(
        browser, web_system, f"/pipelines/{uid}/recipes?recipe=facts", viewport=WINDOW
    ) as page:
        enter(page, RECIPE.replace("Facts about Ada", "Renamed"))
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="Renamed")).to_be_visible()

        page.get_by_role("button", name="Delete").click()
        expect(page.get_by_text("No recipes yet.")).to_be_visible()
        page.locator("#toasts").get_by_role("button", name="Undo").click()
        expect(page.get_by_role("link", name="Renamed")).to_be_visible()


def test_the_page_fits_a_phone(web_system: WebSystem, browser: Browser) -> None:
    uid = fill(web_system)
    phone: Any = {"width": 320, "height": 640}
    with open_page(browser, web_system, f"/pipelines/{uid}/recipes", viewport=phone) as page:
        expect(page.get_by_role("button", name="Validate")).to_be_visible()
        assert overflow(page) <= 0
