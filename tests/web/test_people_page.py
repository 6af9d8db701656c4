"""The page People: users, agents, threads and views, everything about one of them, and rights."""

import html
import json
import re
from collections.abc import Iterator

import pytest

from tests.support.bundles import make_bundle, make_commands, make_memory, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle, text_of
from tests.support.web_system import WebSystem

VIEWS = [
    {"name": "facts", "per": "owner", "show": {"latest": "key"}},
    {"name": "how many", "per": "owner", "show": "count"},
    {"name": "all", "show": "count"},
]


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    uid = make_uid()
    store = {"memory_id": f"instances/{uid}/memories", "views": VIEWS}
    deploy_bundle(web_system.url, make_bundle(uid, *make_commands(), stores=[store]))
    for content, owner in (("Rome", "Ada <b>"), ("Paris", "Ada <b>"), ("Oslo", "Ben")):
        record = {"content": content, "owner": owner, "key": "city"}
        assert web_system.post(f"/v1/pipelines/{uid}/records", record).status == 201
    fill(web_system, uid)
    return uid


def fill(web_system: WebSystem, uid: str) -> None:
    """Identify a user with a record, a fact and a turn."""
    user = {"channel": "telegram", "channel_id": "7", "display_name": "Cleo"}
    fact = {"value": "green", "scope": "user", "user_id": "telegram:7"}
    turn = {"content": "hello from Cleo", "name": "Cleo"}
    for method, path, body in (
        ("POST", "users/identify", user),
        ("PATCH", "users/telegram:7", {"email": "cleo@example.com"}),
        ("POST", "records", {"content": "likes rain", "owner": "telegram:7", "kind": "note"}),
        ("POST", "facts/color/set", fact),
        ("POST", "turns/add", {"messages": [turn], "thread": "t/1", "user": "telegram:7"}),
    ):
        answer = ask(web_system.url, method, f"/v1/pipelines/{uid}/{path}", body)
        assert answer.status in (200, 201), (path, answer)


def deploy_plain(web_system: WebSystem) -> str:
    uid = make_uid()
    deploy_bundle(web_system.url, make_bundle(uid, *make_commands()))
    return uid


def show(web_system: WebSystem, uid: str, query: str = "", **headers: str) -> Answer:
    """Return the page, once the operations have answered on a busy machine."""
    for _ in range(10):
        answer = ask(web_system.url, "GET", f"/pipelines/{uid}/people{query}", None, headers)
        if b"No response in time" not in answer.body:
            break
    return answer


def test_the_page_lists_people_agents_threads_and_views(web_system: WebSystem, uid: str) -> None:
    answer = show(web_system, uid)
    text = text_of(answer)

    assert answer.status == 200 and b"Ada <b>" not in answer.body
    assert b"sort=user&amp;of=Ada+%3Cb%3E" in answer.body
    assert "Ben" in text and "t/1 1" in text and "memory_write" in text
    assert "facts view per owner" in text
    some = text_of(show(web_system, uid, "?beginning=Be"))
    assert "Ben 1" in some and "Ada" not in some
    by_title = text_of(show(web_system, uid, "?beginning=cl"))
    assert "Cleo telegram:7" in by_title and "Ben" not in by_title


def test_names_have_pages(web_system: WebSystem) -> None:
    uid = deploy_plain(web_system)
    records = [{"content": "x", "owner": f"user {number:03}"} for number in range(60)]
    for record in records:
        web_system.post(f"/v1/pipelines/{uid}/records", record)

    assert "All people" in text_of(show(web_system, uid))
    first = show(web_system, uid, "?sort=user")
    assert "user 049" in text_of(first) and "user 050" not in text_of(first)
    rest = text_of(show(web_system, uid, "?sort=user&after=user+049"))
    assert "user 059" in rest and "user 049" not in rest and "Next page" not in rest


def test_everything_about_a_person_is_on_one_timeline(web_system: WebSystem, uid: str) -> None:
    text = text_of(show(web_system, uid, "?of=telegram:7"))

    assert "Cleo" in text and "telegram:7" in text and "cleo@example.com" in text
    assert "All 4" in text and "fact 1" in text and "turn 1" in text and "user 1" in text
    order = [text.index(part) for part in ("hello from Cleo", "color: green", "likes rain")]
    assert order == sorted(order)
    facts = text_of(show(web_system, uid, "?of=telegram:7&kind=memory.fact"))
    assert "color: green" in facts and "likes rain" not in facts
    assert "No records of" in text_of(show(web_system, uid, "?of=nobody"))


