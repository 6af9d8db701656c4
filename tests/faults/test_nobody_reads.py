"""Row 26: a foreign consumer group that never reads holds nothing up."""
from tests.faults.conftest import Tell
from tests.faults.feeder import Feeder
from tests.faults.promises import assert_promises
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, swarm_of
from tests.support.house import House

WRITES, LOG_LENGTH, SLACK = 4_000, 500, 200   # the server trims whole nodes of a log, of a hundred entries


def test_a_foreign_group_that_never_reads_holds_nothing_up(tell: Tell) -> None:
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
        tell(26, "a foreign consumer group that never reads", messages=WRITES, effects=WRITES, done_within_s=took_s)
        assert worker.stop() == 0
