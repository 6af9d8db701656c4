"""The logs of swarms are bounded in bytes as well as in entries."""

import pytest

from memrelay.bus.keys import PUBLIC
from tests.support.bundles import make_agent, make_bundle, make_uid
from tests.support.client import make_envelope, swarm_of
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

BOUND, TEXT, COUNT = 1 << 20, "x" * 20_000, 150
NEWS = "news"


@pytest.mark.parametrize("swarm", ["chat", NEWS])
def test_a_log_keeps_its_newest_messages_within_the_bound(swarm: str) -> None:
    uid = make_uid()
    with TestSystem() as system:
        agents = [make_agent(name, "add_1", senders="nobody", on=name) for name in ("chat", NEWS)]
        bundle = make_bundle(uid, *agents) | {"swarms": [{"name": NEWS, "visibility": "public"}]}
        system.start_worker(bundles=[bundle], limits={"log_bytes": BOUND})
        owner = PUBLIC if swarm == NEWS else uid
        log = swarm_of(owner, swarm)

        for number in range(COUNT):
            system.client.publish(owner, make_envelope(f"{number} {TEXT}"), swarm)
        wait_for(
            lambda: (
                str(COUNT - 1) == system.client.log(owner, swarm)[-1:][0].text.split()[0]
                if system.client.redis.xlen(log)
                else False
            ),
            "the last message is logged",
        )

        kept = [int(said.text.split()[0]) for said in system.client.log(owner, swarm)]
        assert kept == list(range(kept[0], COUNT)) and len(kept) > 20
        assert (system.client.redis.memory_usage(log, samples=0) or 0) < BOUND * 1.3
