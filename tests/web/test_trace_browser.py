"""The timeline of a message and the search of messages in Chromium: widths, themes, axe, URLs."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from tests.support.axe import find_violations
from tests.support.browser import chromium
from tests.support.bundles import make_agent, make_commands, make_memory, make_relay
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.web_service import WebService
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

WIDTHS = (320, 768, 1280, 1920)
HOSTILE = "<script>document.title = 'taken'</script>" + "w" * 200
NOTES = (
    "/write The team drinks tea in the morning",
    "/write Ada prefers green tea",
    "/write The plan of the release is ready",
    f"/write {HOSTILE}",
)


class Sent(NamedTuple):
    """A pipeline, and a message whose first request to a service was slow and failed."""

    uid: str
    entry: str


@pytest.fixture(scope="module")
def service() -> Iterator[WebService]:
    with WebService() as found:
        yield found


@pytest.fixture(scope="module")
def web_system(service: WebService) -> Iterator[WebSystem]:
    with WebSystem(worker=False) as found:
        limits = {"first_pause_s": 0.2, "longest_pause_s": 0.2}
        found.system.start_worker(outgoing=service.rules, limits=limits)
        yield found


@pytest.fixture(scope="module")
def sent(web_system: WebSystem, service: WebService) -> Sent:
    """Send messages of each state."""
    uid = web_system.deploy(
        *make_commands(),
        make_relay("ask", r"^/ask\s+(.*)"),
        make_agent("weather", "http_request", {"url": service.url}, senders="dispatch_ask"),
        make_agent("plus", "add_1", on="loop", to="loop"),
        make_memory("write", senders="Slow", alias="slow") | {"wf_flow": {"debounce_s": 600}},
    )
    say(web_system, uid, "wait for me", "Slow")
    for note in NOTES:
        say(web_system, uid, note)
    letter = web_system.system.client.enter(uid, "1", swarm="loop")
    web_system.system.await_dead_letter(uid, letter)
    service.on_request.append(lambda: time.sleep(0.5))
    service.script.append((503, b""))
    return Sent(uid, say(web_system, uid, "/ask How is the weather?"))


def say(web_system: WebSystem, uid: str, text: str, sender: str = "User") -> str:
    answer = web_system.say(uid, {"text": text, "from": sender}, query="?wait=60")
    assert answer.status == 200, answer
    return str(answer.json["message_id"])


@pytest.fixture(scope="module")
def browser(sent: Sent) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_pages_fit_each_width_and_theme(
    browser: Browser, web_system: WebSystem, sent: Sent, width: int, scheme: Any
) -> None:
    base = f"/pipelines/{sent.uid}"
    window: Any = {"width": width, "height": 900}
    for path in (f"{base}/messages/{sent.entry}", f"{base}/messages?text=tea", base):
        with open_page(browser, web_system, path, viewport=window, color_scheme=scheme) as page:
            assert (path, overflow(page), find_violations(page)) == (path, 0, [])


def test_the_slow_request_is_named_and_has_the_longest_bar(
    browser: Browser, web_system: WebSystem, sent: Sent
) -> None:
    path = f"/pipelines/{sent.uid}/messages/{sent.entry}"
    window: Any = {"width": 1280, "height": 900}
    with open_page(browser, web_system, path, viewport=window) as page:
        expect(page.locator(".slowest")).to_contain_text(
            "was the request to 127.0.0.1 of block http_request (agent weather)."
        )
        bars = page.locator(".waterfall rect")
        widths = bars.evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
        kinds = bars.evaluate_all("all => all.map((one) => one.classList[0])")
        assert kinds[widths.index(max(widths))] == "call" and min(widths) > 0
        assert {"wait", "run", "commit", "call", "pause"} <= set(kinds)
        save_screenshot(page, "timeline")


def test_a_search_has_its_conditions_in_the_address_and_leads_to_the_trace(
    browser: Browser, web_system: WebSystem, sent: Sent
) -> None:
    window: Any = {"width": 1280, "height": 900}
    path = f"/pipelines/{sent.uid}/messages"
    with open_page(browser, web_system, path, viewport=window, timezone_id="Europe/Berlin") as page:
        expect(page.locator("#zone")).to_have_text("Times are in Europe/Berlin.")
        page.get_by_label("Text").fill("TEA green")
        page.get_by_label("State").select_option("processed")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Search").click()

        expect(page.locator(".hits li")).to_have_count(2)
        assert "text=TEA+green" in page.url and "zone=Europe%2FBerlin" in page.url
        page.reload()
        expect(page.get_by_label("Text")).to_have_value("TEA green")
        page.get_by_label("Text").fill("tea")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".hits li")).to_have_count(4)
        save_screenshot(page, "messages")
        page.get_by_role("link", name="/write Ada prefers green tea").click()
        expect(page.get_by_role("heading", name="Where the time went")).to_be_visible()


def test_each_state_is_found_without_scripts(
    browser: Browser, web_system: WebSystem, sent: Sent
) -> None:
    path = f"/pipelines/{sent.uid}/messages?state="
    with open_page(browser, web_system, path, java_script_enabled=False) as page:
        for state, text in (("failed", "1"), ("parked", "wait for me")):
            page.get_by_label("State").select_option(state)
            page.get_by_role("button", name="Search").click()
            expect(page.locator(".hits li")).to_have_count(1)
            expect(page.locator(".hits li")).to_contain_text(text)
        assert page.title() != "taken"


def test_the_page_of_a_pipeline_is_short_on_a_phone(
    browser: Browser, web_system: WebSystem, sent: Sent
) -> None:
    phone: Any = {"width": 320, "height": 900}
    with open_page(browser, web_system, f"/pipelines/{sent.uid}", viewport=phone) as page:
        assert page.evaluate("document.documentElement.scrollHeight") < 2500
        expect(page.locator("#agent-weather_")).to_be_hidden()
        page.get_by_text("All 14 agents in a table").click()
        expect(page.locator("#agent-weather_")).to_be_visible()
        page.goto(f"{web_system.url}/pipelines/{sent.uid}#agent-weather_")
        page.reload()
        expect(page.locator("#agent-weather_")).to_be_visible()