def test_a_person_has_what_each_view_shows(web_system: WebSystem, uid: str) -> None:
    answer = show(web_system, uid, "?of=Ada+%3Cb%3E")
    text = text_of(answer)

    assert "Rome" in text and "how many 2 records" in text and "Oslo" not in text
    assert b"<b>" not in answer.body


def test_agents_and_threads_have_a_timeline(web_system: WebSystem, uid: str) -> None:
    said = web_system.say(uid, {"text": "/write the moon"}, query="?wait=10")
    assert said.status == 200

    agent = show(web_system, uid, "?sort=agent&of=memory_write")
    assert "the moon" in text_of(agent) and b"/messages/" in agent.body
    assert "hello from Cleo" in text_of(show(web_system, uid, "?sort=thread&of=t%2F1"))
    assert show(web_system, uid, "?sort=robot").status == 400


def test_a_timeline_has_pages_over_all_stores(web_system: WebSystem) -> None:
    uid = make_uid()
    second = make_memory("write", memory_id=f"instances/{uid}/second", alias="second_")
    deploy_bundle(web_system.url, make_bundle(uid, *make_commands(), second))
    stores = (f"instances/{uid}/memories", f"instances/{uid}/second")
    for number in range(70):
        record = {"content": f"note {number:02}!", "owner": "Ada"}
        query = f"?store={stores[number % 2]}"
        assert web_system.post(f"/v1/pipelines/{uid}/records{query}", record).status == 201

    found, query = list[str](), "?of=Ada"
    while query:
        answer = show(web_system, uid, query)
        found += re.findall(r"note (\d\d)!", text_of(answer))
        link = re.search(r'href="[^"?]*([^"]*)" rel="next"', answer.body.decode())
        query = html.unescape(link.group(1)) if link else ""
    assert found == [f"{number:02}" for number in reversed(range(70))]


def test_an_export_has_a_line_for_each_record(web_system: WebSystem, uid: str) -> None:
    answer = ask(web_system.url, "GET", f"/pipelines/{uid}/people/export?of=telegram:7")
    lines = [json.loads(line) for line in answer.body.splitlines()]

    assert [one["kind"] for one in lines] == ["turn", "memory.fact", "note", "memory.user"]
    assert {one["store"] for one in lines} == {f"instances/{uid}/memories"}
    assert ask(web_system.url, "GET", f"/pipelines/{uid}/people/export").status == 422


def test_a_merged_user_leads_to_the_one_that_remains(web_system: WebSystem, uid: str) -> None:
    for channel_id in ("8", "9"):
        body = {"channel": "slack", "channel_id": channel_id, "display_name": f"Dan {channel_id}"}
        web_system.post(f"/v1/pipelines/{uid}/users/identify", body)
    path = f"/v1/pipelines/{uid}/users/slack:8/merge"
    assert web_system.post(path, {"into": "slack:9"}).status == 200

    text = text_of(show(web_system, uid, "?of=slack:8"))
    assert "was merged into Dan 9" in text and "Merge with another user" not in text
    assert "slack:8" not in text_of(show(web_system, uid, "?beginning=slack:"))


def test_an_absent_worker_is_named_with_its_store() -> None:
    with WebSystem(worker=False) as web_system:
        uid = web_system.deploy_unserved(*make_commands())
        for query in ("", "?of=Ada"):
            answer = show(web_system, uid, query)
            assert answer.status == 200
            assert "memories: No worker serves this pipeline." in text_of(answer)


def test_the_page_needs_read(web_system: WebSystem, uid: str) -> None:
    reader = make_key(web_system.system.root, "read")
    writer = make_key(web_system.system.root, "write")
    await_closed(web_system)

    headers = {"Authorization": f"Bearer {writer.text}"}
    assert show(web_system, uid, "", **headers).status == 403
    headers = {"Authorization": f"Bearer {reader.text}"}
    assert show(web_system, uid, "", **headers).status == 200
