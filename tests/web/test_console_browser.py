"""The console in Chromium: chat, appearance, keyboard, phones, dark mode, and leaks."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, send
from tests.support.http import ask
from tests.support.pages import deploy_bundle
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

HOSTILE = (
    '"><script>document.title = "taken"</script><img src=x onerror="document.title = \'taken\'">'
)
DARK = "#14171a"
REFRESHES = 200
# The refreshed parts of a pipeline's page.
PARTS = 3
WARM = 100  # refreshes until the lists are full and the browser has compiled everything


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def uid(web_system: WebSystem) -> Iterator[str]:
    deployed = deploy_bundle(
        web_system.url, make_bundle(make_uid(), make_person(), *make_commands(), name="tea")
    )
    yield deployed
    ask(web_system.url, "DELETE", f"/v1/pipelines/{deployed}")


def open_details(page: Page) -> None:
    closed = page.locator("main details:not([open]) > summary:visible")
    while closed.count():
        closed.first.click()


def make_person(name: str = "User", swarm: str = "chat") -> Json:
    return {
        "agent_class": "chat_agent",
        "agent_alias": "person",
        "agent_name": name,
        "agent_rec_swarm": swarm,
        "agent_send_swarm": swarm,
        "wf_publish_results": True,
    }


def test_a_record_written_in_the_chat_is_found_there(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        written = send(page, "/write The meeting is at 3pm")
        expect(written.locator(".answer")).to_have_text(re.compile("Written as [0-9a-f-]{36}"))
        guid = written.locator("code").inner_text()

        found = send(page, "/search meeting")
        expect(found.locator("tbody tr")).to_have_count(1)
        expect(found.locator("tbody")).to_contain_text("The meeting is at 3pm")
        expect(found.locator("tbody")).to_contain_text(guid)

        expect(send(page, f"/delete {guid}").locator(".answer")).to_contain_text(
            "Deleted 1 record."
        )
        expect(send(page, "/read").locator(".answer")).to_contain_text("Nothing found.")
        expect(send(page, f"/delete {guid}").locator(".answer")).to_contain_text(
            "Nothing was deleted"
        )


def test_an_explained_search_shows_records_and_the_explanation(
    browser: Browser, web_system: WebSystem
) -> None:
    search = make_agent(
        "search",
        "memory_search",
        {"memory_id": STORE, "explain": True, "mode": "hybrid"},
        senders="find",
    )
    find = make_agent("find", "regex_match", {"pattern": "^/search (.*)"})
    write = make_agent("write", "memory_write", {"memory_id": STORE}, senders="keep")
    keep = make_agent("keep", "regex_match", {"pattern": "^/write (.*)"})
    uid = deploy_bundle(
        web_system.url, make_bundle(make_uid(), make_person(), find, search, keep, write)
    )

    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        send(page, "/write The meeting is at 3pm")
        found = send(page, "/search meeting").locator(".answer")

        expect(found.locator("tbody tr")).to_have_count(1)
        expect(found.locator("pre")).to_be_hidden()
        found.locator("summary").click()
        expect(found.locator("pre")).to_contain_text('"state": "wanted"')
        expect(send(page, "/search xylophone").locator(".answer")).to_contain_text(
            "Nothing found: "
        )


def test_a_very_long_message_is_shortened(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        page.locator("#text").fill("/write " + "tea " * 50_000)
        page.locator("#text").press("Enter")

        expect(page.locator("#exchanges .answer")).to_contain_text("Written as")
        shown = page.locator("#exchanges .text").first.inner_text()
        assert len(shown) < 5000 and shown.endswith("(200006 characters)")


def test_the_exchanges_are_a_list_in_a_live_region(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        log = page.get_by_role("log", name="Your messages and the answers")
        expect(log).to_have_count(1)

        send(page, "/write tea")
        send(page, "/read")

        expect(log.get_by_role("list").get_by_role("listitem")).to_have_count(2)


def test_right_to_left_text_is_aligned_right(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    ends_left = """(node) => {
      const text = document.createTreeWalker(node, NodeFilter.SHOW_TEXT).nextNode();
      const at = (place) => {
        const range = document.createRange();
        range.setStart(text, place);
        range.setEnd(text, place + 1);
        return range.getBoundingClientRect().left;
      };
      return at(text.length - 1) < at(0);
    }"""
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        expect(page.locator("#text")).to_have_css("unicode-bidi", "plaintext")
        assert send(page, "שלום עולם!").locator(".text").first.evaluate(ends_left)
        expect(page.locator(".messages")).to_contain_text("שלום")
        assert page.locator(".messages .text", has_text="שלום").first.evaluate(ends_left)
        send(page, "/write מרחבא!")
        assert send(page, "/read").locator("tbody .content").evaluate(ends_left)
        assert not send(page, "hello!").locator(".text").first.evaluate(ends_left)


def test_a_message_without_results_shows_the_reason(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        expect(send(page, "hello")).to_contain_text("No agent handled this message.")


def test_the_chat_keeps_a_bounded_number_of_exchanges(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        for number in range(23):
            send(page, f"/write number {number}")

        expect(page.locator("#exchanges > li")).to_have_count(20)
        expect(page.locator("#exchanges > li").first).to_contain_text("number 3")


def test_messages_of_others_appear(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        web_system.system.client.enter(uid, "/write from elsewhere", sender="Anna")

        expect(page.locator(".messages")).to_contain_text("Anna")
        expect(page.locator(".messages")).to_contain_text("/write from elsewhere")
        expect(page.locator(".stats")).to_contain_text(
            re.compile(r"Processed\s*[1-9]"), timeout=10_000
        )


def test_the_sender_name_can_be_changed(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        page.locator("#from").fill("Anna")
        send(page, "hello")

    assert web_system.system.client.log(uid)[0].sender == "Anna"


def test_hostile_names_and_messages_are_shown_as_text(
    browser: Browser, web_system: WebSystem
) -> None:
    on = {"on": HOSTILE, "to": HOSTILE}
    write = make_agent("write", "memory_write", {"memory_id": STORE}, senders=HOSTILE, **on)
    read = make_agent("read", "memory_read", {"memory_id": STORE}, senders="write", **on)
    uid = deploy_bundle(
        web_system.url,
        make_bundle(make_uid(), make_person(HOSTILE, HOSTILE), write, read, name=HOSTILE),
    )

    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        exchange = send(page, HOSTILE)

        expect(exchange.locator("tbody")).to_contain_text(HOSTILE)
        expect(page.locator(".messages")).to_contain_text(HOSTILE)
        expect(page.locator("h1")).to_contain_text('"><script>')
        assert (
            page.locator("script:not([src]), img[src=x]").count() == 0 and page.title() != "taken"
        )


def test_pages_are_readable_without_javascript(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    web_system.say(uid, {"text": "/write tea"}, query="?wait=60")

    with open_page(browser, web_system, f"/pipelines/{uid}", java_script_enabled=False) as page:
        expect(page.locator("#send")).to_be_hidden()
        expect(page.get_by_text("The chat needs JavaScript.")).to_be_visible()
        expect(page.locator(".chat pre")).to_contain_text(
            f"curl '{web_system.url}/v1/pipelines/{uid}/swarms/chat/messages?wait=5'"
        )
        open_details(page)
        for selector in (".stats", ".messages", "svg .box", ".agents", ".examples pre"):
            expect(page.locator(selector).first).to_be_visible()
        expect(page.locator(".copy")).to_have_count(0)


@pytest.mark.parametrize("path", ["/", "/pipelines", "/pipelines/{uid}"])
def test_no_page_is_wider_than_a_phone(
    browser: Browser, web_system: WebSystem, uid: str, path: str
) -> None:
    phone = {"width": 360, "height": 740}

    with open_page(
        browser, web_system, path.format(uid=uid), viewport=phone, has_touch=True
    ) as page:
        if "{uid}" in path:
            send(page, "/write " + "verylongword" * 50)
            send(page, "/read")
            expect(page.locator(".messages")).to_contain_text("verylongword")
        assert overflow(page) <= 0


def test_pages_are_dark_in_dark_mode(browser: Browser, web_system: WebSystem, uid: str) -> None:
    papers = []
    for scheme in ("light", "dark"):
        with open_page(browser, web_system, f"/pipelines/{uid}", color_scheme=scheme) as page:
            papers.append(
                page.evaluate(
                    "getComputedStyle(document.documentElement).getPropertyValue('--paper')"
                ).strip()
            )
            assert lowest_contrast(page) >= 4.5

    assert papers[1] == DARK != papers[0]


def lowest_contrast(page: Page) -> float:
    """Return the lowest contrast ratio of text and background, as defined in WCAG 2."""
    return float(page.evaluate((Path(__file__).parent / "contrast.js").read_text()))


def test_the_console_works_by_keyboard(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, "/pipelines") as page:
        # A deployed pipeline appears within two refreshes.
        expect(page.locator(f"#to-{uid}")).to_be_visible()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        tab_to(page, f"document.activeElement.id === 'to-{uid}'")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/pipelines/{uid}")

        tab_to(page, "document.activeElement.id === 'text'")
        page.keyboard.type("/write one")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("two")
        page.keyboard.press("Enter")

        expect(page.locator("#exchanges > li .text").first).to_have_text("/write one\ntwo")
        expect(page.locator(".answer")).to_contain_text("Written as")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def tab_to(page: Page, arrived: str) -> None:
    for _ in range(80):
        if page.evaluate(arrived):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach: {arrived}")


def test_a_refresh_keeps_the_focused_element(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/memory") as page:
        web_system.say(uid, {"text": "/write tea"}, query="?wait=60")
        link = page.locator("[data-row]", has_text="tea").get_by_role("link").first
        link.focus()
        before, address = link.element_handle(), link.get_attribute("href")
        web_system.say(uid, {"text": "/write milk"}, query="?wait=60")

        expect(page.locator("[data-row]")).to_have_count(2)
        assert before is not None and before.get_attribute("href") == address
        assert before.evaluate("node => node === document.activeElement")


def test_a_refresh_waits_for_the_end_of_a_click(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/memory") as page:
        web_system.say(uid, {"text": "/write tea"}, query="?wait=60")
        page.locator("[data-row]", has_text="tea").hover()
        page.mouse.down()
        with page.expect_response(lambda answer: "/rows" in answer.url and answer.status == 200):
            web_system.say(uid, {"text": "/write milk"}, query="?wait=60")
        with page.expect_response(lambda answer: "/rows" in answer.url):
            pass
        assert page.locator("[data-row]").count() == 1

        page.mouse.up()
        expect(page.locator("[data-row]")).to_have_count(2)


def test_a_button_copies_an_example(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(
        browser, web_system, f"/pipelines/{uid}", permissions=["clipboard-read", "clipboard-write"]
    ) as page:
        page.locator(".copy").first.click()

        expect(page.locator(".copy span").first).to_have_text("Copied")
        assert (
            page.evaluate("navigator.clipboard.readText()")
            == page.locator("[data-copy]").first.inner_text()
        )


def test_each_copy_button_names_its_example(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        open_details(page)
        names = [button.inner_text() for button in page.get_by_role("button", name="Copy ").all()]

        expect(
            page.get_by_role("button", name="Copy Show the latest messages, HTTP", exact=True)
        ).to_have_count(1)
        assert len(names) == page.locator("[data-copy]").count() == len(set(names)) > 3


def test_a_lost_server_is_reported_and_polled_less_often(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        page.clock.install()
        page.clock.run_for(2000)
        failed: list[str] = []
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.route("**/pipelines/**", lambda route: route.abort())

        advance_until(page, lambda: len(failed) >= PARTS)
        fault_line = page.locator("#refresh-fault")
        expect(fault_line).to_have_text("The server does not respond. Retrying every 5 seconds.")
        seen = len(failed)
        for _ in range(15):
            page.clock.run_for(1000)
        expect(page.locator(".messages")).to_be_visible()
        assert len(failed) - seen <= 4 * PARTS

        page.unroute("**/pipelines/**")
        for _ in range(40):
            page.clock.run_for(1000)
        expect(fault_line).to_be_hidden()


def test_a_hidden_page_does_not_refresh(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {get: () => window.away === true})"
        )
        page.evaluate("window.away = true")
        page.wait_for_timeout(2000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.wait_for_timeout(3500)
        assert asked == []

        page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_timeout(700)
        assert len(asked) == PARTS


def advance_until(page: Page, done: Callable[[], object]) -> None:
    """Advance the page's clock until a condition holds."""

    def holds() -> object:
        page.clock.run_for(1500)
        return done()

    wait_for(holds, "the page has refreshed")


