"""The page Find: texts, names and ids in all pipelines that the caller may see."""

import re
import signal
import time
from collections.abc import Iterator

import pytest

from tests.support.bundles import make_commands
from tests.support.http import Answer
from tests.support.keys import await_closed, make_key
from tests.support.pages import text_of
from tests.support.waiting import LATE_S, wait_for
from tests.support.web_system import WebSystem

HOSTILE = "<script>alert(1)</script>"
LATE = "No response in time."


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    return web_system.deploy(
        *make_commands(), pipeline_name="kitchen", pipeline_desc="Where tea is."
    )


@pytest.fixture(scope="module")
def guid(web_system: WebSystem, uid: str) -> str:
    return str(write(web_system, uid, "The samovar is green")["guid"])


def write(web_system: WebSystem, uid: str, text: str) -> dict[str, object]:
    made = web_system.post(f"/v1/pipelines/{uid}/records", {"content": text})
    assert made.status == 201, made
    found: dict[str, object] = made.json
    return found


def find_at_once(web_system: WebSystem, text: str, **headers: str) -> Answer:
    page = web_system.get(f"/find?q={text}", **headers)
    assert page.status == 200, page
    return page


def find(web_system: WebSystem, text: str, **headers: str) -> Answer:
    """Return the page on which all pipelines have answered, which a busy machine may delay."""

    def look() -> Answer | None:
        page = find_at_once(web_system, text, **headers)
        return None if LATE in text_of(page) else page

    return wait_for(look, "the pipelines answer")


def links_of(page: Answer) -> list[str]:
    main = page.body.decode().partition("<main")[2].partition("</main>")[0]
    return re.findall(r'<li data-row>\s*<a href="([^"]+)"', main)


def test_a_record_is_found_by_its_words_and_by_its_guid(
    web_system: WebSystem, uid: str, guid: str
) -> None:
    by_word, by_guid = find(web_system, "SAMOVAR"), find(web_system, guid)

    (link,) = links_of(by_word)
    assert link.startswith(f"/pipelines/{uid}/memory/{guid}?store=")
    assert "Records 1 The samovar is green kitchen" in text_of(by_word)
    assert links_of(by_guid) == [link]


def test_pipelines_and_agents_are_found_by_name(web_system: WebSystem, uid: str) -> None:
    page = find(web_system, "Kitchen")

    assert f"/pipelines/{uid}" in links_of(page) and "Where tea is." in text_of(page)
    assert f"/pipelines/{uid}#agent-dispatch_write_" in links_of(find(web_system, "dispatch_write"))


def test_a_named_memory_is_found_by_name_and_id(web_system: WebSystem, uid: str) -> None:
    path = f"/v1/pipelines/{uid}/memories"
    made = web_system.post(path, {"name": "Teapots", "description": "All of them"}).json

    for text in ("teapots", made["id"]):
        page = find(web_system, text)
        assert f"/pipelines/{uid}/memories/{made['id']}" in links_of(page)
        assert "Named memories 1 Teapots kitchen · All of them" in text_of(page)


def test_an_entry_of_a_named_memory_is_found(web_system: WebSystem, uid: str) -> None:
    memory = web_system.post(f"/v1/pipelines/{uid}/memories", {"name": "facts"}).json["id"]
    entry = {"memory_id": memory, "content": "Pelicans drink espresso"}
    assert web_system.post(f"/v1/pipelines/{uid}/entries", entry).status == 201

    page = find(web_system, "espresso")

    assert "Pelicans drink espresso" in text_of(page)


def test_a_message_is_found_by_its_id(web_system: WebSystem, uid: str) -> None:
    sent = web_system.say(uid, {"text": "/write cocoa"}, query="?wait=60").json["message_id"]

    for text in (sent, f"{sent}.0"):
        assert links_of(find(web_system, text)) == [f"/pipelines/{uid}/messages/{sent}"]
    assert "No matches." in text_of(find(web_system, "1700000000000-0"))


def test_nothing_found_and_an_empty_box(web_system: WebSystem, uid: str) -> None:
    assert "No matches." in text_of(find(web_system, "xylophone"))
    empty = web_system.get("/find")
    assert empty.status == 200 and "No matches." not in text_of(empty)
    assert links_of(empty) == []


def test_hostile_texts_are_shown_as_text(web_system: WebSystem, uid: str) -> None:
    write(web_system, uid, f"zebra {HOSTILE}")

    page = find(web_system, "zebra%20%3Cscript%3Ealert(1)%3C/script%3E")

    assert HOSTILE not in page.body.decode() and "alert(1)" in text_of(page)
    for odd in ("%22", "(", "tags:", "*", "a" * 900):
        find(web_system, odd)


def test_a_key_finds_only_what_it_may_see(web_system: WebSystem) -> None:
    with WebSystem() as closed:
        mine, other = closed.deploy(pipeline_name="mine"), closed.deploy(pipeline_name="other")
        for uid in (mine, other):
            write(closed, uid, "The samovar is green")
        reader = make_key(closed.system.root, "read", pipelines=(mine,))
        searcher = make_key(closed.system.root, "read", "search", pipelines=(mine,))
        await_closed(closed)

        found = links_of(find(closed, "samovar", **searcher.headers))
        assert len(found) == 1 and found[0].startswith(f"/pipelines/{mine}/")
        assert links_of(find(closed, "samovar", **reader.headers)) == []
        assert "/pipelines/" + other not in find(closed, "other", **searcher.headers).body.decode()
        assert closed.get("/find?q=x").status == 303


def test_a_pipeline_without_a_worker_is_named() -> None:
    with WebSystem(worker=False) as web_system:
        silent = web_system.deploy_unserved()

        page = find(web_system, "samovar")

        assert f'/pipelines/{silent}"' in page.body.decode() and links_of(page) == []
        assert "No worker serves this pipeline." in text_of(page)


def test_a_hanging_worker_delays_the_page_by_two_seconds() -> None:
    with WebSystem() as web_system:
        uids = [web_system.deploy(pipeline_name=name) for name in ("tea", "cocoa")]
        for uid in uids:
            write(web_system, uid, "The samovar is green")
        web_system.system.workers[0].send_signal(signal.SIGSTOP)
        try:
            start = time.monotonic()
            page = find_at_once(web_system, "samovar")
            elapsed_s = time.monotonic() - start
        finally:
            web_system.system.workers[0].send_signal(signal.SIGCONT)

        assert elapsed_s < 4 + LATE_S and text_of(page).count(LATE) == 2
