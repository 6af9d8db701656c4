"""Row 15: messages from a pipeline without a store to a public swarm, with the worker killed at
each step.
"""

import pytest

from memrelay.bus.keys import PUBLIC
from tests.faults.conftest import RecordFigures
from tests.faults.invariants import (
    WITHIN_S,
    assert_answers_agree,
    assert_invariants,
    remaining_work,
)
from tests.support.bundles import Json, make_bundle, make_memory, make_relay, make_uid
from tests.support.system import TestSystem
from tests.support.worker import arm

NEWS = "news"
IN_PUBLIC: Json = {"swarms": [{"name": NEWS, "visibility": "public"}]}


def make_both(speaker: str, keeper: str) -> list[Json]:
    """Return two bundles: a relay publishes /tell TEXT in public, and the other pipeline stores
    it, like messages of `User` there.
    """
    keep = make_memory("write", senders=["dispatch_tell", "User"]) | {"agent_rec_swarm": NEWS}
    bundles = (
        make_bundle(speaker, make_relay("tell", r"^/tell\s+(.*)", to=NEWS)),
        make_bundle(keeper, keep),
    )
    return [bundle | IN_PUBLIC for bundle in bundles]


def enter(system: TestSystem, uid: str, number: int) -> list[str]:
    """Send messages in each way; return the texts that must be stored."""
    words = [f"word{number}.{place}" for place in range(4)]
    system.client.enter(uid, f"/tell {words[0]}")
    system.client.enter(uid, words[1], swarm=NEWS)
    system.client.enter(uid, words[2], swarm=NEWS, id=words[2])
    system.client.enter(uid, f"/tell {words[3]}")
    return words


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_public_messages_without_a_store_arrive_once_and_in_order(
    record_figures: RecordFigures,
) -> None:
    speaker, keeper, words, kills = make_uid(), make_uid(), list[str](), 0
    with TestSystem() as system:

        def is_done() -> bool:
            return (
                len(system.contents(keeper)) == len(words)
                and not remaining_work(system, speaker)
                and not remaining_work(system, keeper)
            )

        worker = system.start_stepping_worker(
            armed=False, die_at=1, bundles=make_both(speaker, keeper)
        )
        while True:
            arm(worker)
            words += enter(system, speaker, kills)
            if worker.lives_until(is_done, WITHIN_S):
                break
            kills += 1
            worker = system.start_stepping_worker(armed=False, die_at=kills + 1)
            assert worker.lives_until(is_done, WITHIN_S)

        assert_invariants(system, keeper, words)
        assert_answers_agree(system, PUBLIC, NEWS)
        assert list(dict.fromkeys(said.text for said in system.client.log(PUBLIC, NEWS))) == words
        assert kills > 4, system.steps
        record_figures(
            15,
            "kill -9 of the worker where a pipeline without a store speaks in public",
            kills=kills,
            effects=len(words),
        )