def test_a_page_open_for_hours_leaks_nothing(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    # The server opens its connections to the bus at their first use.
    web_system.say(uid, "/write warm")
    web_system.get(f"/pipelines/{uid}/log?swarm=chat")
    sockets = count_sockets(web_system.web.pid)
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        session, answers = page.context.new_cdp_session(page), list[int]()
        page.on("response", lambda response: answers.append(response.status))
        page.clock.install()

        def load_and_refresh(refreshes: int) -> dict[str, int]:
            for _ in range(refreshes):
                web_system.system.client.enter_together(
                    uid, ["/write number one", "/search number", "x" * 500] * 5
                )
                seen = len(answers)
                advance_until(page, lambda seen=seen: len(answers) >= seen + PARTS)
            return weigh(page, session)

        before = load_and_refresh(WARM)
        after = load_and_refresh(REFRESHES)

        print(
            f"after {WARM} refreshes {before}, after {WARM + REFRESHES} refreshes {after}, "
            f"{len(answers)} answers"
        )
        assert set(answers) <= {200, 304}
        assert after["nodes"] <= before["nodes"] + 20
        # Requests in progress have listeners.
        assert after["listeners"] <= before["listeners"] + 12 * PARTS
        assert after["heap"] <= before["heap"] + 500_000

    wait_for(
        lambda: count_sockets(web_system.web.pid) <= sockets,
        "the connections of the page are closed",
    )
    assert web_system.get("/status").json["listeners"] == 0


def weigh(page: Page, session: Any) -> dict[str, int]:
    """Measure the page after garbage collections. One of them may happen during a swap."""
    found = []
    for _ in range(4):
        page.wait_for_timeout(50)
        session.send("HeapProfiler.collectGarbage")
        counted, heap = session.send("Memory.getDOMCounters"), session.send("Runtime.getHeapUsage")
        found.append((counted["nodes"], counted["jsEventListeners"], int(heap["usedSize"])))
    return dict(
        zip(("nodes", "listeners", "heap"), map(min, zip(*found, strict=True)), strict=True)
    )


def count_sockets(pid: int) -> int:
    """Return the number of open sockets of a process, or 0 if the system does not report it."""
    folder = Path(f"/proc/{pid}/fd")
    return (
        sum(1 for link in folder.iterdir() if _target(link).startswith("socket:"))
        if folder.exists()
        else 0
    )


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed in the meantime
        return ""
