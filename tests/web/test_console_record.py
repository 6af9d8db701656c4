"""The page of one record as served: text, fields, history, neighbors, deletion, and erasure."""

import html
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from memrelay.web.console.format import clip_bytes
from tests.support.bundles import Json, make_bundle, make_commands, make_memory, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle, lines_to_try, text_of
from tests.support.pipelit import Pipelit
from tests.support.soat import Soat
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.web.records import Records

HOSTILE = '"><script>alert(1)</script>'
MISSING = "Record not found. It may have expired or been erased."
FULL: Json = {
    "content": "The meeting is at 3pm",
    "kind": "note",
    "scope": "office & co",
    "source": "ben",
    "tags": ["a&b", "team"],
    "owner": "ada",
    "key": "k1",
    "thread": "t1",
    "data": {"price": 3},
    "expires_at": "2090-01-01",
    "in_context": True,
}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found
        assert not [event for event in found.web.events if event["event"] == "request_failed"]


@pytest.fixture
def records(web_system: WebSystem) -> Records:
    return Records(
        web_system, deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))
    )


def create(records: Records, given: Json) -> str:
    answer = records("POST", "", given)
    assert answer.status == 201, answer
    return str(answer.json["guid"])


def show(records: Records, guid: str, part: str = "", **query: Any) -> Answer:
    return records.web_system.get(
        f"/pipelines/{records.uid}/memory/{guid}{part}?{urlencode(query)}"
    )


def links(page: Answer) -> list[str]:
    """Return the addresses in the fields of a record."""
    fields = re.findall(r'<dl class="details">(.*?)</dl>', page.body.decode(), re.DOTALL)[0]
    return [html.unescape(link) for link in re.findall(r'<a [^>]*href="([^"]+)"', fields)]


def marks(page: Answer, name: str) -> list[str]:
    """Return the texts of the elements ins or del."""
    found = re.findall(rf"<{name}>(.*?)</{name}>", page.body.decode(), re.DOTALL)
    return [re.sub(r"<[^>]*>", "", one) for one in found]


def test_a_record_is_shown_with_its_fields(records: Records) -> None:
    guid = create(records, FULL)

    page = show(records, guid)

    text = text_of(page)
    assert page.status == 200 and "The meeting is at 3pm" in text
    for shown in (
        "kind note scope office & co source ben tags a&b team owner ada key k1 thread t1 seq 0",
        "expires 2090-01-01T00:00:00",
        "in context always",
        '"price": 3',
        "No earlier versions.",
        guid,
    ):
        assert shown in text


def test_each_field_leads_to_a_list_that_has_the_record(records: Records) -> None:
    guid = create(records, FULL)
    create(records, {"content": "another"})

    found = links(show(records, guid))

    assert len(found) == 8
    for link in found:
        assert "1 record" in text_of(records.web_system.get(link))


def test_stored_text_is_escaped(records: Records) -> None:
    given = dict.fromkeys(("content", "kind", "scope", "source", "owner", "key"), HOSTILE)
    guid = create(records, given | {"tags": [HOSTILE], "data": {HOSTILE: HOSTILE}})
    records("PATCH", f"/{guid}", {"content": f"{HOSTILE} {HOSTILE}", "reason": HOSTILE})
    records("POST", "", {"content": HOSTILE})

    pages = [show(records, guid)]
    records("DELETE", f"/{guid}", b"")
    pages.append(show(records, guid))

    for page in pages:
        assert page.status == 200 and b"<script>" not in page.body


def test_the_store_is_found_if_the_address_names_none(web_system: WebSystem) -> None:
    notes = "instances/${pipeline_uid}/notes"
    uid = deploy_bundle(
        web_system.url,
        make_bundle(make_uid(), make_memory("write"), make_memory("read", memory_id=notes)),
    )
    records = Records(web_system, uid)
    guid = records("POST", "?store=notes", {"content": "in notes"}).json["guid"]

    page = show(records, guid)

    assert page.status == 200 and f"store=instances%2F{uid}%2Fnotes" in page.body.decode()
    assert show(records, guid, store=f"instances/{uid}/memories").status == 404


