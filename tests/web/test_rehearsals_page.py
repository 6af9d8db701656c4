"""The pages of rehearsals: who sees them, a difference, its pages, and the way through them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import chromium
from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_relay, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle, text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
WRITE, KEEP = make_relay("write", "^/write (.*)", flags="s"), make_memory("write")
# Writes only what follows the first word.
CANDIDATE = make_relay("write", r"^/write \w+ (.*)", flags="s")


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


def deploy(web_system: WebSystem, *texts: str) -> str:
    """Deploy a pipeline that keeps its inputs, and send it messages."""
    bundle = make_bundle(make_uid(), WRITE, KEEP) | {"inputs_days": 7}
    uid = deploy_bundle(web_system.url, bundle)
    for text in texts:
        web_system.say(uid, f"/write {text}")
    records = f"/v1/pipelines/{uid}/records?limit=1"
    wait_for(lambda: web_system.get(records).json["total"] == len(texts), "they are stored")
    return uid


def rehearse(web_system: WebSystem, uid: str, bundle: Json) -> str:
    """Run a rehearsal to its end, and return the path of its page."""
    path = f"/v1/pipelines/{uid}/rehearsals"
    ident = web_system.post(path, {"bundle": bundle}).json["id"]
    wait_for(lambda: web_system.get(f"{path}/{ident}").json["status"] != "running", "ended", 30)
    return f"/pipelines/{uid}/rehearsals/{ident}"


def test_a_difference_is_shown_by_words(web_system: WebSystem) -> None:
    uid = deploy(web_system, "red <b>tea</b> is hot", "coffee")
    page = rehearse(web_system, uid, make_bundle(uid, CANDIDATE, KEEP))
    same = rehearse(web_system, uid, make_bundle(uid, WRITE, KEEP))

    shown = web_system.get(page)
    text, listed = text_of(shown), text_of(web_system.get(page.rpartition("/")[0]))

    assert "Records missing 1" in text and "Records changed 1" in text, text
    assert "2 rehearsed, 0 not" in text
    assert "[deleted: red ]" in text and "[deleted: coffee ]" in text
    assert b"<b>tea" not in shown.body
    assert "No difference" in text_of(web_system.get(same))
    assert "done, no difference" in listed and "Rehearse a bundle" in listed
    assert web_system.get(f"{page}0").status == 404
    assert web_system.get(f"{page}?cursor=x").status == 400
    ended = web_system.get(f"{page}/state")
    assert ended.headers["refresh"] == "0"


def test_deliveries_and_another_order_are_shown(web_system: WebSystem) -> None:
    def speaking(*names: str) -> list[Json]:
        return [make_agent(one, "template", {"template": one}, senders="User") for one in names]

    uid = make_uid()
    bundle = make_bundle(uid, WRITE, KEEP, *speaking("one", "two"), inputs_days=7)
    deploy_bundle(web_system.url, bundle)
    web_system.say(uid, "/write tea")
    crm = {"name": "crm", "url": "https://example.org/hook", "events": ["record.created"]}
    candidate = make_bundle(uid, WRITE, KEEP, *speaking("two", "one"), endpoints=[crm])
    shown = text_of(web_system.get(rehearse(web_system, uid, candidate)))

    assert "Deliveries 1" in shown and "added crm" in shown and "record.created" in shown, shown
    assert "1 input with the same messages in another order" in shown


def test_a_later_page_begins_at_its_cursor(web_system: WebSystem) -> None:
    uid = deploy(web_system, "red tea", "coffee")
    page = rehearse(web_system, uid, make_bundle(uid, CANDIDATE, KEEP))

    first, later = text_of(web_system.get(page)), text_of(web_system.get(f"{page}?cursor=1"))

    assert "[deleted: red ]" in first and "First page" not in first
    assert "Records missing 1" in later and "[deleted: coffee ]" in later
    assert "observation in" in later and later.count("observation in") == 1
    assert "First page" in later


def test_only_an_admin_sees_rehearsals() -> None:
    with WebSystem() as web_system:
        uid = deploy(web_system, "tea")
        page = rehearse(web_system, uid, make_bundle(uid, CANDIDATE, KEEP))
        key = make_key(web_system.system.root, "read", "deploy")
        await_closed(web_system)
        base = f"/pipelines/{uid}"
        listed = web_system.get(f"{base}/rehearsals", **key.headers)
        versions = web_system.get(f"{base}/bundle", **key.headers)
        one = web_system.get(page, **key.headers)

    assert "log in with a key that has the scope admin" in text_of(listed)
    assert b'name="bundle"' not in listed.body and b"Rehearse<" not in versions.body
    assert one.status == 403


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (320, "dark")])
def test_a_candidate_is_rehearsed_before_its_deploy(
    web_system: WebSystem, browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    uid = deploy(web_system, "red tea is hot", "Ada likes green tea with milk", "coffee")
    how: Any = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    file = tmp_path / "candidate.json"
    file.write_bytes(orjson.dumps(make_bundle(uid, CANDIDATE, KEEP)))

    with open_page(browser, web_system, f"/pipelines/{uid}/bundle", **how) as page:
        text = page.get_by_label("Bundle as JSON")
        text.fill(text.input_value().replace("^/write (", "^/write .("))
        page.get_by_role("button", name="Rehearse").click()
        assert "^/write .(" in page.get_by_label("Bundle as JSON").input_value()
        if width > 400:
            save_screenshot(page, "rehearse")
        assert overflow(page) <= 0
        assert page.evaluate(CONTRAST) >= 4.5
        page.get_by_label("Bundle from a file").set_input_files(file)
        expect(page.get_by_label("Bundle as JSON")).to_have_value(file.read_text())
        page.get_by_label("From (empty").fill("2999-01-01T00:00")
        page.get_by_role("button", name="Rehearse").click()
        expect(page.locator(".warning")).to_contain_text("no input of the pipeline is kept")
        page.go_back()
        page.get_by_label("Bundle from a file").set_input_files(file)
        expect(page.get_by_label("Bundle as JSON")).to_have_value(file.read_text())
        page.get_by_label("From (empty").fill("")
        page.get_by_role("button", name="Rehearse").click()

        expect(page.get_by_role("heading", name="Records")).to_be_visible(timeout=30_000)
        expect(page.locator("main")).to_contain_text("3 rehearsed, 0 not")
        expect(page.locator("del").first).to_contain_text("red")
        if width > 400:
            save_screenshot(page, "rehearsal")
        assert overflow(page) <= 0
        assert page.evaluate(CONTRAST) >= 4.5
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Delete").last.click()
        expect(page.get_by_text("Rehearsal deleted.")).to_be_visible()
        expect(page.locator("tbody tr")).to_have_count(1)
