"""Row 26: a PUBLISH without an owner is counted as a gap; a group that never reads blocks
nothing.
"""

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.invariants import assert_invariants
from tests.faults.write_load import WriteLoad
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, make_envelope, swarm_of
from tests.support.system import TestSystem
from tests.support.web_system import WebSystem

WRITES, LOG_LENGTH, SLACK = (
    4_000,
    500,
    200,
)  # the server trims a log by whole nodes of a hundred entries


def test_a_foreign_group_that_never_reads_blocks_nothing(record_figures: RecordFigures) -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)], limits={"log_length": LOG_LENGTH})
        system.client.answer(uid, "/write first")
        for key in (input_of(uid), swarm_of(uid, "chat")):
            system.client.redis.xgroup_create(key, "foreign", "0")
        with WriteLoad(system, uid, WRITES) as load:
            pass
        took_s = assert_invariants(system, uid, ["first", *load.texts])

        assert system.client.redis.xlen(input_of(uid)) == 0
        assert system.client.redis.xlen(swarm_of(uid, "chat")) <= LOG_LENGTH + SLACK
        record_figures(
            26,
            "a foreign consumer group that never reads",
            messages=WRITES,
            effects=WRITES,
            done_within_s=took_s,
        )
        assert worker.stop() == 0


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_publish_without_an_owner_is_counted_as_a_gap(
    way: str, record_figures: RecordFigures
) -> None:
    with WebSystem() as web_system:
        system, uid = web_system.system, web_system.deploy()
        system.client.answer(uid, "/write before")
        getattr(system.workers[-1], way)()

        assert system.client.redis.publish(swarm_of(uid, "chat"), make_envelope("/write lost")) == 0
        entered = system.client.enter(uid, "/write kept")
        worker = system.start_worker()
        system.client.await_done(uid, entered)

        (told,) = [
            one for one in web_system.get("/status").json["pipelines"] if one["pipeline_uid"] == uid
        ]
        assert told["gaps"] == 1 and told["deaf_s"] > 0
        assert_invariants(system, uid, ["before", "kept"], url=web_system.url)
        record_figures(
            26,
            f"PUBLISH while no owner listens (after {way})",
            gaps=told["gaps"],
            deaf_s=told["deaf_s"],
        )
        assert worker.stop() == 0
