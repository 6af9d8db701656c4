"""The pages Message trace and Dead letters as served, and the failed messages in a log."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.support.bundles import make_agent, make_bundle, make_commands, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
MAX_PAGE_BYTES = 300_000
MISSPELT = "chta"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def send(web_system: WebSystem, uid: str, text: str) -> str:
    answer = web_system.say(uid, {"text": text}, query="?wait=60")
    assert answer.status == 200, answer
    return str(answer.json["message_id"])


def trace_page(web_system: WebSystem, uid: str, entry: str) -> Answer:
    answer = web_system.get(f"/pipelines/{uid}/messages/{entry}")
    assert answer.status == 200, answer
    return answer


def fail(web_system: WebSystem, uid: str, *texts: str, swarm: str = MISSPELT) -> list[str]:
    """Send messages that fail, and return the ids of their dead letters."""
    idents = [web_system.system.client.enter(uid, text, swarm=swarm) for text in texts]
    for ident in idents:
        web_system.system.await_dead_letter(uid, ident)
    return idents


def letters_page(web_system: WebSystem, query: str = "") -> Answer:
    answer = web_system.get(f"/dead-letters{query}")
    assert answer.status == 200, answer
    return answer


def test_the_trace_names_agents_blocks_hops_and_records_without_scripts(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()
    page = trace_page(web_system, uid, send(web_system, uid, "/write tea"))
    (record,) = web_system.get(f"/v1/pipelines/{uid}/records").json["items"]

    text = text_of(page)

    assert re.search(r"All steps took [\d.]+ m?s from the arrival", text)
    assert re.search(r"User on chat first message · published after \S+ m?s /write tea", text)
    assert re.search(
        r"dispatch_write regex_match on chat hop 1 · .*published after \S+ m?s tea", text
    )
    assert "memory_write memory_write on chat hop 2" in text
    store = quote(f"instances/{uid}/memories", safe="")
    link = f"/pipelines/{uid}/memory/{record['guid']}?store={store}"
    assert page.body.decode().count(f'<a href="{link}">') == 2
    assert "Deliveries" not in text


def test_the_trace_shows_hostile_texts_as_text(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    page = trace_page(web_system, uid, send(web_system, uid, f"/write {HOSTILE}"))

    assert b"<script>alert" not in page.body and b"<img src=x" not in page.body
    assert HOSTILE in text_of(page)


def test_a_trace_of_many_long_messages_stays_small(web_system: WebSystem) -> None:
    senders = [make_agent(f"a{n}", "regex_match", {"pattern": "(é+)"}, senders="User", to="out")
             for n in range(200)]  # fmt: skip
    uid = web_system.deploy(*senders)

    page = trace_page(web_system, uid, send(web_system, uid, "é" * 4_000))

    assert "All 4,000 characters" in text_of(page) and "3,700 more characters as JSON" in text_of(
        page
    )
    assert len(page.body) < MAX_PAGE_BYTES
    assert "The first 150 of 201 messages." in text_of(page)


def test_an_idle_trace_is_answered_with_304_and_a_new_record_changes_it(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()
    path = f"/pipelines/{uid}/messages/{send(web_system, uid, '/write tea')}/tree"
    first = web_system.get(path)

    idle = web_system.get(path, If_None_Match=first.headers["etag"])
    send(web_system, uid, "/write coffee")
    later = web_system.get(path, If_None_Match=first.headers["etag"], Cache_Control="no-cache")

    assert (first.status, idle.status, later.status) == (200, 304, 200)


def test_a_replay_that_fails_again_changes_an_open_trace(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_agent("plus", "add_1"))
    entry = send(web_system, uid, "1")
    path = f"/pipelines/{uid}/messages/{entry}/tree"
    wait_for(lambda: is_unchanged(web_system, path), "it is idle")
    tag = web_system.get(path).headers["etag"]

    assert web_system.post(f"/v1/dead-letters/{uid}/{entry}/replay?wait=60").status == 200
    later = web_system.get(path, If_None_Match=tag)

    assert later.status == 200 and "2 attempts" in text_of(later)


def test_the_trace_keeps_its_messages_while_no_worker_answers() -> None:
    with WebSystem() as web_system:
        uid = web_system.deploy()
        entry = send(web_system, uid, "/write tea")
        assert web_system.system.workers[-1].stop() == 0

        text = text_of(trace_page(web_system, uid, entry))

    assert "No worker serves this pipeline. Records are missing." in text
    assert "dispatch_write" in text


def test_a_message_that_waits_is_reported() -> None:
    with WebSystem(worker=False) as web_system:
        uid = web_system.deploy_unserved()
        entry = web_system.system.client.enter(uid, "/write tea")

        assert "The message has not run yet." in text_of(trace_page(web_system, uid, entry))


def test_a_dead_letter_that_is_gone_is_reported_by_the_open_page(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    (ident,) = fail(web_system, uid, "tea")
    path = f"/dead-letters/{uid}/{ident}/letter"
    wait_for(lambda: is_unchanged(web_system, path), "the names of all pipelines are known")

    tag = web_system.get(path).headers["etag"]
    assert ask(web_system.url, "DELETE", f"/v1/dead-letters/{uid}/{ident}").status == 204
    gone = web_system.get(path, If_None_Match=tag)

    assert gone.status == 200
    assert text_of(gone) == "This dead letter is gone. It was replayed or dropped. All dead letters"


def test_open_lists_of_dead_letters_report_that_the_bus_is_gone() -> None:
    with WebSystem() as web_system:
        uid = web_system.deploy()
        (ident,) = fail(web_system, uid, "tea")
        web_system.system.server.stop(grace_s=5)

        paths = ("/fragments/dead-letters", f"/dead-letters/{uid}/{ident}/letter")
        wait_for(lambda: {web_system.get(path).status for path in paths} == {503}, "the report")
        assert "1 dead letter." in text_of(letters_page(web_system))


def test_an_invalid_message_is_a_page_with_the_reason(web_system: WebSystem) -> None:
    answer = web_system.get(f"/pipelines/{web_system.deploy()}/messages/order-1")

    assert answer.status == 400
    assert "is not the id of a message" in text_of(answer)


def test_the_log_lists_failed_messages_with_reason_and_links(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_agent("plus", "add_1"))
    idents = [send(web_system, uid, text) for text in ("1", "2", HOSTILE)]

    for answer in (
        web_system.get(f"/pipelines/{uid}"),
        web_system.get(f"/pipelines/{uid}/log?swarm=chat"),
    ):
        page = answer.body.decode()
        assert text_of(answer).count("Failed") == 3
        assert "TooManyHops" in page and "No messages on" not in page
        assert "<script>alert" not in page
        for ident in idents:
            assert f'href="/dead-letters/{uid}/{ident}"' in page
            assert f'href="/pipelines/{uid}/messages/{ident}"' in page


def test_failed_messages_are_listed_among_the_others_by_time(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    send(web_system, uid, "first")
    ident = web_system.system.client.enter(uid, "second", swarm="chat", hop="99")
    web_system.system.client.await_done(uid, ident)
    send(web_system, uid, "third")

    text = text_of(web_system.get(f"/pipelines/{uid}/log?swarm=chat"))

    assert text.index("third") < text.index("Failed") < text.index("first")


def test_the_numbers_of_dead_letters_link_to_them(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    link = re.compile(f'<a[^>]* href="/dead-letters\\?pipeline={uid}">'.encode())

    assert link.search(web_system.get(f"/pipelines/{uid}").body)
    assert link.search(web_system.get("/pipelines").body)


def test_dead_letters_are_grouped_filtered_and_listed(web_system: WebSystem) -> None:
    uid, other = web_system.deploy(), web_system.deploy()
    idents = fail(web_system, uid, "tea", HOSTILE, "milk")
    fail(web_system, other, "tea")

    groups = letters_page(web_system, f"?pipeline={uid}")
    reason = web_system.get(f"/v1/dead-letters/{uid}/{idents[0]}").json["error"]
    group = letters_page(web_system, f"?pipeline={uid}&reason={quote(reason)}")

    assert "3 dead letters." in text_of(groups)
    assert "it has chat 3 test 1 just now" in text_of(groups)
    assert other not in groups.body.decode().partition("</form>")[2]
    assert [text_of(group).count(text) for text in ("tea", HOSTILE, "milk")] == [1, 1, 1]
    assert b"<script>alert" not in group.body + groups.body
    assert f'href="/dead-letters/{uid}/{idents[0]}"'.encode() in group.body
    everything = text_of(letters_page(web_system))
    assert f"{web_system.get('/v1/dead-letters').json['total']} dead letters." in everything


def test_a_dead_letter_is_shown_with_its_message_and_links_to_its_trace(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()
    (ident,) = fail(web_system, uid, HOSTILE)

    page = web_system.get(f"/dead-letters/{uid}/{ident}")
    trace = trace_page(web_system, uid, ident)

    assert HOSTILE in text_of(page) and b"<script>alert" not in page.body
    assert f'href="/pipelines/{uid}/messages/{ident}"'.encode() in page.body
    assert f'href="/dead-letters/{uid}/{ident}"'.encode() in trace.body
    assert HOSTILE in text_of(trace) and b"<script>alert" not in trace.body
    missing = web_system.get(f"/dead-letters/{uid}/1-0")
    assert missing.status == 404 and "may have been replayed or dropped" in text_of(missing)


def test_many_letters_and_groups_have_pages(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    fail(web_system, uid, *[f"{number} {'x' * 5000}" for number in range(51)])
    reason = web_system.get(f"/v1/dead-letters?pipeline={uid}").json["items"][0]["error"]
    query = f"?pipeline={uid}&reason={quote(reason)}"

    first = letters_page(web_system, query)
    cursor = first.body.decode().partition("cursor=")[2].partition('"')[0]
    second = letters_page(web_system, f"{query}&cursor={cursor}")

    assert first.body.count(b"<tr data-row>") == 50 and second.body.count(b"<tr data-row>") == 1
    assert "50 xxx" in text_of(second) and "Next page" not in text_of(second)
    assert len(first.body) < MAX_PAGE_BYTES
    assert web_system.get(f"/dead-letters{query}&cursor=-1").status == 400

    for number in range(51):
        web_system.system.client.enter(uid, "x", swarm=f"swarm{number}")
    wait_for(
        lambda: web_system.get(f"/v1/dead-letters?pipeline={uid}").json["total"] == 102,
        "all failed",
    )
    groups = letters_page(web_system, f"?pipeline={uid}")
    cursor = groups.body.decode().partition("cursor=")[2].partition('"')[0]
    rest = letters_page(web_system, f"?pipeline={uid}&cursor={cursor}")
    assert groups.body.count(b"<tr data-row>") == 50 and rest.body.count(b"<tr data-row>") == 2


def test_the_list_of_dead_letters_is_answered_with_304_until_one_changes(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()
    (ident,) = fail(web_system, uid, "tea")
    path = f"/fragments/dead-letters?pipeline={uid}"
    wait_for(lambda: is_unchanged(web_system, path), "the same minute")

    tag = web_system.get(path).headers["etag"]
    assert ask(web_system.url, "DELETE", f"/v1/dead-letters/{uid}/{ident}").status == 204
    changed = web_system.get(path, If_None_Match=tag)

    assert changed.status == 200 and "No dead letters." in text_of(changed)


def is_unchanged(web_system: WebSystem, path: str) -> bool:
    return web_system.get(path, If_None_Match=web_system.get(path).headers["etag"]).status == 304


def test_letters_of_a_removed_pipeline_are_shown_without_replay(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    (ident,) = fail(web_system, uid, "tea")
    assert ask(web_system.url, "DELETE", f"/v1/pipelines/{uid}").status in (200, 204)

    groups, letter = (
        letters_page(web_system, f"?pipeline={uid}"),
        web_system.get(f"/dead-letters/{uid}/{ident}"),
    )

    assert "not deployed" in text_of(groups) and b"data-group" not in groups.body
    assert "The pipeline is not deployed." in text_of(letter)
    assert b"data-replay" not in letter.body and b"Drop" in letter.body


def test_a_key_without_admin_sees_only_its_letters_and_no_controls() -> None:
    with WebSystem() as web_system:
        mine, other = make_uid(), make_uid()
        for uid in (mine, other):
            web_system.system.deploy(make_bundle(uid, *make_commands()))
        idents = [fail(web_system, uid, "tea")[0] for uid in (mine, other)]
        key = make_key(web_system.system.root, "read", pipelines=(mine,))
        await_closed(web_system)
        paths = [
            "/dead-letters",
            f"/dead-letters/{mine}/{idents[0]}",
            f"/pipelines/{mine}/messages/{idents[0]}",
            f"/pipelines/{mine}/log?swarm=chat",
        ]

        pages = [web_system.get(path, **key.headers) for path in paths]
        denied = [
            web_system.get(path, **key.headers).status
            for path in (
                f"/dead-letters?pipeline={other}",
                f"/dead-letters/{other}/{idents[1]}",
                f"/pipelines/{other}/messages/{idents[1]}",
                f"/v1/pipelines/{other}/messages/{idents[1]}",
            )
        ]

    assert [page.status for page in pages] == [200] * 4 and denied == [404] * 4
    for page in pages:
        assert other.encode() not in page.body
        assert b"data-replay" not in page.body and b"data-group" not in page.body
        assert b"data-call" not in page.body
