"""WebSockets that follow a swarm's log from a cursor, then live, without gaps or duplicates."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest

from tests.support.client import make_envelope, swarm_of
from tests.support.listener import PING, PONG, TEXT, Listener
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


def send_numbered(web_system: WebSystem, uid: str, start: int, end: int) -> list[str]:
    """Send numbered messages without results in one batch, and return their texts."""
    texts = [f"said {number}" for number in range(start, end)]
    web_system.system.client.enter_together(uid, texts)
    return texts


def after(web_system: WebSystem, uid: str, text: str) -> str:
    """Return the query for the messages after the one with this text."""
    entries = web_system.system.client.redis.xrange(swarm_of(uid, "chat"))
    (cursor,) = [
        ident.decode() for ident, fields in entries if b'"%s"' % text.encode() in fields[b"data"]
    ]
    return f"?after={cursor}"


def position(received: dict[str, Any]) -> tuple[int, ...]:
    return tuple(map(int, received["cursor"].split("-")))


def test_a_listener_receives_new_messages(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    web_system.say(uid, "before", query="?wait=60")

    with Listener(web_system.url, uid) as listener:
        answer = web_system.say(uid, {"text": "/write tea"}, query="?wait=60")
        received = [listener.receive() for _ in range(3)]

    assert [one["message"]["from"] for one in received] == [
        "User",
        "dispatch_write",
        "memory_write",
    ]
    assert received[2]["message"] == answer.json["results"][0]
    assert received[0]["mid"].startswith(answer.json["message_id"])


def test_a_listener_from_the_beginning_receives_the_whole_log(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    texts = send_numbered(web_system, uid, 0, 3)
    wait_for(
        lambda: len(web_system.get(f"/v1/pipelines/{uid}/swarms/chat/messages").json["items"]) == 3,
        "the log",
    )

    with Listener(web_system.url, uid, "?after=0-0") as listener:
        assert listener.texts(3) == texts


def test_a_listener_receives_exactly_the_log(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    with Listener(web_system.url, uid) as listener:
        send_numbered(web_system, uid, 0, 20)
        received = [listener.receive() for _ in range(20)]

    assert received == web_system.get(f"/v1/pipelines/{uid}/swarms/chat/messages").json["items"]


def test_listeners_receive_only_their_swarm(web_system: WebSystem) -> None:
    uids = [web_system.deploy() for _ in range(3)]

    with ExitStack() as stack:
        listeners = [stack.enter_context(Listener(web_system.url, uid)) for uid in uids * 2]
        for uid in uids:
            web_system.say(uid, f"for {uid}")
        received = [listener.texts(1) for listener in listeners]

    assert received == [[f"for {uid}"] for uid in uids * 2]


def test_a_close_frame_is_answered(web_system: WebSystem) -> None:
    with Listener(web_system.url, web_system.deploy()) as listener:
        listener.leave()

        assert listener.socket.recv(1) == b""


def test_a_listener_from_a_cursor_first_gets_the_rest_of_the_log(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    texts = send_numbered(web_system, uid, 0, 10)
    web_system.system.client.await_quiet(uid)

    with Listener(web_system.url, uid, after(web_system, uid, "said 3")) as listener:
        texts += send_numbered(web_system, uid, 10, 12)
        assert listener.texts(8) == texts[4:]


def test_catching_up_under_load_has_no_gap_and_no_duplicate(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    texts = send_numbered(web_system, uid, 0, 2000)
    web_system.system.client.await_quiet(uid)

    with (
        ThreadPoolExecutor(1) as pool,
        Listener(web_system.url, uid, after(web_system, uid, "said 0")) as listener,
    ):
        speaking = pool.submit(
            lambda: [
                text
                for at in range(2000, 3000, 5)
                for text in send_numbered(web_system, uid, at, at + 5)
            ]
        )
        received = [listener.receive() for _ in range(2999)]

    assert [one["message"]["args"][0]["text"] for one in received] == texts[1:] + speaking.result()
    assert all(position(earlier) < position(later) for earlier, later in pairwise(received))


def test_foreign_entries_in_the_log_make_no_gap(web_system: WebSystem) -> None:
    uid, log = web_system.deploy(), web_system.system.client.redis
    for number in range(1500):
        ours = {"mid": f"m{number}", "data": make_envelope(f"said {number}")}
        log.xadd(swarm_of(uid, "chat"), ours if number % 5 else {"note": "not ours"})

    with Listener(web_system.url, uid, "?after=0-1") as listener:
        received = listener.texts(1200)

    assert received == [f"said {number}" for number in range(1500) if number % 5]


@pytest.mark.parametrize(
    "query",
    ["?after=x", "?after=99999999999999999999-0", "?after=%D9%A5-0", "?since=0-1", "?cursor=1-1"],
)
def test_an_invalid_cursor_is_rejected(web_system: WebSystem, query: str) -> None:
    with Listener(web_system.url, web_system.deploy(), query) as listener:
        assert listener.refusal.problem[0] == 400


def test_an_unknown_swarm_is_rejected(web_system: WebSystem) -> None:
    with Listener(web_system.url, web_system.deploy(), swarm="caht") as listener:
        assert listener.refusal.problem[0] == 404


@pytest.mark.parametrize(
    "headers",
    [{"Sec-WebSocket-Version": "1"}, {"Sec-WebSocket-Key": "short"}, {"Connection": "close"}],
)
def test_a_malformed_handshake_is_rejected_and_leaves_nothing_behind(
    web_system: WebSystem, headers: dict[str, str]
) -> None:
    with Listener(web_system.url, web_system.deploy(), **headers) as listener:
        assert listener.refusal.problem[0] == 400

    wait_for(
        lambda: web_system.get("/status").json["listeners"] == 0,
        "all listeners are connecteders are gone",
    )


def test_an_upgrade_to_another_protocol_is_ignored(web_system: WebSystem) -> None:
    path = f"/v1/pipelines/{web_system.deploy()}/swarms/chat/messages"

    plain = web_system.get(
        path, Upgrade="h2c", Connection="Upgrade, HTTP2-Settings", HTTP2_Settings="AAMAAABk"
    )

    assert (plain.status, plain.json["items"]) == (200, [])


def test_messages_from_a_listener_are_ignored(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    with Listener(web_system.url, uid) as listener:
        for _ in range(100):
            listener.send(TEXT, make_envelope("/write tea"))
        web_system.say(uid, "hello", query="?wait=60")
        assert listener.texts(1) == ["hello"]

    assert [said.text for said in web_system.system.client.log(uid)] == ["hello"]


def test_a_ping_is_answered(web_system: WebSystem) -> None:
    with Listener(web_system.url, web_system.deploy()) as listener:
        listener.send(PING, b"there?")

        assert listener.frame() == (PONG, b"there?")


def test_a_long_frame_closes_the_connection(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    with Listener(web_system.url, uid) as listener, Listener(web_system.url, uid) as other:
        listener.send(TEXT, b"x" * 2000)

        assert listener.close_frame().code == 1009
        web_system.say(uid, "hello")
        assert other.texts(1) == ["hello"]


def test_malformed_frames_close_the_connection(web_system: WebSystem) -> None:
    with Listener(web_system.url, web_system.deploy()) as listener:
        listener.socket.sendall(b"\xff" * 100)

        assert listener.close_frame().code == 1002


def test_reconnecting_listeners_receive_each_message_once(web_system: WebSystem) -> None:
    uid, done = web_system.deploy(), threading.Event()

    def come_and_go(_: int) -> int:
        visits = 0
        while not done.is_set():
            with Listener(web_system.url, uid) as guest:
                first = [position(guest.receive()) for _ in range(3)]
            assert first == sorted(set(first))
            visits += 1
        return visits

    with ThreadPoolExecutor(4) as pool, Listener(web_system.url, uid) as listener:
        guests = [pool.submit(come_and_go, number) for number in range(4)]
        texts = [
            text for at in range(0, 1500, 3) for text in send_numbered(web_system, uid, at, at + 3)
        ]
        assert listener.texts(1500) == texts
        done.set()
        wait_for(
            lambda: (
                [send_numbered(web_system, uid, 0, 3)] and all(guest.done() for guest in guests)
            ),
            "the listeners are gone",
        )

    assert all(guest.result() for guest in guests)
