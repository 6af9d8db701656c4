"""Repeated and redelivered messages change nothing and get the same answer."""

import orjson
import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.system import TestSystem
from tests.support.tiers import first_always


def test_a_repeated_producer_id_gives_one_record_and_the_same_answer(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))

    first = system.client.ask(uid, "/write tea", id="order-1")
    second = system.client.enter(uid, "/write tea", id="order-1")
    system.client.await_done(uid, second)

    assert system.client.log(uid) == [*first, first[-1]]
    assert system.contents(uid) == ["tea"]


def test_a_repeated_indented_message_gets_the_same_answer(system: TestSystem) -> None:
    uid, envelope = make_uid(), orjson.loads(make_envelope("/write tea"))
    system.deploy(make_bundle(uid))
    data = orjson.dumps(envelope, option=orjson.OPT_INDENT_2).replace(b"\n", b"\r\n")

    for _ in range(2):
        system.client.await_done(uid, system.client.enter_raw(uid, data, id="order-1"))

    log = system.client.log(uid)
    assert [said.text for said in log[:2]] == ["/write tea", "tea"]
    assert log[3:] == log[2:3]


def test_a_producer_id_repeated_in_one_batch_gives_one_record(
    system: TestSystem,
) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    with system.client.redis.pipeline(transaction=True) as pipe:
        for _ in range(100):
            pipe.xadd(
                input_of(uid),
                {"swarm": "chat", "data": make_envelope("/write tea"), "id": "order-1"},
            )
        pipe.execute()

    system.client.await_quiet(uid)

    answers = [said for said in system.client.log(uid) if said.sender == "memory_write"]
    assert system.contents(uid) == ["tea"]
    assert len(answers) == 100 and len(set(map(str, answers))) == 1


def test_a_producer_id_is_remembered_without_a_store_effect(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))

    first = system.client.ask(uid, "no command", id="order-1")
    second = system.client.enter(uid, "/write another text", id="order-1")
    system.client.await_done(uid, second)

    assert system.client.log(uid) == first
    assert not system.contents(uid)


def test_producer_ids_of_two_pipelines_are_separate(system: TestSystem) -> None:
    one, two = make_uid(), make_uid()
    system.deploy(make_bundle(one), make_bundle(two))

    guids = [system.client.answer(uid, "/write tea", id="order-1")["guid"] for uid in (one, two)]

    assert guids[0] != guids[1]
    assert system.contents(one) == system.contents(two) == ["tea"]


def test_the_id_in_the_envelope_is_no_idempotency_key(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))

    guids = {system.client.answer(uid, "/write tea")["guid"] for _ in range(2)}

    assert len(guids) == 2
    assert system.contents(uid) == ["tea", "tea"]


@pytest.mark.parametrize("step", first_always("committed", "before sending", "sent"))
def test_a_redelivered_message_gets_its_answer_from_before_the_crash(step: str) -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_stepping_worker(die_on=step, bundles=[make_bundle(uid)])
        ident = system.client.enter(uid, "/write tea")
        worker.await_end()
        ((guid,),) = system.rows(uid, "SELECT guid FROM records")

        system.start_worker()
        system.client.await_done(uid, ident)

        log = system.client.log(uid)
        assert {said.text for said in log if said.sender == "memory_write"} == {
            f'{{"guid":"{guid}"}}'
        }
        assert len({said.mid for said in log}) == 3
        assert system.contents(uid) == ["tea"]
