"""Row 15: messages from a pipeline without a store to a public swarm, with the worker killed at
each step.
"""

import pytest

from memrelay.bus.keys import PUBLIC
from tests.faults.conftest import Tell
from tests.faults.promises import WITHIN_S, assert_answers_agree, assert_promises, left
from tests.support.bundles import Json, make_bundle, make_memory, make_relay, make_uid
from tests.support.house import House
from tests.support.worker import arm

NEWS = "news"
IN_PUBLIC: Json = {"swarms": [{"name": NEWS, "visibility": "public"}]}


def make_both(speaker: str, keeper: str) -> list[Json]:
    """Return two bundles: a relay publishes /tell TEXT in public, and the other pipeline stores
    it, like messages of `User` there.
    """
    keep = make_memory("write", hears=["dispatch_tell", "User"]) | {"agent_rec_swarm": NEWS}
    bundles = (
        make_bundle(speaker, make_relay("tell", r"^/tell\s+(.*)", to=NEWS)),
        make_bundle(keeper, keep),
    )
    return [bundle | IN_PUBLIC for bundle in bundles]


def enter(house: House, uid: str, number: int) -> list[str]:
    """Send messages in each way; return the texts that must be stored."""
    words = [f"word{number}.{place}" for place in range(4)]
    house.client.enter(uid, f"/tell {words[0]}")
    house.client.enter(uid, words[1], swarm=NEWS)
    house.client.enter(uid, words[2], swarm=NEWS, id=words[2])
    house.client.enter(uid, f"/tell {words[3]}")
    return words


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_public_messages_without_a_store_arrive_once_and_in_order(tell: Tell) -> None:
    speaker, keeper, words, kills = make_uid(), make_uid(), list[str](), 0
    with House() as house:

        def is_done() -> bool:
            return (
                len(house.contents(keeper)) == len(words)
                and not left(house, speaker)
                and not left(house, keeper)
            )

        worker = house.start_stepping_worker(
            armed=False, die_at=1, bundles=make_both(speaker, keeper)
        )
        while True:
            arm(worker)
            words += enter(house, speaker, kills)
            if worker.lives_until(is_done, WITHIN_S):
                break
            kills += 1
            worker = house.start_stepping_worker(armed=False, die_at=kills + 1)
            assert worker.lives_until(is_done, WITHIN_S)

        assert_promises(house, keeper, words)
        assert_answers_agree(house, PUBLIC, NEWS)
        assert list(dict.fromkeys(said.text for said in house.client.log(PUBLIC, NEWS))) == words
        assert kills > 4, house.steps
        tell(
            15,
            "kill -9 of the worker where a pipeline without a store speaks in public",
            kills=kills,
            effects=len(words),
        )
