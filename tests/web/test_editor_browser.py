"""The pipeline editor in Chromium: from a template, by keyboard, by drag, and in JSON."""

import hmac
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import orjson
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.axe import find_violations
from tests.support.browser import chromium
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.http import ask
from tests.support.pages import deploy_bundle
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

SECRET = "a-secret-for-the-tests"
WIDE: Any = {"viewport": {"width": 1500, "height": 1000}}
ISSUE: Json = {
    "action": "opened",
    "issue": {"number": 7, "title": "The kettle leaks", "html_url": "https://example.com/7"},
    "repository": {"full_name": "ada/tea"},
    "sender": {"login": "grace"},
}
PERSON: Json = {
    "agent_class": "chat_agent",
    "agent_alias": "user",
    "agent_name": "User",
    "agent_rec_swarm": "chat",
    "agent_send_swarm": "chat",
}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(secrets={"GITHUB_SECRET": SECRET}) as found:
        yield found


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def uid(web_system: WebSystem) -> str:
    """Deploy a pipeline whose command /note stores a text. It has keys that no schema knows."""
    pick = make_agent("pick", "regex_match", {"pattern": "^/note (.*)"}, senders="User")
    keep = make_agent("keep", "memory_write", {"memory_id": STORE}, senders="pick")
    bundle = make_bundle(make_uid(), PERSON, pick | {"x_team": {"owner": ["Ada"]}}, keep)
    return deploy_bundle(web_system.url, bundle | {"x_ticket": 7, "name": "notes"})


def box(page: Page, name: str) -> Locator:
    return page.locator(f'.box[aria-label^="{name}, "]')


def is_ready(page: Page) -> None:
    expect(page.locator(".state")).to_contain_text(re.compile("Ready to deploy|No changes"))


def deploy(page: Page, uid: str, version: int) -> None:
    page.get_by_role("button", name="Deploy…").click()
    page.get_by_role("dialog").get_by_role("button", name="Deploy", exact=True).click()
    page.wait_for_url(f"**/pipelines/{uid}/edit?deployed={version}")


def read_bundle(web_system: WebSystem, uid: str) -> Json:
    found: Json = web_system.get(f"/v1/pipelines/{uid}").json["bundle"]
    return found


def send_issue(web_system: WebSystem, uid: str, secret: str = SECRET) -> Any:
    body = orjson.dumps(ISSUE)
    signature = "sha256=" + hmac.new(secret.encode(), body, sha256).hexdigest()
    return web_system.webhook(
        uid,
        "github",
        body,
        **{"X-Hub-Signature-256": signature, "X-GitHub-Event": "issues", "X-GitHub-Delivery": "1"},
    )


def test_issues_of_github_are_remembered_and_sent_on(
    browser: Browser, web_system: WebSystem
) -> None:
    with open_page(browser, web_system, "/pipelines/new", **WIDE) as page:
        page.get_by_label("GitHub to Slack").check()
        page.get_by_label("Name").fill("Issues of the shop")
        save_screenshot(page, "new-pipeline")
        page.get_by_role("button", name="Open the editor").click()
        is_ready(page)
        box(page, "slack").click()
        page.get_by_label("URL").fill("https://hooks.example.com/issues")
        expect(page.locator(".pill.out", has_text="hooks.exam")).to_be_visible()
        page.get_by_label("Comes in at").select_option("Webhook to github")
        page.get_by_role("button", name="Send test message").click()
        steps = page.locator(".try-steps")
        expect(page.locator(".try-outcome")).to_contain_text("ran to its end")
        expect(steps).to_contain_text("hooks.example.com")
        expect(steps).to_contain_text("A test of the webhook")
        expect(page.locator(".box.lit")).to_have_count(3)
        save_screenshot(page, "editor")

        deploy(page, "issues_of_the_shop", 1)
        url = page.locator(".next-steps code").first
        expect(url).to_have_text(f"{web_system.url}/webhooks/issues_of_the_shop/github")

    def is_served() -> bool:
        return bool(send_issue(web_system, "issues_of_the_shop").status < 300)

    def read_contents() -> list[str]:
        path = "/v1/pipelines/issues_of_the_shop/records?store=instances/issues_of_the_shop/inbox"
        answer = web_system.get(path)
        return [one["content"] for one in answer.json["items"]] if answer.status == 200 else []

    wait_for(is_served, "the webhook is accepted")
    wait_for(lambda: read_contents() == ["ada/tea: The kettle leaks"], "the issue is a record")


