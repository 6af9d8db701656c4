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
from tests.support.served import Served
from tests.support.waiting import LATE_S, wait_for

HOSTILE = "<script>alert(1)</script>"
LATE = "No response in time."


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as found:
        yield found


@pytest.fixture(scope="module")
def uid(served: Served) -> str:
    return served.deploy(*make_commands(), pipeline_name="kitchen", pipeline_desc="Where tea is.")


@pytest.fixture(scope="module")
def guid(served: Served, uid: str) -> str:
    return str(write(served, uid, "The samovar is green")["guid"])


def write(served: Served, uid: str, text: str) -> dict[str, object]:
    made = served.post(f"/v1/pipelines/{uid}/records", {"content": text})
    assert made.status == 201, made
    found: dict[str, object] = made.json
    return found


def find_at_once(served: Served, text: str, **headers: str) -> Answer:
    page = served.get(f"/find?q={text}", **headers)
    assert page.status == 200, page
    return page


def find(served: Served, text: str, **headers: str) -> Answer:
    """Return the page on which all pipelines have answered, which a busy machine may delay."""

    def look() -> Answer | None:
        page = find_at_once(served, text, **headers)
        return None if LATE in text_of(page) else page

    return wait_for(look, "the pipelines answer")


def links_of(page: Answer) -> list[str]:
    main = page.body.decode().partition("<main")[2].partition("</main>")[0]
    return re.findall(r'<li data-row>\s*<a href="([^"]+)"', main)


def test_a_record_is_found_by_its_words_and_by_its_guid(
    served: Served, uid: str, guid: str
) -> None:
    by_word, by_guid = find(served, "SAMOVAR"), find(served, guid)

    (link,) = links_of(by_word)
    assert link.startswith(f"/pipelines/{uid}/memory/{guid}?store=")
    assert "Records 1 The samovar is green kitchen" in text_of(by_word)
    assert links_of(by_guid) == [link]


def test_pipelines_and_agents_are_found_by_name(served: Served, uid: str) -> None:
    page = find(served, "Kitchen")

    assert f"/pipelines/{uid}" in links_of(page) and "Where tea is." in text_of(page)
    assert f"/pipelines/{uid}#agent-dispatch_write_" in links_of(find(served, "dispatch_write"))


def test_a_named_memory_is_found_by_name_and_id(served: Served, uid: str) -> None:
    path = f"/v1/pipelines/{uid}/memories"
    made = served.post(path, {"name": "Teapots", "description": "All of them"}).json

    for text in ("teapots", made["id"]):
        page = find(served, text)
        assert f"/pipelines/{uid}/memories/{made['id']}" in links_of(page)
        assert "Named memories 1 Teapots kitchen · All of them" in text_of(page)


def test_an_entry_of_a_named_memory_is_found(served: Served, uid: str) -> None:
    memory = served.post(f"/v1/pipelines/{uid}/memories", {"name": "facts"}).json["id"]
    entry = {"memory_id": memory, "content": "Pelicans drink espresso"}
    assert served.post(f"/v1/pipelines/{uid}/entries", entry).status == 201

    page = find(served, "espresso")

    assert "Pelicans drink espresso" in text_of(page)


def test_a_message_is_found_by_its_id(served: Served, uid: str) -> None:
    sent = served.say(uid, {"text": "/write cocoa"}, query="?wait=60").json["message_id"]

    for text in (sent, f"{sent}.0"):
        assert links_of(find(served, text)) == [f"/pipelines/{uid}/messages/{sent}"]
    assert "No matches." in text_of(find(served, "1700000000000-0"))


def test_nothing_found_and_an_empty_box(served: Served, uid: str) -> None:
    assert "No matches." in text_of(find(served, "xylophone"))
    empty = served.get("/find")
    assert empty.status == 200 and "No matches." not in text_of(empty)
    assert links_of(empty) == []


def test_hostile_texts_are_shown_as_text(served: Served, uid: str) -> None:
    write(served, uid, f"zebra {HOSTILE}")

    page = find(served, "zebra%20%3Cscript%3Ealert(1)%3C/script%3E")

    assert HOSTILE not in page.body.decode() and "alert(1)" in text_of(page)
    for odd in ("%22", "(", "tags:", "*", "a" * 900):
        find(served, odd)


def test_a_key_finds_only_what_it_may_see(served: Served) -> None:
    with Served() as closed:
        mine, other = closed.deploy(pipeline_name="mine"), closed.deploy(pipeline_name="other")
        for uid in (mine, other):
            write(closed, uid, "The samovar is green")
        reader = make_key(closed.house.root, "read", pipelines=(mine,))
        searcher = make_key(closed.house.root, "read", "search", pipelines=(mine,))
        await_closed(closed)

        found = links_of(find(closed, "samovar", **searcher.headers))
        assert len(found) == 1 and found[0].startswith(f"/pipelines/{mine}/")
        assert links_of(find(closed, "samovar", **reader.headers)) == []
        assert "/pipelines/" + other not in find(closed, "other", **searcher.headers).body.decode()
        assert closed.get("/find?q=x").status == 303


def test_a_pipeline_without_a_worker_is_named() -> None:
    with Served(worker=False) as served:
        silent = served.deploy_unserved()

        page = find(served, "samovar")

        assert f'/pipelines/{silent}"' in page.body.decode() and links_of(page) == []
        assert "No worker serves this pipeline." in text_of(page)


def test_a_hanging_worker_delays_the_page_by_two_seconds() -> None:
    with Served() as served:
        uids = [served.deploy(pipeline_name=name) for name in ("tea", "cocoa")]
        for uid in uids:
            write(served, uid, "The samovar is green")
        served.house.workers[0].tell(signal.SIGSTOP)
        try:
            start = time.monotonic()
            page = find_at_once(served, "samovar")
            elapsed_s = time.monotonic() - start
        finally:
            served.house.workers[0].tell(signal.SIGCONT)

        assert elapsed_s < 4 + LATE_S and text_of(page).count(LATE) == 2
