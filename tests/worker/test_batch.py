"""A batch that comes back says the same, to the byte, whatever of it the inbox keeps."""
from pathlib import Path

import pytest

from bus.codec import encode
from bus.message import say
from bus.resp import SwarmPen
from memory.stores import OpenStores
from pipelines.check import check
from pipelines.plan import Plan
from tests.support.bundles import Json, make_bundle, make_commands
from worker.batch import Batch
from worker.inputs import Entry
from worker.limits import WorkerLimits
from worker.outcome import Outcome

DATA = encode(say("User", "me", "/write tea", username="User", now_ms=1_700_000_000_000))
FOREIGN = b'{"args": [{"text": "/write tea", "more": [1]}], "id": "me", "from": "User", "mid": "x"}'


def make_plan(user: str = "User") -> Plan:
    chat: Json = {"agent_class": "chat_agent", "agent_alias": "chat", "agent_name": user, "agent_send_swarm": "chat"}
    bundle = check(make_bundle("p", *make_commands(), chat)).bundle
    assert bundle is not None
    return Plan(bundle)


def run(plan: Plan, root: Path, *fields: bytes, ident: str = "1700000000000-0") -> Outcome:
    stores = OpenStores(root, 10)
    (outcome,) = Batch([Entry(ident, plan, list(fields))], WorkerLimits(), settled={})(stores).outcomes
    stores.close_all()
    return outcome


def said_by(outcome: Outcome) -> list[bytes]:
    logged, live = SwarmPen(outcome.uid, 10).write((outcome.said_by or outcome.id).encode(), outcome.said)
    return logged + live[outcome.heard:]


@pytest.mark.parametrize("fields", [
    (b"swarm", b"chat", b"data", DATA), (b"swarm", b"chat", b"data", FOREIGN),
    (b"swarm", b"chat", b"data", DATA, b"heard", b"1"), (b"agent", b"chat", b"data", DATA),
    (b"agent", b"memory_write_", b"data", DATA), (b"swarm", b"chat", b"data", DATA, b"id", b"mine")])
def test_an_input_that_comes_back_says_the_same_also_under_another_bundle(tmp_path: Path, fields: tuple[bytes, ...]) -> None:
    first = run(make_plan(), tmp_path, *fields)

    again = run(make_plan(user="Somebody"), tmp_path, *fields)

    assert first.said and first.store
    assert (said_by(again), again.results, again.size) == (said_by(first), first.results, first.size)


def test_a_message_sent_twice_under_its_producers_id_says_what_the_first_said(tmp_path: Path) -> None:
    first = run(make_plan(), tmp_path, b"swarm", b"chat", b"data", DATA, b"id", b"mine")

    second = run(make_plan(), tmp_path, b"swarm", b"chat", b"data", FOREIGN, b"id", b"mine", ident="1700000000000-1")

    assert first.said and said_by(second) == said_by(first)
