"""Statement 7 of the console: a dry run says what a write would do, and writes nothing."""

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

FACT, OTHER = "Customer prefers email over phone calls", "The fiscal year ends in March"
WINDOW: Any = {"width": 1280, "height": 800}


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


def deploy(web_system: WebSystem) -> str:
    return deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))


def fill(web_system: WebSystem) -> tuple[str, str, str]:
    """Write two entries. Return the pipeline, the memory, and the first entry."""
    uid = deploy(web_system)
    body = {"name": "Customer", "description": "Facts about Ada Ltd.", "tags": ["crm"]}
    memory = call(web_system, "POST", uid, "memories", body)["id"]
    entry = call(
        web_system,
        "POST",
        uid,
        "entries",
        {"memory_id": memory, "content": FACT, "tags": ["contact"]},
    )
    call(web_system, "POST", uid, "entries", {"memory_id": memory, "content": OTHER})
    return uid, memory, entry["id"]


def list_entries(web_system: WebSystem, uid: str, memory: str) -> list[tuple[str, int]]:
    """Return the texts and confirmations of the entries."""
    page = call(web_system, "GET", uid, f"entries?memory_id={memory}")
    return [(one["content"], one["confirmations"]) for one in page["items"]]


def submit(page: Page, text: str, button: str) -> Any:
    """Enter a text and press a button. Return the element with the outcome."""
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name=button).click()
    outcome = page.locator(".outcome")
    expect(outcome.locator("p").first).to_be_visible()
    return outcome


def test_a_dry_run_writes_nothing_and_the_write_is_skipped(
    web_system: WebSystem, browser: Browser
) -> None:
    uid, memory, entry = fill(web_system)
    before = list_entries(web_system, uid, memory)
    with open_page(
        browser, web_system, f"/pipelines/{uid}/memories/{memory}", viewport=WINDOW
    ) as page:
        outcome = submit(page, FACT.upper(), "Test a text")
        skipped = "skipped, 1.00, the same text except for case, spaces or punctuation"
        expect(outcome).to_contain_text(f"would be {skipped}")
        expect(outcome.get_by_role("link")).to_have_attribute(
            "href", f"/pipelines/{uid}/memories/{memory}?entry={entry}#entry"
        )
        save_screenshot(page, "named-memories")
        assert list_entries(web_system, uid, memory) == before

        expect(submit(page, "Ada lives in Paris", "Test a text")).to_contain_text(
            "would be created"
        )
        assert list_entries(web_system, uid, memory) == before

        expect(submit(page, FACT.upper(), "Write")).to_contain_text(skipped)
        assert list_entries(web_system, uid, memory) == [(FACT, 1), (OTHER, 0)]
        expect(page.get_by_text("1 confirmation")).to_be_visible()


def test_an_entry_is_split_moved_deleted_and_each_is_undone(
    web_system: WebSystem, browser: Browser
) -> None:
    uid, memory, entry = fill(web_system)
    other = call(web_system, "POST", uid, "memories", {"name": "Archive"})["id"]
    addition = {"memory_id": memory, "content": "Customer prefers email on Monday"}
    merged = call(web_system, "POST", uid, "entries", addition | {"update_threshold": 0})
    assert (merged["action"], merged["id"]) == ("updated", entry)
    path = f"/pipelines/{uid}/memories/{memory}?entry={entry}"

    def texts(where: str) -> set[str]:
        return {text for text, _ in list_entries(web_system, uid, where)}

    with open_page(browser, web_system, path, viewport=WINDOW) as page:
        press(page, "Split", "Split: the earlier version is restored.")
        assert texts(memory) == {FACT, OTHER}
        undo(page)
        assert texts(memory) == {merged["content"], OTHER}

        page.goto(web_system.url + path)
        page.get_by_label("Move to").select_option(other)
        press(page, "Move", "Moved.")
        assert (texts(memory), texts(other)) == ({OTHER}, {merged["content"]})
        undo(page)
        assert (texts(memory), texts(other)) == ({merged["content"], OTHER}, set())

        page.goto(web_system.url + path)
        press(page, "Delete", "Deleted.")
        assert texts(memory) == {OTHER}
        undo(page)
        assert texts(memory) == {merged["content"], OTHER}


def press(page: Page, button: str, done: str) -> None:
    page.get_by_role("button", name=button, exact=True).first.click()
    expect(page.locator("#toasts")).to_contain_text(done)


def undo(page: Page) -> None:
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator("#toasts")).to_contain_text("Undone.")


def test_the_list_shows_each_memory_and_writes_to_a_new_one(
    web_system: WebSystem, browser: Browser
) -> None:
    uid, _, _ = fill(web_system)
    with open_page(browser, web_system, f"/pipelines/{uid}/memories", viewport=WINDOW) as page:
        row = page.get_by_role("row").filter(has_text="Facts about Ada Ltd.")
        expect(row).to_contain_text("crm")
        expect(row.locator("td.n")).to_have_text("2")

        page.get_by_label("Memory", exact=True).fill("Projects")
        expect(submit(page, "The launch is in May", "Write")).to_contain_text("created")
        expect(page.get_by_role("link", name="Projects")).to_be_visible()


def test_an_empty_pipeline_and_a_phone(web_system: WebSystem, browser: Browser) -> None:
    empty, (uid, memory, entry) = deploy(web_system), fill(web_system)
    phone: Any = {"width": 320, "height": 640}
    with open_page(browser, web_system, f"/pipelines/{empty}/memories", viewport=phone) as page:
        expect(page.get_by_text("No named memories yet.")).to_be_visible()
        assert overflow(page) <= 0
    path = f"/pipelines/{uid}/memories/{memory}?entry={entry}"
    with open_page(browser, web_system, path, viewport=phone) as page:
        expect(page.get_by_text("No earlier versions.")).to_be_visible()
        assert overflow(page) <= 0
    with open_page(browser, web_system, path, java_script_enabled=False) as page:
        assert "This action needs JavaScript." in page.content()
        expect(page.get_by_role("link", name=FACT)).to_be_visible()
