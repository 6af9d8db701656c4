"""Members of public swarms, and messages that clients publish there."""

from collections.abc import Iterator

import pytest

from memrelay.bus.keys import PUBLIC, listeners_key
from tests.support.bundles import make_uid
from tests.support.client import input_of, make_envelope
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.worker.test_public_swarms import deploy, entered, make_keeper, make_speaker, members

SWARM = "news"


@pytest.fixture
def system() -> Iterator[TestSystem]:
    """A server and a memory root without a worker."""
    with TestSystem() as system:
        yield system


def listening(system: TestSystem) -> list[str]:
    return [member.uid for member in members(system) if member.listens]


def await_listening(system: TestSystem, *uids: str) -> None:
    wait_for(lambda: listening(system) == sorted(uids), f"{uids} listen, not {listening(system)}")


def test_a_removed_pipeline_and_a_publisher_receive_nothing(
    system: TestSystem,
) -> None:
    system.start_worker()
    speaker, first, second = deploy(
        system, make_speaker(make_uid(), SWARM), *[make_keeper(make_uid(), SWARM) for _ in range(2)]
    )
    await_listening(system, first, second)

    system.remove(second)
    await_listening(system, first)
    system.client.await_done(speaker, system.client.enter(speaker, "/tell tea"))

    assert (entered(system, speaker), system.client.redis.xlen(input_of(second))) == (1, 0)
    system.remove(speaker)
    wait_for(
        lambda: [member.uid for member in members(system)] == [first], "the speaker is no member"
    )


def test_the_next_worker_unregisters_a_removed_pipeline(
    system: TestSystem,
) -> None:
    worker = system.start_worker()
    first, second = deploy(system, *[make_keeper(make_uid(), SWARM) for _ in range(2)])
    await_listening(
        system, first, second
    )  # a deploy ends before the worker has announced all of it
    assert worker.stop() == 0

    system.remove(second)
    assert listening(system) == [first, second]
    system.start_worker()

    await_listening(system, first)


def test_a_pipeline_without_public_swarms_is_unregistered(system: TestSystem) -> None:
    system.start_worker()
    uid, other = deploy(system, *[make_keeper(make_uid(), SWARM) for _ in range(2)])

    system.deploy(make_keeper(uid, SWARM) | {"swarms": []})
    await_listening(system, other)
    system.client.await_done(
        uid, system.client.enter(uid, "mine", swarm=SWARM, sender="dispatch_tell")
    )

    assert (system.contents(uid), system.contents(other)) == (["mine"], [])
    assert (len(system.client.log(uid, SWARM)), system.client.log(PUBLIC, SWARM)) == (1, [])


def test_the_input_collects_public_messages_while_its_owner_is_down(system: TestSystem) -> None:
    speaker, keeper = make_uid(), make_uid()
    worker = system.start_worker(bundles=[make_keeper(keeper, SWARM)])
    with TestSystem() as elsewhere:  # another memory root on the same bus
        elsewhere.start_worker(
            bus=system.server.socket_path, bundles=[make_speaker(speaker, SWARM)]
        )
        assert worker.stop() == 0

        system.client.await_done(speaker, system.client.enter(speaker, "/tell tea"))
        assert system.client.redis.xlen(input_of(keeper)) == 1
        system.start_worker()
        system.client.await_quiet(keeper)

    assert (system.contents(keeper), listening(system)) == (["tea"], [keeper])


def test_owners_register_again_after_the_server_lost_everything(system: TestSystem) -> None:
    system.start_worker()
    speaker, keeper = deploy(
        system, make_speaker(make_uid(), SWARM), make_keeper(make_uid(), SWARM)
    )

    system.client.redis.flushall()
    assert not system.client.redis.exists(listeners_key())
    await_listening(system, keeper)
    system.client.enter(speaker, "/tell tea")

    wait_for(lambda: system.contents(keeper) == ["tea"], "it is received")


def test_an_external_message_reaches_each_listener_and_the_log_once(
    system: TestSystem,
) -> None:
    uids = [make_uid() for _ in range(4)]
    system.start_worker(bundles=[make_keeper(uid, SWARM, "User") for uid in uids])
    system.start_worker()
    await_listening(system, *uids)
    wait_for(
        lambda: int(system.client.redis.pubsub_numsub(f"swarm:{{{PUBLIC}}}:{SWARM}")[0][1]) == 2,
        "both listen",
    )
    texts = [f"word{number}" for number in range(500)]

    for text in texts:
        system.client.publish(PUBLIC, make_envelope(text), SWARM)
    wait_for(
        lambda: all(len(system.contents(uid)) >= len(texts) for uid in uids),
        "all members received it",
    )

    assert [system.contents(uid) for uid in uids] == [texts] * 4
    log = system.client.log(PUBLIC, SWARM)
    assert [said.text for said in log] == texts
    assert len({said.mid for said in log}) == len(texts)
    assert all(said.mid.startswith(f"{PUBLIC}/") for said in log)


def test_live_copies_of_another_worker_are_no_messages(system: TestSystem) -> None:
    speaker, keeper = make_uid(), make_uid()
    system.start_worker(bundles=[make_speaker(speaker, SWARM), make_keeper(keeper, SWARM)])
    system.start_worker()
    await_listening(system, keeper)

    system.client.enter_together(speaker, [f"/tell {number}" for number in range(200)])
    wait_for(lambda: len(system.contents(keeper)) >= 200, "all are received")
    system.client.publish(PUBLIC, make_envelope("last", sender="dispatch_tell"), SWARM)
    wait_for(lambda: "last" in system.contents(keeper), "the last one is received")

    assert system.contents(keeper) == [*map(str, range(200)), "last"]
    assert len(system.client.log(PUBLIC, SWARM)) == 201


@pytest.mark.parametrize("payload", [b"", b"no envelope", b'{"id": "x"}', b"\xff"])
def test_a_malformed_public_message_becomes_a_dead_letter_of_each_listener(
    system: TestSystem, payload: bytes
) -> None:
    system.start_worker()
    (keeper,) = deploy(system, make_keeper(make_uid(), SWARM, "User"))

    system.client.publish(PUBLIC, payload, SWARM)
    wait_for(lambda: system.dead_letters(keeper), "it is a dead letter")

    assert system.client.log(PUBLIC, SWARM) == []