def test_the_history_has_actors_reasons_and_changed_words(records: Records) -> None:
    guid = create(records, FULL)
    records("PATCH", f"/{guid}", {"content": "The meeting is at 4pm", "reason": "Ada is late"})
    records("PATCH", f"/{guid}", {"kind": "fact"})

    latest = show(records, guid)
    first = show(records, guid, **{"from": 1, "to": 2})
    both = show(records, guid, **{"from": 3, "to": 1})

    text = text_of(latest)
    assert "3 edited current http" in text and "2 edited http" in text and "1 created" in text
    assert "Ada is late" in text and "The text is the same in both versions." in text
    assert (marks(latest, "del"), marks(latest, "ins")) == (["[deleted: note]"], ["[added: fact]"])
    assert (marks(first, "del"), marks(first, "ins")) == (["[deleted: 3pm]"], ["[added: 4pm]"])
    assert marks(both, "ins") == ["[added: note]", "[added: 3pm]"]


def test_versions_that_are_not_kept_and_nonsense_are_explained(records: Records) -> None:
    guid = create(records, FULL)
    records("PATCH", f"/{guid}", {"kind": "fact"})

    assert "Version 7 is not kept" in text_of(show(records, guid, **{"from": 7, "to": 1}))
    assert marks(show(records, guid, **{"from": "x", "to": "9" * 30}), "ins") == ["[added: fact]"]


def test_a_long_history_has_pages(records: Records) -> None:
    guid = create(records, FULL)
    for number in range(34):
        records("PATCH", f"/{guid}", {"content": f"text {number}"})

    first = show(records, guid)
    (link,) = re.findall(r'href="([^"]+)" rel="next"', first.body.decode())
    second = records.web_system.get(html.unescape(link))

    def numbers(page: Answer) -> list[int]:
        rows = re.findall(r'<th scope="row" class="n">(\d+)</th>', page.body.decode())
        return [int(row) for row in rows]

    assert numbers(first) + numbers(second) == list(range(35, 0, -1))
    assert "The meeting is at 3pm" in text_of(show(records, guid, **{"from": 1, "to": 35}))


def test_a_deleted_record_shows_who_deleted_it_and_until_when_it_can_be_restored(
    records: Records,
) -> None:
    guid = create(records, {"content": "green tea"})
    records("DELETE", f"/{guid}?reason=mistaken")

    page = show(records, guid)

    text = text_of(page)
    found = re.search(r"Deleted by http , (\S+) : mistaken It can be restored until (\S+) \.", text)
    assert found is not None, text
    deleted_at, until = (datetime.fromisoformat(one) for one in found.groups())
    assert until - deleted_at == timedelta(days=90)
    assert "Undo" in text and "green tea" in text and "2 deleted http" in text


def test_a_deletion_can_be_undone_only_until_the_record_expires(records: Records) -> None:
    soon = datetime.now().astimezone() + timedelta(hours=1)
    guid = create(records, {"content": "tea", "expires_at": soon.isoformat()})
    records("DELETE", f"/{guid}")

    found = re.search(r"restored until (\S+)", text_of(show(records, guid)))

    assert found is not None
    assert abs(datetime.fromisoformat(found[1]) - soon) < timedelta(seconds=1)


def test_two_turns_before_and_after_are_shown_by_their_position(records: Records) -> None:
    guids = [
        create(records, {"content": f"turn {seq}", "thread": "t", "seq": seq})
        for seq in (5, 1, 2, 9, 3, 8, 4)
    ]

    page = show(records, guids[4])

    turns = re.findall(r'class="seq">#(\d+)<', page.body.decode())
    assert turns == ["1", "2", "3", "4", "5"]
    assert 'class="turns"' not in show(records, create(records, {"content": "x"})).body.decode()


