"""Retries of operations over HTTP: idempotency keys, timeouts, and pipelines without a worker."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.locks import locked
from tests.support.web_system import WebSystem
from tests.support.worker_reports import await_paused
from tests.web.records import Records


@pytest.fixture
def records(web_system: WebSystem) -> Records:
    return Records(web_system)


def test_a_repeated_key_has_one_effect_and_the_same_answer(records: Records) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda _: records("POST", "", {"content": "tea"}, Idempotency_Key="k"), range(40)
            )
        )

    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert records("GET").json["total"] == 1


def test_a_key_of_another_call_is_rejected_without_effect(records: Records) -> None:
    made = records.create("tea", Idempotency_Key="k")
    at = "/" + made["guid"]

    for answer in (
        records("POST", "", {"content": "coffee"}, Idempotency_Key="k"),
        records("DELETE", at, webhook_id="k"),
        records("PATCH", at, {"content": "coffee"}, Idempotency_Key="k"),
        records("POST", "/append", {"content": "coffee"}, Idempotency_Key="k"),
    ):
        status, detail = answer.problem
        assert status == 422 and "'k' was used" in detail and "a key of its own" in detail
        assert answer.json["title"] == "Idempotency key reused"
    spaced = records("POST", "", b'{ "tags" : [], "content" : "t\\u0065a" }', Idempotency_Key="k")

    assert (spaced.status, spaced.json) == (201, made)
    assert records("GET").json["items"] == [made]


def test_a_rejected_input_does_not_use_its_key(records: Records) -> None:
    refused = records("POST", "", {"contnt": "tea"}, Idempotency_Key="k")
    assert refused.problem[0] == 422

    assert records.create("tea", Idempotency_Key="k")["content"] == "tea"


def test_without_a_worker_the_caller_gets_503_and_nothing_is_done() -> None:
    with WebSystem(worker=False) as web_system:
        records = Records(web_system, web_system.deploy_unserved())

        for answer in (records("GET"), records("POST", "", {"content": "tea"})):
            assert answer.problem[0] == 503
            assert answer.headers["retry-after"] == "1"

        web_system.system.start_worker()
        web_system.system.client.await_served(records.uid)
        assert records("GET").json["total"] == 0


def test_after_a_timeout_the_key_gets_the_answer_later() -> None:
    with WebSystem(WEB__CALL_TIMEOUT_S="1") as web_system:
        records = Records(web_system)
        records("GET")
        web_system.system.workers[0].send_signal(signal.SIGSTOP)

        late = [records("POST", "", {"content": "tea"}, Idempotency_Key="k"), records("GET")]

        web_system.system.workers[0].send_signal(signal.SIGCONT)
        assert [(answer.problem[0], answer.headers["retry-after"]) for answer in late] == [
            (504, "1")
        ] * 2
        assert "same Idempotency-Key" in late[0].problem[1]
        assert records.create("tea", Idempotency_Key="k")["content"] == "tea"
        assert records("GET").json["total"] == 1


def test_a_write_to_a_paused_pipeline_gets_the_reason_and_runs_later() -> None:
    with WebSystem(WEB__CALL_TIMEOUT_S="1") as web_system:
        records = Records(web_system)
        records.create("tea")
        with locked(web_system.system.store_file(records.uid)):
            web_system.system.client.enter(records.uid, "/write coffee")
            await_paused(web_system.system, records.uid, "locked")
            late = records("POST", "", {"content": "cocoa"}, Idempotency_Key="k")

        assert late.problem[0] == 504
        assert "paused" in late.problem[1] and "locked by another program" in late.problem[1]
        assert records.create("cocoa", Idempotency_Key="k")["content"] == "cocoa"
        assert records("GET").json["total"] == 3
