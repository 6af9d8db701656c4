"""Members of public swarms, and messages that clients publish there."""

from collections.abc import Iterator

import pytest

from memrelay.bus.keys import PUBLIC, listeners_key
from tests.support.bundles import make_uid
from tests.support.client import input_of, make_envelope
from tests.support.house import House
from tests.support.waiting import wait_for
from tests.worker.test_public_swarms import deploy, entered, make_keeper, make_speaker, members

SWARM = "news"


@pytest.fixture
def house() -> Iterator[House]:
    """A server and a memory root without a worker."""
    with House() as house:
        yield house


def listening(house: House) -> list[str]:
    return [member.uid for member in members(house) if member.listens]


def await_listening(house: House, *uids: str) -> None:
    wait_for(lambda: listening(house) == sorted(uids), f"{uids} listen, not {listening(house)}")


def test_a_removed_pipeline_and_a_publisher_receive_nothing(
    house: House,
) -> None:
    house.start_worker()
    speaker, first, second = deploy(
        house, make_speaker(make_uid(), SWARM), *[make_keeper(make_uid(), SWARM) for _ in range(2)]
    )
    await_listening(house, first, second)

    house.remove(second)
    await_listening(house, first)
    house.client.await_done(speaker, house.client.enter(speaker, "/tell tea"))

    assert (entered(house, speaker), house.client.redis.xlen(input_of(second))) == (1, 0)
    house.remove(speaker)
    wait_for(
        lambda: [member.uid for member in members(house)] == [first], "the speaker is no member"
    )


def test_the_next_worker_unregisters_a_removed_pipeline(
    house: House,
) -> None:
    worker = house.start_worker()
    first, second = deploy(house, *[make_keeper(make_uid(), SWARM) for _ in range(2)])
    await_listening(house, first, second)  # a deploy ends before the worker has announced all of it
    assert worker.stop() == 0

    house.remove(second)
    assert listening(house) == [first, second]
    house.start_worker()

    await_listening(house, first)


def test_a_pipeline_without_public_swarms_is_unregistered(house: House) -> None:
    house.start_worker()
    uid, other = deploy(house, *[make_keeper(make_uid(), SWARM) for _ in range(2)])

    house.deploy(make_keeper(uid, SWARM) | {"swarms": []})
    await_listening(house, other)
    house.client.await_done(
        uid, house.client.enter(uid, "mine", swarm=SWARM, sender="dispatch_tell")
    )

    assert (house.contents(uid), house.contents(other)) == (["mine"], [])
    assert (len(house.client.log(uid, SWARM)), house.client.log(PUBLIC, SWARM)) == (1, [])


def test_the_input_collects_public_messages_while_its_owner_is_down(house: House) -> None:
    speaker, keeper = make_uid(), make_uid()
    worker = house.start_worker(bundles=[make_keeper(keeper, SWARM)])
    with House() as elsewhere:  # another memory root on the same bus
        elsewhere.start_worker(bus=house.server.socket_path, bundles=[make_speaker(speaker, SWARM)])
        assert worker.stop() == 0

        house.client.await_done(speaker, house.client.enter(speaker, "/tell tea"))
        assert house.client.redis.xlen(input_of(keeper)) == 1
        house.start_worker()
        house.client.await_quiet(keeper)

    assert (house.contents(keeper), listening(house)) == (["tea"], [keeper])


def test_owners_register_again_after_the_server_lost_everything(house: House) -> None:
    house.start_worker()
    speaker, keeper = deploy(house, make_speaker(make_uid(), SWARM), make_keeper(make_uid(), SWARM))

    house.client.redis.flushall()
    assert not house.client.redis.exists(listeners_key())
    await_listening(house, keeper)
    house.client.enter(speaker, "/tell tea")

    wait_for(lambda: house.contents(keeper) == ["tea"], "it is received")


def test_an_external_message_reaches_each_listener_and_the_log_once(
    house: House,
) -> None:
    uids = [make_uid() for _ in range(4)]
    house.start_worker(bundles=[make_keeper(uid, SWARM, "User") for uid in uids])
    house.start_worker()
    await_listening(house, *uids)
    wait_for(
        lambda: int(house.client.redis.pubsub_numsub(f"swarm:{{{PUBLIC}}}:{SWARM}")[0][1]) == 2,
        "both listen",
    )
    texts = [f"word{number}" for number in range(500)]

    for text in texts:
        house.client.publish(PUBLIC, make_envelope(text), SWARM)
    wait_for(
        lambda: all(len(house.contents(uid)) >= len(texts) for uid in uids),
        "all members received it",
    )

    assert [house.contents(uid) for uid in uids] == [texts] * 4
    log = house.client.log(PUBLIC, SWARM)
    assert [said.text for said in log] == texts
    assert len({said.mid for said in log}) == len(texts)
    assert all(said.mid.startswith(f"{PUBLIC}/") for said in log)


def test_live_copies_of_another_worker_are_no_messages(house: House) -> None:
    speaker, keeper = make_uid(), make_uid()
    house.start_worker(bundles=[make_speaker(speaker, SWARM), make_keeper(keeper, SWARM)])
    house.start_worker()
    await_listening(house, keeper)

    house.client.enter_together(speaker, [f"/tell {number}" for number in range(200)])
    wait_for(lambda: len(house.contents(keeper)) >= 200, "all are received")
    house.client.publish(PUBLIC, make_envelope("last", sender="dispatch_tell"), SWARM)
    wait_for(lambda: "last" in house.contents(keeper), "the last one is received")

    assert house.contents(keeper) == [*map(str, range(200)), "last"]
    assert len(house.client.log(PUBLIC, SWARM)) == 201


@pytest.mark.parametrize("payload", [b"", b"no envelope", b"{}", b"\xff"])
def test_a_malformed_public_message_becomes_a_dead_letter_of_each_listener(
    house: House, payload: bytes
) -> None:
    house.start_worker()
    (keeper,) = deploy(house, make_keeper(make_uid(), SWARM, "User"))

    house.client.publish(PUBLIC, payload, SWARM)
    wait_for(lambda: house.dead_letters(keeper), "it is a dead letter")

    assert house.client.log(PUBLIC, SWARM) == []