def test_the_nearest_records_are_without_the_record_itself(records: Records) -> None:
    guid = create(records, {"content": 'tea -milk kind:note "quoted'})
    others = [create(records, {"content": f"tea with {name}"}) for name in ("milk", "sugar")]
    create(records, {"content": "unrelated"})

    page = show(records, guid).body.decode()

    nearest = re.findall(r'<ol class="nearest">(.*?)</ol>', page, re.DOTALL)[0]
    assert all(other in nearest for other in others) and guid not in nearest
    assert "unrelated" not in nearest and "The store has no vectors." in page


def test_a_record_with_a_vector_is_compared_by_meaning(soat: Soat) -> None:
    search = make_memory("search", mode="hybrid")
    records = Records(
        soat.web_system, deploy_bundle(soat.web_system.url, make_bundle(make_uid(), search))
    )
    guid = create(records, {"content": "The cat sleeps on the sofa"})
    create(records, {"content": "A kitten naps on a couch"})

    def has_vector() -> bool:
        return "Has a vector." in text_of(show(records, guid))

    wait_for(has_vector, "the vector is shown")
    assert "A kitten naps on a couch" in text_of(show(records, guid))


def test_unknown_records_and_pipelines_are_not_found(records: Records) -> None:
    page = show(records, "01a216bb-d07c-7000-8001-5cc553e213ab")

    assert page.status == 404 and MISSING in text_of(page)
    assert records.web_system.get("/pipelines/nothing/memory/x").status == 404
    assert MISSING in text_of(show(records, "nothing", "/text"))


def test_a_record_written_by_an_agent_links_to_the_trace_of_its_message(records: Records) -> None:
    sent = records.web_system.say(records.uid, {"text": "/write tea"}, query="?wait=60").json
    guid = records("GET").json["items"][0]["guid"]
    other = create(records, {"content": "over the API"})

    trace = f"/pipelines/{records.uid}/messages/{sent['message_id']}"
    assert trace in links(show(records, guid))
    assert records.web_system.get(trace).status == 200
    assert not [link for link in links(show(records, other)) if "/messages/" in link]


def test_the_memory_of_an_agent_links_to_its_page_and_is_not_edited_here(
    web_system: WebSystem,
) -> None:
    pipelit = Pipelit(web_system, web_system.deploy())
    fact = pipelit.set_fact("color", "blue")

    page = web_system.get(f"/pipelines/{pipelit.uid}/memory/{fact}")

    assert page.status == 200 and f"/memories/{pipelit.uid}/{fact}" in page.body.decode()
    assert b"data-edit" not in page.body


@pytest.mark.parametrize("part", ["/text", "/history"])
def test_a_part_is_sent_again_only_after_a_change(records: Records, part: str) -> None:
    guid = create(records, FULL)
    path = f"/pipelines/{records.uid}/memory/{guid}{part}?store=memories"
    tag = records.web_system.get(path).headers["etag"]

    def again() -> Answer:
        return records.web_system.get(path, If_None_Match=tag)

    assert (again().status, again().body) == (304, b"")
    records("PATCH", f"/{guid}", {"content": "The meeting is at 4pm"})
    changed = wait_for(lambda: again() if again().status == 200 else None, "the change is seen")
    assert "4pm" in text_of(changed)


def test_a_large_record_is_clipped_and_cannot_be_edited_in_place(records: Records) -> None:
    words = " ".join(f"word{number % 5000}&" for number in range(90_000))[:1_000_000]
    guid = create(records, {"content": words, "data": {"list": [3] * 20_000}})
    records("PATCH", f"/{guid}", {"content": f"{words[:-4]} end"})

    page, fastest_s = show(records, guid), 99.0
    for _ in range(5):
        started = time.perf_counter()
        show(records, guid)
        fastest_s = min(fastest_s, time.perf_counter() - started)

    text = text_of(page)
    assert len(page.body) < 300_000 and fastest_s < 3
    assert (
        f"of {len(words) - 4 + len(' end'):,} characters." in text
        and "too long to be edited here" in text
    )
    assert "too long to be compared" in text and b"data-edit" not in page.body


