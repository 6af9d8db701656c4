"""Statement 5 of the console: 30 dead letters with one reason are one group. After a rollback,
`Replay all` succeeds for all of them, and their number falls visibly.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.console import open_page, save_screenshot
from tests.support.http import ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

LETTERS = 30
KEEPER = make_agent("keeper", "memory_write", {"memory_id": STORE}, senders="User")
# It receives its own messages, so each of its messages ends at the hop limit.
FAILING = make_agent("plus", "add_1")
# Records the numbers that the page shows.
WATCH = """() => {
  window.seen = [];
  const look = () => {
    const number = document.querySelector("#total")?.textContent ?? "0";
    if (window.seen.at(-1) !== number) window.seen.push(number);
  };
  look();
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
}"""


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__MAX_WAIT_S="20") as found:
        yield found


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


def deploy_failing(web_system: WebSystem, *first: Json, letters: int = LETTERS) -> str:
    """Deploy a working version and then one that fails, and send it messages."""
    uid = deploy_bundle(
        web_system.url, make_bundle(make_uid(), *(first or (KEEPER,)), name="Team notes")
    )
    failing = make_bundle(uid, FAILING, name="Team notes")
    assert ask(web_system.url, "PUT", f"/v1/pipelines/{uid}", failing).json["served"]
    web_system.system.client.enter_together(uid, [f"note {number}" for number in range(letters)])
    wait_for(lambda: count(web_system, uid) == letters, "the dead letters")
    return uid


def count(web_system: WebSystem, uid: str) -> int:
    return int(web_system.get(f"/v1/dead-letters?pipeline={uid}").json["total"])


def replay_all(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Replay all")).first.click()


def test_all_letters_of_a_group_are_replayed_after_a_rollback(
    browser: Browser, web_system: WebSystem
) -> None:
    uid = deploy_failing(web_system)
    with open_page(browser, web_system, f"/pipelines/{uid}") as page:
        expect(page.locator(".messages .badge").first).to_have_text("Failed")
        page.locator(".stats a", has_text=re.compile(f"^{LETTERS}$")).click()
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(1)
        expect(rows.locator(".count")).to_have_text(str(LETTERS))
        expect(rows.locator(".why")).to_contain_text("TooManyHops")
        save_screenshot(page, "dead-letters")

        rolled = ask(web_system.url, "POST", f"/v1/pipelines/{uid}/rollback", {})
        assert rolled.json["served"]
        page.evaluate(WATCH)
        replay_all(page)

        expect(page.locator("#replaying")).to_have_text(
            f"Replayed {LETTERS} of {LETTERS}.", timeout=60_000
        )
        expect(page.locator(".empty")).to_have_text("No dead letters.")
        seen = [int(number) for number in page.evaluate("window.seen")]
        assert (seen[0], seen[-1]) == (LETTERS, 0) and len(seen) > 2
        assert seen == sorted(seen, reverse=True)
    assert sorted(web_system.system.contents(uid)) == sorted(f"note {n}" for n in range(LETTERS))


def test_a_group_stops_at_the_first_letter_that_fails_again(
    browser: Browser, web_system: WebSystem
) -> None:
    uid = deploy_failing(web_system, letters=5)
    with open_page(browser, web_system, f"/dead-letters?pipeline={uid}") as page:
        replay_all(page)

        box = page.locator("#replaying")
        expect(box).to_contain_text(
            "Stopped after 0 of 5. Failed again: TooManyHops", timeout=30_000
        )
        box.get_by_role("link").click()
        expect(page.locator("#message + *")).to_have_text("note 0")
    assert count(web_system, uid) == 5


def test_one_letter_is_shown_replayed_and_dropped(browser: Browser, web_system: WebSystem) -> None:
    uid = deploy_failing(web_system, letters=2)
    with open_page(browser, web_system, f"/dead-letters?pipeline={uid}") as page:
        page.locator(".why a").click()
        page.locator("tbody tr").first.locator(".why a").click()
        expect(page.locator("#message + *")).to_have_text("note 0")
        save_screenshot(page, "dead-letter")
        page.get_by_role("button", name="Replay").click()
        expect(page.locator("#replaying")).to_contain_text("Failed again")
        expect(page.locator("main .details").first).to_contain_text(re.compile(r"Attempts\s*2"))

        page.get_by_role("button", name="Drop").click()
        page.locator("dialog").get_by_role("button", name="Cancel").click()
        assert count(web_system, uid) == 2
        page.get_by_role("button", name="Drop").click()
        page.locator("dialog").get_by_role("button", name="Drop").click()
        expect(page.locator(".toasts")).to_contain_text("Dropped.")
        expect(page.locator("tbody .count")).to_have_text("1")

        assert ask(web_system.url, "POST", f"/v1/pipelines/{uid}/rollback", {}).json["served"]
        page.locator(".why a").click()
        page.locator("tbody tr").first.get_by_role("button", name="Replay").click()
        expect(page.locator("#replaying")).to_have_text("Replayed.")
        expect(page.locator(".empty")).to_have_text("No dead letters.")
    assert web_system.system.contents(uid) == ["note 1"]


def test_a_key_without_admin_sees_its_letters_without_controls(browser: Browser) -> None:
    with WebSystem() as web_system:
        mine, other = deploy_failing(web_system, letters=1), deploy_failing(web_system, letters=1)
        # Playwright keeps an event loop in this thread.
        with ThreadPoolExecutor(1) as pool:
            key = pool.submit(make_key, web_system.system.root, "read", pipelines=(mine,)).result()
        await_closed(web_system)
        with open_page(browser, web_system, "/login") as page:
            page.locator("input[type=password]").fill(key.text)
            page.get_by_role("button", name="Log in").click()
            page.goto(f"{web_system.url}/dead-letters")
            expect(page.locator("tbody tr")).to_have_count(1)
            assert other not in page.content()
            for _ in range(2):
                expect(page.locator("main button:not(.choices button)")).to_have_count(0)
                page.locator(".why a").first.click()
            expect(page.locator("main button")).to_have_count(0)
            refused = page.goto(f"{web_system.url}/dead-letters?pipeline={other}")
            assert refused is not None and refused.status == 404
