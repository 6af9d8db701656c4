"""Rows that earlier versions wrote into stores are read: hop counts in the names of swarms."""

import msgspec
import pytest

from memrelay.bus.codec import encode
from memrelay.bus.keys import PublicSwarm
from memrelay.bus.message import new_message
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.inputs import Published, from_pending, to_pending
from memrelay.worker.run.outcome import Outcome
from tests.support.bundles import make_bundle

PLAN = Plan(check(make_bundle("p")).accepted())
DATA = encode(new_message("User", "me", "tea", username="User", now_ms=1))


def make_outcome(*outputs: object) -> Outcome:
    outcome = Outcome("p/1-0", "1-0", "p", "1-0", "")
    outcome.take_outputs(msgspec.msgpack.encode(outputs), [("news", b"own")], 3)
    return outcome


@pytest.mark.parametrize(
    ("published", "swarm"), [(-4, "{3}other"), (-1, PublicSwarm("other", 3))], ids=["old", "new"]
)
def test_outputs_for_public_swarms_are_read(published: int, swarm: object) -> None:
    outcome = make_outcome("1-0", published, [1], [(swarm, b"x"), ("chat", b"y")])

    assert outcome.messages == [
        (PublicSwarm("news", 3), b"own"),
        (PublicSwarm("other", 3), b"x"),
        ("chat", b"y"),
    ]
    assert (outcome.published, outcome.results, outcome.size) == (Published.NO, [1], 5)


@pytest.mark.parametrize("published", [Published.CHANNEL, Published.CHANNEL_AND_LOG])
def test_outputs_of_published_messages_stay_on_their_swarm(published: Published) -> None:
    outcome = make_outcome("1-0", int(published), [], [])

    assert (outcome.messages, outcome.published) == ([("news", b"own")], published)


@pytest.mark.parametrize(("published", "swarm"), [(-4, "{3}news"), (-1, "news")])
def test_pending_rows_for_public_swarms_are_read(published: int, swarm: str) -> None:
    row = Pending("p/1-0.again", "p", "b", "", swarm, 3, DATA, "1-0", "", 9, 1, "mine", published)

    work = from_pending(row, PLAN)

    assert (work.swarm, work.hop, work.published) == ("news", 3, Published.PUBLIC_NEXT)
    assert to_pending(work, 9)[4:6] == ("news", 3) and to_pending(work, 9).published == -1