@pytest.mark.parametrize("text", ["", "tea", "&" * 100, "ü" * 100, "a" * 1000])
def test_a_text_is_clipped_by_its_bytes_in_html(text: str) -> None:
    shown, hidden = clip_bytes(text, 100)

    assert len(html.escape(shown).encode()) <= 100
    assert text.startswith(shown) and len(shown) + hidden == len(text)
    assert bool(hidden) is (len(html.escape(text).encode()) > 100)


def test_the_commands_read_the_record(records: Records) -> None:
    guid = create(records, FULL)

    curl, get, history, program = lines_to_try(show(records, guid))

    url = shlex.split(curl)[1].removeprefix(records.web_system.url)
    assert records.web_system.get(url).json["guid"] == guid
    assert shlex.split(get)[1:5] == ["records", "get", records.uid, guid] and "history" in history
    shown = subprocess.run(
        [sys.executable, "-c", f"{program}\nprint(record.content)"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert shown.stdout.strip() == FULL["content"]


def test_an_erased_record_shows_the_end_of_its_erasure(records: Records) -> None:
    guid = create(records, FULL)
    records("PATCH", f"/{guid}", {"content": "The meeting is at 4pm"})
    number = records("POST", "/erase", {"guids": [guid], "reason": "asked"}).json["number"]
    store = f"instances/{records.uid}/memories"

    def erasure() -> str:
        return text_of(show(records, guid, store=store, erasure=number))

    wait_for(lambda: "Complete since" in erasure(), "the erasure is complete")
    assert "Records 1 Earlier versions 1" in erasure() and "reason asked" in erasure()
    part = show(records, guid, "/erasure", store=store, erasure=number)
    path = f"/pipelines/{records.uid}/memory/{guid}/erasure"
    query = urlencode({"store": store, "erasure": number})
    again = records.web_system.get(f"{path}?{query}", If_None_Match=part.headers["etag"])
    assert (part.status, again.status) == (200, 304)
    assert show(records, guid).status == 404
    assert show(records, guid, store=store, erasure=number + 1).status == 404


def test_a_pipeline_without_a_worker_is_reported() -> None:
    with WebSystem(worker=False) as idle:
        uid = idle.deploy_unserved(*make_commands())
        page = idle.get(f"/pipelines/{uid}/memory/x")

    assert page.status == 200 and "No worker" in text_of(page)


def test_a_key_has_only_the_controls_that_it_may_use() -> None:
    with WebSystem() as web_system:
        uid = web_system.deploy()
        records = Records(web_system, uid)
        guid = create(records, FULL)
        records("PATCH", f"/{guid}", {"content": "The meeting is at 4pm"})
        reader = make_key(web_system.system.root, "read")
        writer = make_key(web_system.system.root, "read", "write")
        other = make_key(web_system.system.root, "read", pipelines=("other",))
        every = make_key(web_system.system.root)
        await_closed(web_system)

        def get(key: Any, part: str = "") -> Answer:
            path = f"/pipelines/{uid}/memory/{guid}{part}"
            return ask(web_system.url, "GET", path, b"", key.headers)

        shown = text_of(get(reader))
        assert "3pm" in shown and "Nearest" not in shown
        assert b"data-call" not in get(reader).body and b"data-edit" not in get(reader).body
        assert b"data-edit" in get(writer).body and b"Restore this version" in get(writer).body
        assert b"DELETE /v1" not in get(writer).body and b"records/erase" not in get(writer).body
        assert b"records/erase" in get(every).body and b"DELETE /v1" in get(every).body
        assert get(other).status == 404 and get(writer, "/erasure?erasure=1").status == 403
        login = web_system.get(f"/pipelines/{uid}/memory/{guid}")
        assert login.headers["location"] == f"/login?next=/pipelines/{uid}/memory/{guid}"
