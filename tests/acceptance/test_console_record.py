"""Statements 1, 2 and 6 of the console: a record is edited in place, restored, edited by two people
at once, deleted, brought back, and erased.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, save_screenshot, send
from tests.support.http import ask
from tests.support.pages import deploy_bundle
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

WINDOW: Any = {"width": 1280, "height": 800}
NOTES = (
    "The meeting is at 3pm in the green room",
    "Ada prefers tea to coffee",
    "The blue printer is broken again",
)
# The time in which a page shows a change without being reloaded, in ms.
SOON_MS = 2000
PERSON = {
    "agent_class": "chat_agent",
    "agent_alias": "person",
    "agent_name": "User",
    "agent_rec_swarm": "chat",
    "agent_send_swarm": "chat",
    "wf_publish_results": True,
}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found
        assert not [event for event in found.web.events if event["event"] == "request_failed"]


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def uid(web_system: WebSystem) -> Iterator[str]:
    found = deploy_bundle(
        web_system.url, make_bundle(make_uid(), PERSON, *make_commands(), name="office")
    )
    yield found
    ask(web_system.url, "DELETE", f"/v1/pipelines/{found}")


def create(web_system: WebSystem, uid: str, content: str) -> str:
    answer = ask(web_system.url, "POST", f"/v1/pipelines/{uid}/records", {"content": content})
    assert answer.status == 201, answer
    return str(answer.json["guid"])


def text_of(web_system: WebSystem, uid: str, guid: str) -> str:
    """Return the text of a record."""
    answer = ask(web_system.url, "GET", f"/v1/pipelines/{uid}/records/{guid}")
    assert answer.status == 200, answer
    return str(answer.json["content"])


def edit(page: Page, text: str, reason: str = "") -> None:
    """Change the text of the open record in place."""
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_role("textbox", name="Text", exact=True)).to_be_focused()
    page.get_by_role("textbox", name="Text", exact=True).fill(text)
    page.get_by_label("Reason (optional)").fill(reason)
    page.get_by_role("button", name="Save").click()


def shown(page: Page) -> Any:
    """Return the element with the text of the record."""
    return page.locator("#record .sheet")


def test_a_note_is_edited_in_place_and_restored(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}", viewport=WINDOW) as page:
        for note in NOTES:
            expect(send(page, f"/write {note}").locator(".answer")).to_contain_text("Written")
        listing = page.context.new_page()
        listing.goto(f"{web_system.url}/pipelines/{uid}/memory")
        expect(listing.locator("[data-row]")).to_have_count(len(NOTES))

        page.goto(f"{web_system.url}/pipelines/{uid}/memory")
        page.get_by_role("link", name=NOTES[0]).click()
        expect(page.locator("#history")).to_contain_text("No earlier versions.")
        save_screenshot(page, "record")
        edit(page, NOTES[0].replace("3pm", "4pm"), "Ada is late")

        expect(shown(page)).to_have_text(NOTES[0].replace("3pm", "4pm"), timeout=SOON_MS)
        expect(page.locator(".toasts")).to_contain_text("Saved.")
        history = page.locator("#history")
        expect(history.locator("del")).to_have_text("[deleted: 3pm]", timeout=SOON_MS)
        expect(history.locator("ins")).to_have_text("[added: 4pm]")
        expect(history.locator("tbody tr").first).to_have_text(
            re.compile(r"2\s+edited current\s+console\s+[\d:]+ UTC\s+Ada is late")
        )
        expect(listing.get_by_role("link", name="4pm")).to_be_visible(timeout=SOON_MS)
        expect(page.get_by_role("button", name="Edit")).to_be_focused()
        save_screenshot(page, "record-history")

        history.get_by_role("button", name="Restore this version 1").click()

        expect(shown(page)).to_have_text(NOTES[0], timeout=SOON_MS)
        expect(history.locator("tbody tr").first).to_contain_text("restored")
        expect(listing.get_by_role("link", name=NOTES[0])).to_be_visible(timeout=SOON_MS)
        page.locator(".toasts").get_by_role("button", name="Undo").click()
        expect(shown(page)).to_contain_text("4pm", timeout=SOON_MS)
        page.get_by_role("link", name="Message trace").click()
        expect(page.locator("main")).to_contain_text(f"/write {NOTES[0]}")


def test_two_people_edit_one_record_and_nothing_is_lost(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    guid = create(web_system, uid, NOTES[0])
    path = f"/pipelines/{uid}/memory/{guid}"
    with (
        open_page(browser, web_system, path, viewport=WINDOW) as first,
        open_page(browser, web_system, path, viewport=WINDOW) as second,
    ):
        second.get_by_role("button", name="Edit").click()
        second.get_by_role("textbox", name="Text", exact=True).fill("The meeting is at noon")
        edit(first, "The meeting is at 4pm")
        expect(shown(first)).to_have_text("The meeting is at 4pm", timeout=SOON_MS)
        expect(second.locator("#history")).to_contain_text("4pm", timeout=SOON_MS)
        expect(second.get_by_role("textbox", name="Text", exact=True)).to_have_value(
            "The meeting is at noon"
        )

        second.get_by_role("button", name="Save").click()

        conflict = second.locator(".conflict")
        expect(conflict).to_contain_text("This record has changed since you opened it.")
        expect(conflict.locator("pre")).to_have_text(
            ["The meeting is at noon", "The meeting is at 4pm"]
        )
        expect(conflict.get_by_role("button", name="Save mine")).to_be_focused()
        conflict.scroll_into_view_if_needed()
        save_screenshot(second, "record-conflict")
        assert text_of(web_system, uid, guid) == "The meeting is at 4pm"

        conflict.get_by_role("button", name="Save mine").click()

        expect(shown(second)).to_have_text("The meeting is at noon", timeout=SOON_MS)
        expect(shown(first)).to_have_text("The meeting is at noon", timeout=SOON_MS)
        expect(first.locator("#history del")).to_contain_text("4pm")
        expect(first.locator("#history tbody tr")).to_have_count(3)


def test_the_text_of_another_is_kept_on_request(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    guid = create(web_system, uid, NOTES[0])
    with open_page(browser, web_system, f"/pipelines/{uid}/memory/{guid}", viewport=WINDOW) as page:
        page.get_by_role("button", name="Edit").click()
        page.get_by_role("textbox", name="Text", exact=True).fill("mine")
        path = f"/v1/pipelines/{uid}/records/{guid}"
        ask(web_system.url, "PATCH", path, {"content": "theirs", "kind": "fact"})

        page.get_by_role("button", name="Save").click()
        page.get_by_role("button", name="Keep theirs").click()

        expect(shown(page)).to_have_text("theirs")
        assert text_of(web_system, uid, guid) == "theirs"


def test_a_form_that_is_open_keeps_its_fields_and_can_be_cancelled(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    guid = create(web_system, uid, NOTES[0])
    path = f"/v1/pipelines/{uid}/records/{guid}"
    with open_page(browser, web_system, f"/pipelines/{uid}/memory/{guid}", viewport=WINDOW) as page:
        page.get_by_role("button", name="Edit").click()
        ask(web_system.url, "PATCH", path, {"content": "changed by another"})
        expect(page.locator("#history")).to_contain_text("changed by another", timeout=SOON_MS)
        expect(page.get_by_role("textbox", name="Text", exact=True)).to_have_value(NOTES[0])
        page.get_by_label("Data as JSON").fill("{")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#record .fault")).to_contain_text("not valid JSON")

        page.get_by_role("button", name="Cancel").click()

        expect(shown(page)).to_have_text("changed by another", timeout=SOON_MS)
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Kind").fill("memory.fact")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#record .fault")).to_contain_text("reserved")
        page.get_by_label("Kind").fill("fact")
        page.get_by_label("Tags, with commas").fill("office, team")
        page.get_by_label("Expires").fill("2090-01-01")
        page.get_by_label("Data as JSON").fill('{"price": 3}')
        page.get_by_role("button", name="Save").click()

        expect(page.locator("#record .details")).to_contain_text(
            re.compile(r"kind\s*fact.*tags\s*office team.*expires\s*1 Jan 2090", re.DOTALL),
            timeout=SOON_MS,
        )
        record = ask(web_system.url, "GET", path).json
        assert record["tags"] == ["office", "team"] and record["data"] == {"price": 3}
        assert record["content"] == "changed by another"


def test_a_deletion_is_undone_and_an_erased_record_is_gone_everywhere(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    note = "Ada's secret is under the green stone"
    guid = _write_and_fail(web_system, uid, note)
    path = f"/pipelines/{uid}/memory/{guid}"
    with open_page(browser, web_system, path, viewport=WINDOW) as page:
        page.get_by_role("button", name="Delete").click()
        deleted = page.locator("#record .deleted")
        expect(deleted).to_contain_text("Deleted by console", timeout=SOON_MS)
        page.locator(".toasts").get_by_role("button", name="Undo").click()
        expect(deleted).to_have_count(0, timeout=SOON_MS)
        assert text_of(web_system, uid, guid) == note

        page.get_by_role("button", name="Delete").click()
        expect(deleted.locator(".until")).to_have_text(
            re.compile(r"It can be restored until \d+ \w{3} 20\d\d, \d\d:\d\d UTC\.$"),
            timeout=SOON_MS,
        )
        page.reload()
        deleted.get_by_role("button", name="Undo").click()
        expect(deleted).to_have_count(0, timeout=SOON_MS)

        _erase(page, guid)

        report = page.get_by_role("region", name="Erasure")
        expect(report).to_contain_text("Complete since")
        expect(report).to_contain_text(re.compile(r"Dead letters\s*1"))
        expect(page.locator(".toasts")).to_contain_text("Erased.")
        save_screenshot(page, "record-erased")
        page.goto(web_system.url + path)
        expect(page.locator("main")).to_contain_text("Record not found.")
        assert page.locator("text=green stone").count() == 0
    _assert_gone(web_system, uid, guid, "green stone")


def _write_and_fail(web_system: WebSystem, uid: str, note: str) -> str:
    """Write a note in the chat, let a message that quotes it fail, and return the guid."""
    said = web_system.say(uid, {"text": f"/write {note}"}, query="?wait=60")
    assert said.status == 200, said
    web_system.system.client.enter(uid, f"/write {note}", swarm="chta")
    letters = f"/v1/dead-letters?pipeline={uid}"
    wait_for(lambda: ask(web_system.url, "GET", letters).json["total"] == 1, "the dead letter")
    (record,) = ask(web_system.url, "GET", f"/v1/pipelines/{uid}/records").json["items"]
    ask(
        web_system.url,
        "PATCH",
        f"/v1/pipelines/{uid}/records/{record['guid']}",
        {"content": f"{note}."},
    )
    ask(
        web_system.url,
        "POST",
        f"/v1/pipelines/{uid}/records/{record['guid']}/restore",
        {"number": 1},
    )
    return str(record["guid"])


def _erase(page: Page, guid: str) -> None:
    """Erase the open record. Another guid than its own is refused."""
    page.get_by_text("Erase this record").click()
    confirm = page.get_by_label("Type the guid of the record")
    confirm.fill("something else")
    page.get_by_role("button", name="Erase permanently").click()
    expect(page.locator(".erase")).to_be_visible()
    confirm.fill(guid)
    page.get_by_label("Reason, which is kept").fill("asked for")
    page.get_by_role("button", name="Erase permanently").click()
    expect(page.get_by_role("heading", name="Erased permanently")).to_be_visible()


def _assert_gone(web_system: WebSystem, uid: str, guid: str, quote: str) -> None:
    base = f"/v1/pipelines/{uid}"
    for path in (
        f"{base}/records",
        f"{base}/records?deleted=true",
        f"{base}/swarms/chat/messages?limit=100",
        f"/v1/dead-letters?pipeline={uid}",
        f"/pipelines/{uid}/memory",
        f"/pipelines/{uid}/log",
        "/dead-letters",
    ):
        answer = ask(web_system.url, "GET", path)
        assert answer.status == 200 and quote.encode() not in answer.body, path
    assert ask(web_system.url, "GET", f"{base}/records/{guid}/history").status == 404


@pytest.mark.parametrize("width", [320, 1600])
def test_no_state_of_the_page_is_wider_than_its_window(
    browser: Browser, web_system: WebSystem, uid: str, width: int
) -> None:
    guid = create(web_system, uid, "w" * 300)
    path = f"/v1/pipelines/{uid}/records/{guid}"
    window: Any = {"width": width, "height": 740}
    ask(
        web_system.url,
        "PATCH",
        path,
        {"content": "v" * 300, "kind": "k" * 200, "reason": "r" * 200},
    )
    with open_page(browser, web_system, f"/pipelines/{uid}/memory/{guid}", viewport=window) as page:
        expect(page.locator("#history ins").first).to_be_visible()
        assert overflow(page) <= 0
        page.get_by_role("button", name="Edit").click()
        page.get_by_text("Erase this record").click()
        assert overflow(page) <= 0
        ask(web_system.url, "PATCH", path, {"content": "u" * 300})
        page.get_by_role("textbox", name="Text", exact=True).fill("t" * 300)
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".conflict")).to_be_visible()
        assert overflow(page) <= 0
        ask(web_system.url, "DELETE", path)
        page.reload()
        expect(page.locator(".deleted")).to_be_visible()
        assert overflow(page) <= 0
