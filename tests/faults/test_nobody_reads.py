"""Row 26: a PUBLISH without an owner is counted as a gap; a group that never reads blocks
nothing.
"""

import pytest

from tests.faults.conftest import Tell
from tests.faults.feeder import Feeder
from tests.faults.promises import assert_promises
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, make_envelope, swarm_of
from tests.support.house import House
from tests.support.served import Served

WRITES, LOG_LENGTH, SLACK = (
    4_000,
    500,
    200,
)  # the server trims a log by whole nodes of a hundred entries


def test_a_foreign_group_that_never_reads_blocks_nothing(tell: Tell) -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)], limits={"log_length": LOG_LENGTH})
        house.client.answer(uid, "/write first")
        for key in (input_of(uid), swarm_of(uid, "chat")):
            house.client.redis.xgroup_create(key, "foreign", "0")
        with Feeder(house, uid, WRITES) as feeder:
            pass
        took_s = assert_promises(house, uid, ["first", *feeder.texts])

        assert house.client.redis.xlen(input_of(uid)) == 0
        assert house.client.redis.xlen(swarm_of(uid, "chat")) <= LOG_LENGTH + SLACK
        tell(
            26,
            "a foreign consumer group that never reads",
            messages=WRITES,
            effects=WRITES,
            done_within_s=took_s,
        )
        assert worker.stop() == 0


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_publish_without_an_owner_is_counted_as_a_gap(way: str, tell: Tell) -> None:
    with Served() as served:
        house, uid = served.house, served.deploy()
        house.client.answer(uid, "/write before")
        getattr(house.workers[-1], way)()

        assert house.client.redis.publish(swarm_of(uid, "chat"), make_envelope("/write lost")) == 0
        entered = house.client.enter(uid, "/write kept")
        worker = house.start_worker()
        house.client.await_done(uid, entered)

        (told,) = [
            one for one in served.get("/status").json["pipelines"] if one["pipeline_uid"] == uid
        ]
        assert told["gaps"] == 1 and told["deaf_s"] > 0
        assert_promises(house, uid, ["before", "kept"], url=served.url)
        tell(
            26,
            f"PUBLISH while no owner listens (after {way})",
            gaps=told["gaps"],
            deaf_s=told["deaf_s"],
        )
        assert worker.stop() == 0
