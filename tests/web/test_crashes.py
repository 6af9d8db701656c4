"""Killed processes lose no accepted message, and retries have one effect."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

import pytest

from tests.support.client import input_of
from tests.support.http import Answer
from tests.support.listener import Listener
from tests.support.waiting import LATE_S, wait_for
from tests.support.web_system import WebSystem

Answers = list[tuple[str, Answer | None]]


@pytest.fixture
def web_system() -> Iterator[WebSystem]:
    """Start a system that the test may break."""
    with WebSystem() as web_system:
        yield web_system


def restart_bus(web_system: WebSystem) -> None:
    """Kill the bus with SIGKILL and start another on the same files and socket."""
    web_system.system.kill_server()
    web_system.system.server.start()
    web_system.system.client.redis.connection_pool.disconnect()


def post_until(web_system: WebSystem, uid: str, ended: threading.Event, ids: bool) -> Answers:
    """Post numbered writes from eight threads until `ended`.

    Returns (text, answer) pairs. The answer is None if the connection broke.
    """

    def post(worker: int) -> Answers:
        answers: Answers = []
        while not ended.is_set():
            text = f"{worker}-{len(answers)}"
            try:
                answers.append(
                    (
                        text,
                        web_system.webhook(
                            uid, "memory_write_", text, **({"webhook_id": text} if ids else {})
                        ),
                    )
                )
            except (OSError, HTTPException):
                answers.append((text, None))
                time.sleep(0.02)
        return answers

    with ThreadPoolExecutor(8) as pool:
        return [answer for answers in pool.map(post, range(8)) for answer in answers]


def read_texts(web_system: WebSystem, uid: str) -> list[str]:
    web_system.system.client.await_quiet(uid, 20)
    return sorted(web_system.system.contents(uid))


def accepted(answers: Answers) -> list[str]:
    return sorted(text for text, answer in answers if answer is not None and answer.status == 202)


def test_a_web_server_stopped_under_load_loses_no_accepted_message(web_system: WebSystem) -> None:
    uid, ended = web_system.deploy(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(post_until, web_system, uid, ended, ids=False)
        wait_for(lambda: len(web_system.system.contents(uid)) > 200, "messages are being sent")
        code = web_system.web.stop()
        ended.set()

    answers = posting.result()
    assert code == 0
    assert {answer.status for _, answer in answers if answer is not None} == {202}
    assert set(accepted(answers)) <= set(read_texts(web_system, uid))
    assert len(set(read_texts(web_system, uid))) == len(read_texts(web_system, uid))


def test_a_web_server_killed_under_load_loses_no_accepted_message(web_system: WebSystem) -> None:
    uid, ended = web_system.deploy(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(post_until, web_system, uid, ended, ids=False)
        wait_for(lambda: len(web_system.system.contents(uid)) > 200, "messages are being sent")
        web_system.web.kill()
        ended.set()

    assert set(accepted(posting.result())) <= set(read_texts(web_system, uid))


def test_a_bus_killed_under_load_loses_nothing_and_retries_have_one_effect(
    web_system: WebSystem,
) -> None:
    uid, ended = web_system.deploy(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(post_until, web_system, uid, ended, ids=True)
        wait_for(lambda: len(web_system.system.contents(uid)) > 200, "messages are being sent")
        restart_bus(web_system)
        wait_for(
            lambda: web_system.webhook(uid, "memory_write_", "again").status == 202,
            "it accepts messages again",
        )
        ended.set()

    answers = dict(posting.result())
    failed = [
        text for text, answer in answers.items() if answer is not None and answer.status != 202
    ]
    assert {(answers[text].status, answers[text].headers["retry-after"]) for text in failed} == {
        (503, "1")
    }
    assert {
        web_system.webhook(uid, "memory_write_", text, webhook_id=text).status for text in failed
    } == {202}
    assert [text for text in read_texts(web_system, uid) if text != "again"] == sorted(answers)


def test_a_waiting_client_gets_an_error_when_the_bus_dies_and_can_retry(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()
    web_system.system.workers[-1].kill()

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(
            web_system.webhook, uid, "memory_write_", "tea", query="?wait=60", webhook_id="msg_1"
        )
        wait_for(lambda: web_system.system.client.redis.xlen(input_of(uid)), "it is appended")
        restart_bus(web_system)
        answer = asking.result()

    assert (answer.problem[0], answer.headers["retry-after"]) == (503, "1")
    web_system.system.start_worker()
    assert (
        "guid"
        in web_system.webhook(
            uid, "memory_write_", "tea", query="?wait=60", webhook_id="msg_1"
        ).texts[0]
    )
    assert read_texts(web_system, uid) == ["tea"]


def test_without_a_worker_the_wait_times_out_and_the_message_runs_later(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()
    web_system.system.workers[-1].stop()

    plain = web_system.webhook(uid, "memory_write_", "tea", query="?wait=0.2")
    named = web_system.webhook(uid, "memory_write_", "milk", query="?wait=0.2", webhook_id="msg_1")

    assert [answer.problem[0] for answer in (plain, named)] == [504, 504]
    assert (
        web_system.system.client.redis.xrange(input_of(uid))[0][0].decode()
        == plain.json["message_id"]
    )
    assert named.json["message_id"] == "msg_1"
    web_system.system.start_worker()
    assert read_texts(web_system, uid) == ["milk", "tea"]


def test_a_web_server_started_before_the_bus_recovers_with_it(web_system: WebSystem) -> None:
    uid, system = web_system.deploy(), web_system.system
    system.server.stop()

    web_system.start_web()
    early = web_system.webhook(uid, "memory_write_", "tea")
    system.server.start()
    wait_for(lambda: web_system.get("/ready").status == 200, "it is ready")

    assert (early.problem[0], early.headers["retry-after"]) == (503, "1")
    assert web_system.webhook(uid, "memory_write_", "tea", query="?wait=15").status == 200


def test_listeners_survive_a_killed_bus_without_gap_or_duplicate(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    with Listener(web_system.url, uid) as listener, Listener(web_system.url, uid) as other:
        for number in range(5):
            web_system.system.client.enter_together(uid, [f"{number}-{at}" for at in range(50)])
            if number in (1, 3):
                restart_bus(web_system)
        received = listener.texts(250), other.texts(250)
        web_system.system.client.await_quiet(uid)

    logged = [entry.text for entry in web_system.system.client.log(uid)]
    assert received == (logged, logged)
    assert sorted(set(logged)) == sorted(
        f"{number}-{at}" for number in range(5) for at in range(50)
    )


def test_without_a_bus_a_listener_gets_503_with_retry_after(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    web_system.system.kill_server()

    with Listener(web_system.url, uid) as listener:
        assert (listener.refusal.problem[0], listener.refusal.headers["retry-after"]) == (503, "1")


def test_a_stopping_web_server_asks_its_listeners_to_reconnect(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    with Listener(web_system.url, uid) as listener:
        web_system.web.terminate()
        closed = listener.close_frame()
        assert web_system.web.await_end() == 0

    assert closed.code == 1001
    assert "reconnect with ?after=CURSOR" in closed.reason


def test_a_stalled_listener_does_not_delay_the_shutdown(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    with Listener(web_system.url, uid):
        web_system.system.client.enter_together(uid, ["x" * 100_000] * 100)
        web_system.system.client.await_quiet(uid)
        began = time.monotonic()
        assert web_system.web.stop() == 0

    assert time.monotonic() - began < 4 + LATE_S  # process managers kill after 5 s
