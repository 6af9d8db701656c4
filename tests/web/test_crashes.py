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
from tests.support.served import Served
from tests.support.waiting import LATE_S, wait_for

Answers = list[tuple[str, Answer | None]]


@pytest.fixture
def served() -> Iterator[Served]:
    """Start a system that the test may break."""
    with Served() as served:
        yield served


def restart_bus(served: Served) -> None:
    """Kill the bus with SIGKILL and start another on the same files and socket."""
    served.house.kill_server()
    served.house.server.start()
    served.house.client.redis.connection_pool.disconnect()


def post_until(served: Served, uid: str, ended: threading.Event, ids: bool) -> Answers:
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
                        served.webhook(
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


def read_texts(served: Served, uid: str) -> list[str]:
    served.house.client.await_quiet(uid, 20)
    return sorted(served.house.contents(uid))


def accepted(answers: Answers) -> list[str]:
    return sorted(text for text, answer in answers if answer is not None and answer.status == 202)


def test_a_web_server_stopped_under_load_loses_no_accepted_message(served: Served) -> None:
    uid, ended = served.deploy(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(post_until, served, uid, ended, ids=False)
        wait_for(lambda: len(served.house.contents(uid)) > 200, "messages are being sent")
        code = served.web.stop()
        ended.set()

    answers = posting.result()
    assert code == 0
    assert {answer.status for _, answer in answers if answer is not None} == {202}
    assert set(accepted(answers)) <= set(read_texts(served, uid))
    assert len(set(read_texts(served, uid))) == len(read_texts(served, uid))


def test_a_web_server_killed_under_load_loses_no_accepted_message(served: Served) -> None:
    uid, ended = served.deploy(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(post_until, served, uid, ended, ids=False)
        wait_for(lambda: len(served.house.contents(uid)) > 200, "messages are being sent")
        served.web.kill()
        ended.set()

    assert set(accepted(posting.result())) <= set(read_texts(served, uid))


def test_a_bus_killed_under_load_loses_nothing_and_retries_have_one_effect(served: Served) -> None:
    uid, ended = served.deploy(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(post_until, served, uid, ended, ids=True)
        wait_for(lambda: len(served.house.contents(uid)) > 200, "messages are being sent")
        restart_bus(served)
        wait_for(
            lambda: served.webhook(uid, "memory_write_", "again").status == 202,
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
        served.webhook(uid, "memory_write_", text, webhook_id=text).status for text in failed
    } == {202}
    assert [text for text in read_texts(served, uid) if text != "again"] == sorted(answers)


def test_a_waiting_client_gets_an_error_when_the_bus_dies_and_can_retry(served: Served) -> None:
    uid = served.deploy()
    served.house.workers[-1].kill()

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(
            served.webhook, uid, "memory_write_", "tea", query="?wait=60", webhook_id="msg_1"
        )
        wait_for(lambda: served.house.client.redis.xlen(input_of(uid)), "it is appended")
        restart_bus(served)
        answer = asking.result()

    assert (answer.problem[0], answer.headers["retry-after"]) == (503, "1")
    served.house.start_worker()
    assert (
        "guid"
        in served.webhook(uid, "memory_write_", "tea", query="?wait=60", webhook_id="msg_1").texts[
            0
        ]
    )
    assert read_texts(served, uid) == ["tea"]


def test_without_a_worker_the_wait_times_out_and_the_message_runs_later(served: Served) -> None:
    uid = served.deploy()
    served.house.workers[-1].stop()

    plain = served.webhook(uid, "memory_write_", "tea", query="?wait=0.2")
    named = served.webhook(uid, "memory_write_", "milk", query="?wait=0.2", webhook_id="msg_1")

    assert [answer.problem[0] for answer in (plain, named)] == [504, 504]
    assert (
        served.house.client.redis.xrange(input_of(uid))[0][0].decode() == plain.json["message_id"]
    )
    assert named.json["message_id"] == "msg_1"
    served.house.start_worker()
    assert read_texts(served, uid) == ["milk", "tea"]


def test_a_web_server_started_before_the_bus_recovers_with_it(served: Served) -> None:
    uid, house = served.deploy(), served.house
    house.server.stop()

    served.start_web()
    early = served.webhook(uid, "memory_write_", "tea")
    house.server.start()
    wait_for(lambda: served.get("/ready").status == 200, "it is ready")

    assert (early.problem[0], early.headers["retry-after"]) == (503, "1")
    assert served.webhook(uid, "memory_write_", "tea", query="?wait=15").status == 200


def test_listeners_survive_a_killed_bus_without_gap_or_duplicate(served: Served) -> None:
    uid = served.deploy()

    with Listener(served.url, uid) as listener, Listener(served.url, uid) as other:
        for number in range(5):
            served.house.client.enter_together(uid, [f"{number}-{at}" for at in range(50)])
            if number in (1, 3):
                restart_bus(served)
        received = listener.texts(250), other.texts(250)
        served.house.client.await_quiet(uid)

    logged = [entry.text for entry in served.house.client.log(uid)]
    assert received == (logged, logged)
    assert sorted(set(logged)) == sorted(
        f"{number}-{at}" for number in range(5) for at in range(50)
    )


def test_without_a_bus_a_listener_gets_503_with_retry_after(served: Served) -> None:
    uid = served.deploy()
    served.house.kill_server()

    with Listener(served.url, uid) as listener:
        assert (listener.refusal.problem[0], listener.refusal.headers["retry-after"]) == (503, "1")


def test_a_stopping_web_server_asks_its_listeners_to_reconnect(served: Served) -> None:
    uid = served.deploy()

    with Listener(served.url, uid) as listener:
        served.web.tell_to_end()
        closed = listener.close_frame()
        assert served.web.await_end() == 0

    assert closed.code == 1001
    assert "reconnect with ?after=CURSOR" in closed.reason


def test_a_stalled_listener_does_not_delay_the_shutdown(served: Served) -> None:
    uid = served.deploy()

    with Listener(served.url, uid):
        served.house.client.enter_together(uid, ["x" * 100_000] * 100)
        served.house.client.await_quiet(uid)
        began = time.monotonic()
        assert served.web.stop() == 0

    assert time.monotonic() - began < 4 + LATE_S  # process managers kill after 5 s