def test_a_pipeline_is_made_by_keyboard(browser: Browser, web_system: WebSystem) -> None:
    with open_page(browser, web_system, "/pipelines/new", **WIDE) as page:
        page.get_by_label("Empty").focus()
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        page.keyboard.type("Typed notes")
        page.keyboard.press("Enter")
        expect(page.locator(".canvas")).to_be_visible()
        page.locator(".box").first.focus()
        page.keyboard.press("a")
        page.keyboard.type("regex_match")
        page.keyboard.press("Enter")
        expect(box(page, "regex_match")).to_be_focused()
        page.keyboard.press("a")
        page.keyboard.type("memory_write")
        page.keyboard.press("Enter")
        expect(box(page, "memory_write")).to_be_focused()
        page.keyboard.press("ArrowLeft")
        expect(box(page, "regex_match")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator('[data-key="name"]')).to_be_focused()
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("pick")
        page.keyboard.press("Escape")
        expect(box(page, "pick")).to_be_focused()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys of the editor")).to_be_visible()
        page.keyboard.press("Escape")
        is_ready(page)
        page.get_by_role("button", name="Deploy…").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Deploy")).to_be_visible()
        page.keyboard.press("Enter")
        page.wait_for_url("**/pipelines/typed_notes/edit?deployed=1")

    agents = {one["agent_alias"]: one for one in read_bundle(web_system, "typed_notes")["agents"]}
    assert agents["memory_write"]["agent_from"] == "pick"
    assert agents["regex_match"]["wf_agent_name"] == "pick"


def test_boxes_are_connected_by_drag_and_by_key(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        page.get_by_label("Search blocks").fill("template")
        page.keyboard.press("Enter")
        expect(box(page, "template")).to_be_focused()
        start, end = box(page, "pick").locator(".port"), box(page, "template")
        page.wait_for_timeout(300)  # the boxes have moved
        start.hover()
        page.mouse.down()
        end.hover()
        page.mouse.up()
        expect(page.locator(".tell")).to_have_text("Connected pick to template.")
        box(page, "keep").focus()
        page.keyboard.press("c")
        box(page, "template").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".tell")).to_have_text("Connected keep to template.")
        box(page, "pick").click()
        page.get_by_role("button", name="Disconnect template").click()
        is_ready(page)
        deploy(page, uid, 2)

    template = read_bundle(web_system, uid)["agents"][-1]
    assert (template["agent_from"], template["agent_rec_swarm"]) == ("keep", "chat")


