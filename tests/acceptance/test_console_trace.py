"""Statement 4 of the console: a click on a line of the log shows how its message went through the
pipeline, with a link to the record. The page is the same after kill -9 of the worker and the
replay.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.bundles import Json, make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, save_screenshot, send
from tests.support.pages import deploy_bundle
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

PERSON: Json = {
    "agent_class": "chat_agent",
    "agent_alias": "person",
    "agent_name": "User",
    "agent_rec_swarm": "chat",
    "agent_send_swarm": "chat",
    "wf_publish_results": True,
}
SHAPE = [
    ("User", "chat_agent", "first message"),
    ("dispatch_write", "regex_match", "hop 1"),
    ("memory_write", "memory_write", "hop 2"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def read_tree(page: Page) -> list[tuple[str, str, str]]:
    """Return (sender, block, hop) of each message, and check that each is below the one before."""
    tree, level = list[tuple[str, str, str]](), page.locator(".trace > ol")
    while level.count():
        row = level.locator("> li")
        expect(row).to_have_count(1)
        hop = row.locator("> .said .hop").inner_text().split(" · ")[0]
        tree.append(
            (
                row.locator("> .said strong").inner_text(),
                row.locator("> .said .badge").inner_text(),
                hop,
            )
        )
        level = row.locator("> ol")
    return tree


def open_log_line(page: Page, text: str) -> None:
    """Click the line of the log with a text."""
    line = page.locator(".messages li").filter(has=page.get_by_text(text, exact=True))
    line.locator(".to-trace").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Message trace")


def test_a_log_line_leads_to_a_tree_that_survives_a_killed_worker(browser: Browser) -> None:
    with WebSystem() as web_system:
        bundle = make_bundle(make_uid(), PERSON, *make_commands(), name="Team notes")
        uid = deploy_bundle(web_system.url, bundle)
        with open_page(browser, web_system, f"/pipelines/{uid}") as page:
            send(page, "/write The meeting is at 3pm")
            open_log_line(page, "/write The meeting is at 3pm")

            assert read_tree(page) == SHAPE
            (record,) = web_system.get(f"/v1/pipelines/{uid}/records").json["items"]
            expect(page.locator(".wrote a")).to_have_attribute(
                "href", re.compile(f"/pipelines/{uid}/memory/{record['guid']}\\?store=")
            )
            expect(page.locator("table.stacks")).to_contain_text("The meeting is at 3pm")
            save_screenshot(page, "trace")
            before = read_trace(page)

            web_system.system.workers[-1].kill()
            entry = replay_after_a_crash(web_system, uid)
            page.reload()
            assert read_trace(page) == before

            page.goto(f"{web_system.url}/pipelines/{uid}/messages/{entry}")
            assert read_tree(page) == SHAPE
            expect(page.locator(".wrote a")).to_have_count(1)


def read_trace(page: Page) -> list[str]:
    """Return the texts of the trace, without the times that end with the worker."""
    texts = page.locator(".trace, table.stacks").all_inner_texts()
    return [re.sub(r" · ran [^·]+", " ", text) for text in texts]


def replay_after_a_crash(web_system: WebSystem, uid: str) -> str:
    """Send a note to a worker that is killed between the commit and the log, start another one,
    and return the note's entry when it is in the log.
    """
    dying = web_system.system.start_stepping_worker(die_on="committed")
    web_system.system.client.await_served(uid)
    entry = web_system.say(uid, {"text": "/write The room is green"}).json["message_id"]
    dying.await_end()
    path = f"/v1/pipelines/{uid}/messages/{entry}"
    assert not web_system.system.client.log(uid)[3:]
    web_system.system.start_worker()
    wait_for(lambda: len(read_said(web_system, path)) == 3, "the replay")
    return str(entry)


def read_said(web_system: WebSystem, path: str) -> list[Json]:
    answer = web_system.get(path)
    return list(answer.json["said"]) if answer.status == 200 else []


def test_a_failed_message_is_listed_and_a_trimmed_trace_says_so(browser: Browser) -> None:
    with WebSystem() as web_system:
        uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, *make_commands()))
        for text in ("/write tea", "/write coffee"):
            web_system.say(uid, {"text": text}, query="?wait=60")
        entry = web_system.get(f"/v1/pipelines/{uid}/swarms/chat/messages").json["items"][0]["mid"]
        web_system.system.client.redis.xtrim(f"swarm:{{{uid}}}:chat", maxlen=3, approximate=False)

        path = f"/pipelines/{uid}/messages/{entry.partition('.')[0]}"
        with open_page(browser, web_system, path, viewport={"width": 320, "height": 800}) as page:
            expect(page.locator("main")).to_contain_text(
                "Incomplete: older messages were trimmed from the log."
            )
            expect(page.locator("main")).to_contain_text("tea")
            assert overflow(page) <= 0
            page.goto(f"{web_system.url}/pipelines/{uid}/messages/1780000000000-0")
            expect(page.locator("#unheard")).to_have_text("No results and no records")
