"""The page "Review": its keyboard, what it shows of a conflict, and who may open it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import chromium
from tests.support.bundles import STORE, make_agent
from tests.support.console import open_page
from tests.support.http import ask
from tests.support.keys import await_closed, make_key
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

POLICY = {"name": "strangers wait", "match": {}, "action": "review"}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield web_system


@pytest.fixture
def base(web_system: WebSystem) -> str:
    """The path of a new pipeline, whose store has a record and a policy."""
    base = f"/v1/pipelines/{web_system.deploy()}"
    web_system.post(f"{base}/records", {"content": "Ada drinks green tea"})
    assert web_system.post(f"{base}/policies/set", {"policy": POLICY}).status == 204
    return base


def read_contents(web_system: WebSystem, base: str) -> list[str]:
    items = web_system.get(f"{base}/records").json["items"]
    return [one["content"] for one in items]


def hold(web_system: WebSystem, base: str, *contents: str) -> None:
    for content in contents:
        assert web_system.post(f"{base}/records", {"content": content}).status == 202


def test_the_page_shows_changes_and_escapes_texts(web_system: WebSystem, base: str) -> None:
    (record,) = web_system.get(f"{base}/records").json["items"]
    changed = {"content": "Ada drinks black tea"}
    assert ask(web_system.url, "PATCH", f"{base}/records/{record['guid']}", changed).status == 202
    hold(web_system, base, "<b>bold</b>")

    page = web_system.get(f"{base.removeprefix('/v1')}/reviews").body.decode()

    assert ">green<" in page and ">black<" in page and "strangers wait" in page
    assert "&lt;b&gt;bold" in page and "<b>bold" not in page


def test_the_page_shows_all_records_of_a_call(web_system: WebSystem, base: str) -> None:
    items = [
        {"scope": "s", "key": key, "data": {"value": {"a": 1}}, "content": f"tea {key}"}
        for key in ("first", "second")
    ]
    path = f"{base}/policies/set?store=langgraph"
    assert web_system.post(path, {"policy": POLICY}).status == 204
    assert ask(web_system.url, "PUT", f"{base}/records", {"items": items}).status == 202

    path = f"{base.removeprefix('/v1')}/reviews?store=langgraph"
    page = web_system.get(path).body.decode()

    assert "<details open><summary>The whole call of records.put" in page and "tea second" in page


def test_the_page_shows_both_texts_of_a_pair_and_the_reason(web_system: WebSystem) -> None:
    agent = make_agent("tidy", "consolidate", {"memory_id": STORE}, on="tidy", to="tidied")
    uid = web_system.deploy(agent)
    base = f"/v1/pipelines/{uid}"
    for version in (14, 16):
        entry = {"memory": "facts", "content": f"The <b>CI</b> uses Node {version}"}
        web_system.post(f"{base}/entries", entry | {"mode": "create"})
    web_system.post(f"{base}/swarms/tidy/messages?wait=10", {"text": "go"})

    page = web_system.get(f"/pipelines/{uid}/reviews").body.decode()

    assert "keeps one of two records" in page and "consolidate: contradictions" in page
    assert "Reason: <bdi>contradicts a newer entry" in page
    stays, gone = page.index("This one stays:"), page.index("This one is deleted:")
    assert "uses Node 16" in page[stays:gone] and "uses Node 14" in page[gone : gone + 300]
    assert "<b>CI" not in page
    (waiting,) = web_system.get(f"{base}/reviews").json["items"]
    answer = web_system.post(f"/pipelines/{uid}/reviews", {"guid": waiting["guid"]})
    assert answer.status == 200
    assert "Nothing waits" in web_system.get(f"/pipelines/{uid}/reviews").body.decode()


def test_the_page_does_not_approve_what_was_edited_since(web_system: WebSystem, base: str) -> None:
    hold(web_system, base, "tea")
    (seen,) = web_system.get(f"{base}/reviews").json["items"]
    page = f"{base.removeprefix('/v1')}/reviews"
    assert seen["version"] in web_system.get(page).body.decode()
    guid = seen["guid"]
    assert web_system.post(f"{base}/reviews/{guid}/edit", {"content": "milk"}).status == 200

    answer = web_system.post(page, {"guid": guid, "version": seen["version"]})

    assert answer.status == 409 and "edited it" in answer.problem[1]
    (seen,) = web_system.get(f"{base}/reviews").json["items"]
    assert web_system.post(page, {"guid": guid, "version": seen["version"]}).status == 200


def test_a_conflict_is_an_error_of_the_page(web_system: WebSystem, base: str) -> None:
    (record,) = web_system.get(f"{base}/records").json["items"]
    path = f"{base}/records/{record['guid']}"
    assert ask(web_system.url, "PATCH", path, {"content": "tea"}).status == 202
    (waiting,) = web_system.get(f"{base}/reviews").json["items"]
    assert ask(web_system.url, "DELETE", path).status == 204
    page = f"{base.removeprefix('/v1')}/reviews"

    assert web_system.post(page, {"guid": waiting["guid"]}).problem[0] == 409
    assert web_system.post(page, {"guid": "unknown"}).problem[0] == 404
    assert web_system.post(page, {"guids": []}).problem[0] == 400


def focused_text(page: Page) -> str:
    return str(page.evaluate("document.activeElement.closest('[data-row]')?.innerText ?? ''"))


@pytest.mark.slow
def test_writes_are_decided_with_the_keyboard(web_system: WebSystem, base: str) -> None:
    hold(web_system, base, "one", "two", "three", "four")
    path = f"{base.removeprefix('/v1')}/reviews"
    with chromium() as browser, open_page(browser, web_system, path) as page:
        rows = page.locator("[data-row]")
        page.keyboard.press("j")
        page.keyboard.press("a")
        expect(rows).to_have_count(3)
        wait_for(lambda: "two" in focused_text(page), "the next write has the focus")
        page.keyboard.press("r")
        expect(rows).to_have_count(2)
        wait_for(lambda: "three" in focused_text(page), "the next write has the focus")
        page.keyboard.press("j")
        page.keyboard.press("e")
        page.keyboard.press("Control+A")
        page.keyboard.type("a better text")
        page.get_by_role("button", name="Save").click()
        expect(rows.nth(1)).to_contain_text("edited by")
        page.keyboard.press("k")
        page.keyboard.press("k")
        page.keyboard.press("j")
        page.keyboard.press("a")
        expect(rows).to_have_count(1)
        assert page.evaluate("document.querySelectorAll('[role=alert]').length") == 0
    written = read_contents(web_system, base)
    assert written == ["Ada drinks green tea", "one", "a better text"]


@pytest.mark.slow
def test_only_a_reviewer_sees_the_page() -> None:
    with WebSystem() as web_system:
        uid, root = web_system.deploy(), web_system.system.root
        reader, reviewer = make_key(root, "read", "admin"), make_key(root, "review", "read")
        await_closed(web_system)
        path = f"/pipelines/{uid}"
        assert web_system.get(f"{path}/reviews", **reader.headers).status == 403
        assert web_system.get(f"{path}/reviews", **reviewer.headers).status == 200
        assert b">Review<" not in web_system.get(path, **reader.headers).body
        assert b">Review<" in web_system.get(path, **reviewer.headers).body