def test_changes_are_undone_and_done_again(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        box(page, "keep").focus()
        page.keyboard.press("Delete")
        expect(page.locator(".box")).to_have_count(2)
        page.keyboard.press("ControlOrMeta+z")
        expect(page.locator(".box")).to_have_count(3)
        page.keyboard.press("ControlOrMeta+Shift+z")
        expect(page.locator(".box")).to_have_count(2)
        page.get_by_role("button", name="Undo").click()
        box(page, "pick").click()
        page.get_by_label("Pattern").fill("^/todo (.*)")
        page.get_by_label("Pattern").press("ControlOrMeta+z")
        expect(page.get_by_label("Pattern")).to_have_value("^/note (.*)")
        expect(page.get_by_role("button", name="Undo")).to_be_disabled()


def test_unknown_keys_stay(browser: Browser, web_system: WebSystem, uid: str) -> None:
    before = read_bundle(web_system, uid)

    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        box(page, "pick").click()
        page.get_by_label("Pattern").fill("^/todo (.*)")
        is_ready(page)
        page.get_by_role("button", name="Deploy…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Changed: pick_")
        expect(dialog.locator("ins")).to_contain_text("^/todo (.*)")
        page.keyboard.press("Escape")
        deploy(page, uid, 2)

    after = read_bundle(web_system, uid)
    assert after["agents"][1].pop("wf_webhook_args") == {"pattern": "^/todo (.*)"}
    assert before["agents"][1].pop("wf_webhook_args") == {"pattern": "^/note (.*)"}
    assert after == before


def test_a_fault_is_at_its_field_and_in_a_list(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        box(page, "pick").click()
        pattern = page.get_by_label("Pattern")
        pattern.fill("^/note (")
        expect(page.locator(".state")).to_contain_text("1 fault to fix")
        expect(pattern).to_have_attribute("aria-invalid", "true")
        expect(box(page, "pick").locator("circle.fault-mark")).to_be_visible()
        page.get_by_role("button", name="Pipeline").click()
        page.get_by_role("button", name="pick · pattern").click()
        expect(pattern).to_be_focused()
        page.get_by_role("button", name="Deploy…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Deploy", exact=True)).to_be_disabled()
        page.keyboard.press("Escape")
        pattern.fill("^/note (.*)")
        is_ready(page)
        page.locator(".tester summary").first.click()
        page.get_by_label("Text", exact=True).fill("/note buy tea")
        page.get_by_role("button", name="Test", exact=True).click()
        expect(page.locator(".tester").first).to_contain_text("buy tea")


def test_the_json_view_edits_the_same_draft(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        loaded = "performance.getEntriesByType('resource').map((one) => one.name).join()"
        assert "json_view.js" not in page.evaluate(loaded)
        page.get_by_role("tab", name="JSON").click()
        text = page.get_by_role("textbox", name="Bundle as JSON")
        expect(text).to_contain_text("x_team")
        text.press("ControlOrMeta+End")
        text.press("ArrowUp")
        text.press("End")
        page.keyboard.type(',\n"timezone": "Europe/Nowhere"')
        expect(page.locator(".state")).to_contain_text("1 fault to fix")
        expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
        for _ in range(len('Nowhere"')):
            page.keyboard.press("Backspace")
        page.keyboard.type('Berlin"')
        is_ready(page)
        save_screenshot(page, "editor-json")
        page.keyboard.type(',\n"ti')
        expect(page.locator(".state")).to_contain_text("fault")
        page.get_by_role("tab", name="Graph").click()
        expect(page.locator(".box")).to_have_count(3)
        page.get_by_role("button", name="Undo").click()
        page.get_by_role("button", name="Redo").click()
        is_ready(page)
        deploy(page, uid, 2)

    assert read_bundle(web_system, uid)["timezone"] == "Europe/Berlin"


def test_the_json_view_completes_keys(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        page.get_by_role("tab", name="JSON").click()
        text = page.get_by_role("textbox", name="Bundle as JSON")
        text.press("ControlOrMeta+End")
        text.press("ArrowUp")
        text.press("End")
        page.keyboard.type(',\n"timez')
        expect(page.locator(".cm-tooltip-autocomplete li").first).to_have_text('"timezone"')


def test_a_test_message_lights_its_path(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        page.get_by_role("textbox", name="Message").fill("/note The kettle leaks")
        page.get_by_role("button", name="Send test message").click()
        expect(page.locator(".try-steps li")).to_have_count(2)
        kept = page.locator(".try-steps li").last
        expect(kept).to_contain_text("created")
        expect(kept).to_contain_text("The kettle leaks")
        expect(page.locator(".box.lit")).to_have_count(3)
        page.get_by_role("textbox", name="Message").fill("nothing that a block accepts")
        page.get_by_role("button", name="Send test message").click()
        expect(page.locator(".try-outcome")).not_to_contain_text("Running")

    assert web_system.get(f"/v1/pipelines/{uid}/records").json["items"] == []


def test_a_draft_survives_a_reload(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        box(page, "pick").click()
        page.get_by_label("Pattern").fill("^/todo (.*)")
        page.reload()
        expect(page.locator(".notice")).to_contain_text("Your draft of")
        box(page, "pick").click()
        expect(page.get_by_label("Pattern")).to_have_value("^/todo (.*)")
        page.get_by_role("button", name="Discard draft").click()
        expect(page.locator(".notice")).to_have_count(0)
        box(page, "pick").click()
        expect(page.get_by_label("Pattern")).to_have_value("^/note (.*)")


def test_a_secret_is_generated_before_the_first_deploy(
    browser: Browser, web_system: WebSystem
) -> None:
    with open_page(browser, web_system, "/pipelines/new", **WIDE) as page:
        page.get_by_label("GitHub to Slack").check()
        page.get_by_label("Name").fill("Signed issues")
        page.get_by_role("button", name="Open the editor").click()
        box(page, "github").click()
        secret = page.locator('[data-field="wf_webhook_secret"]')
        secret.locator("input").first.fill("env:NOT_SET")
        faults = page.locator(".fault-list")
        faults.get_by_role("button", name="Set the secret").click()
        expect(secret.locator("input").first).to_be_focused()
        secret.get_by_role("button", name="Generate a secret").click()
        expect(secret.locator("input").first).to_have_value("file:signed_issues/github-secret")
        expect(secret).to_contain_text("Paste it at GitHub as the secret")
        value = secret.locator("code").first.inner_text()
        expect(page.locator(".fault-list")).not_to_contain_text("secret")
        secret.get_by_role("button", name="Generate a secret").click()
        expect(secret).to_contain_text("exists already")
        secret.get_by_role("button", name="Use the existing one").click()
        is_ready(page)
        deploy(page, "signed_issues", 1)
        expect(page.locator(".next-steps")).not_to_contain_text("no value")

    def is_served() -> bool:
        return bool(send_issue(web_system, "signed_issues", value).status < 300)

    wait_for(is_served, "the signature is accepted")


def test_a_service_that_issues_its_secret_shows_it(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        page.get_by_label("Search blocks").fill("webhook")
        page.locator(".choice").first.click()
        page.locator('details[data-section="Webhook"]').evaluate("(node) => { node.open = true; }")
        page.locator('[data-key="wf_webhook_sender"]').select_option("slack")
        given = page.get_by_label("Enter the secret that Slack shows you").first
        given.fill("from-slack")
        page.get_by_role("button", name="Store", exact=True).first.click()
        place = page.locator('[data-key="wf_webhook_secret"]')
        expect(place).to_have_value(f"file:{uid}/webhook-secret")
        is_ready(page)


def test_a_target_that_the_server_refuses_is_told_before_it_runs(
    browser: Browser, web_system: WebSystem
) -> None:
    send = make_agent("send", "http_request", {"url": "http://127.0.0.1:8977/x"}, senders="User")
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, send))
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        expect(page.locator(".state")).to_have_text("No changes, 1 warning")
        faults = page.locator(".fault-list")
        expect(faults).to_contain_text("outgoing.private")
        expect(faults.locator("code", has_text="MEMRELAY_OUTGOING__PRIVATE='[{")).to_be_visible()
        page.get_by_role("button", name="Send test message").click()
        expect(page.locator(".try-steps .bad").first).to_contain_text("outgoing.private")
        page.get_by_role("button", name="Deploy…").click()
        expect(page.get_by_role("dialog")).to_contain_text("requests will be refused")


def test_a_receiver_is_drawn_to_the_right_of_its_sender(
    browser: Browser, web_system: WebSystem
) -> None:
    first = make_agent("first", "add_1", senders="User")
    second = make_agent("second", "add_1", senders="User")
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, first, second))
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        page.wait_for_timeout(300)  # the boxes have moved
        box(page, "first").locator(".port").hover()
        page.mouse.down()
        box(page, "second").hover()
        page.mouse.up()
        expect(page.locator(".tell")).to_have_text("Connected first to second.")
        expect(page.locator(".panel h2")).to_contain_text("second")
        expect(box(page, "second")).to_have_attribute("aria-current", "true")
        page.wait_for_timeout(300)
        left, right = (box(page, one).bounding_box() for one in ("first", "second"))
        assert left is not None and right is not None
        assert right["x"] > left["x"] + left["width"]


def test_broken_json_is_opened_at_its_line_and_not_tested(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        page.get_by_role("tab", name="JSON").click()
        text = page.get_by_role("textbox", name="Bundle as JSON")
        text.press("ControlOrMeta+End")
        page.keyboard.type(" oops")
        expect(page.locator(".state")).to_contain_text("fault")
        page.get_by_role("tab", name="Graph").click()
        page.get_by_role("button", name="Send test message").click()
        expect(page.locator(".try-outcome")).to_contain_text("The JSON is broken")
        page.locator(".fault-list button").first.click()
        expect(page.get_by_role("tab", name="JSON")).to_have_attribute("aria-selected", "true")
        expect(text).to_be_focused()


def test_a_tap_on_a_phone_brings_the_form(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    phone: Any = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **phone) as page:
        expect(page.get_by_text("Scroll to see the rest")).to_be_visible()
        box(page, "pick").tap()
        expect(page.get_by_role("heading", name="pick")).to_be_in_viewport()
        save_screenshot(page, "editor-phone")


def test_deleting_selects_nothing_and_silence_is_explained(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        page.get_by_role("textbox", name="Message").fill("hello there")
        page.get_by_role("button", name="Send test message").click()
        outcome = page.locator(".try-outcome")
        expect(outcome).to_contain_text("pick: its pattern ^/note (.*) does not match")
        box(page, "keep").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.locator(".box")).to_have_count(2)
        expect(page.locator('.box[aria-current="true"]')).to_have_count(0)
        expect(page.get_by_role("heading", name="Pipeline")).to_be_visible()


def test_a_newer_version_is_not_replaced_without_asking(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        box(page, "pick").click()
        page.get_by_label("Pattern").fill("^/mine (.*)")
        theirs = read_bundle(web_system, uid) | {"pipeline_desc": "theirs"}
        assert ask(web_system.url, "PUT", f"/v1/pipelines/{uid}", theirs).status == 200
        is_ready(page)
        page.get_by_role("button", name="Deploy…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Deploy", exact=True).click()
        expect(dialog).to_contain_text("A newer version was deployed")
        dialog.get_by_role("button", name="Deploy mine").click()
        page.wait_for_url(f"**/pipelines/{uid}/edit?deployed=3")

    assert "pipeline_desc" not in read_bundle(web_system, uid)


def test_three_hundred_agents_are_drawn_and_move(browser: Browser, web_system: WebSystem) -> None:
    agents = [make_agent(f"a{n}", "add_1", senders=f"a{n // 3}") for n in range(1, 300)]
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, *agents))

    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **WIDE) as page:
        expect(page.locator(".box")).to_have_count(300)
        canvas = page.locator(".canvas")
        place = canvas.bounding_box()
        assert place is not None
        page.mouse.move(place["x"] + place["width"] - 40, place["y"] + 200)
        page.mouse.down()
        page.mouse.move(place["x"] + 40, place["y"] + 100, steps=10)
        page.mouse.up()
        assert canvas.evaluate("(node) => node.scrollTop") == 100


def test_the_bundle_is_readable_without_scripts(web_system: WebSystem, uid: str) -> None:
    page = web_system.get(f"/pipelines/{uid}/edit").body.decode()

    assert "<noscript>" in page and "x_team" in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 768, 1280, 1920])
def test_the_editor_is_accessible_and_fits(
    browser: Browser, web_system: WebSystem, uid: str, width: int, scheme: Any
) -> None:
    how: Any = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with open_page(browser, web_system, f"/pipelines/{uid}/edit", **how) as page:
        box(page, "keep").click()
        is_ready(page)
        found = find_violations(page)
        page.get_by_role("tab", name="JSON").click()
        expect(page.get_by_role("textbox", name="Bundle as JSON")).to_be_visible()
        found += find_violations(page)
        assert (found, overflow(page)) == ([], 0)
    with open_page(browser, web_system, "/pipelines/new", **how) as page:
        expect(page.get_by_label("Empty")).to_be_visible()
        assert (find_violations(page), overflow(page)) == ([], 0)
