"""The edges of a diagram that messages used in the last seconds, and failing agents."""

import asyncio
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.streams.log import HEAD_BYTES, RecentEntry, read_recent
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.dead_letters import DeadLetter
from memrelay.web.console.activity import (
    SeenMessage,
    count_failures,
    count_uses,
    parse_entry,
)
from memrelay.web.console.graph import draw_graph
from tests.support.bundles import make_agent, make_commands
from tests.support.client import make_envelope
from tests.support.pages import text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.web.test_console_graph import make_agent as make_view

CHAIN = [
    make_view("pick", senders=("User",)),
    make_view("keep", senders=("pick",)),
    make_view("other", senders=("User",)),
]


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def uses(*seen: SeenMessage) -> dict[str, int]:
    """Return the number of messages by the title of the edge that they passed."""
    found = count_uses(draw_graph(CHAIN).edges, CHAIN, seen)
    return {used.edge.title: used.messages for used in found}


def test_a_message_marks_the_edges_to_the_agents_that_answered_it() -> None:
    seen = [
        SeenMessage("chat", "User", "1-0", 0),
        SeenMessage("chat", "pick", "1-0", 1),
        SeenMessage("chat", "keep", "1-0", 2),
    ]

    assert uses(*seen) == {
        "pick listens on chat to User": 1,
        "keep listens to pick on chat": 1,
        "keep publishes on chat": 1,
    }


def test_a_message_that_no_agent_answered_marks_no_edge() -> None:
    assert uses(SeenMessage("chat", "User", "1-0", 0)) == {}


def test_answers_to_another_message_do_not_count() -> None:
    seen = [SeenMessage("chat", "User", "1-0", 0), SeenMessage("chat", "pick", "2-0", 1)]

    assert uses(*seen) == {}


def test_an_agent_that_never_answers_uses_every_message_that_it_accepts() -> None:
    viewer = [make_view("viewer", senders=("!quiet",), to="")]
    seen = [SeenMessage("chat", name, "1-0", 0) for name in ("User", "Anna", "quiet")]

    (used,) = count_uses(draw_graph(viewer).edges, viewer, seen)

    assert used.messages == 2


@given(
    st.text(max_size=100),
    st.text(alphabet="abc/.-0123456789", max_size=40),
    st.integers(min_value=0, max_value=10_000),
)
def test_the_head_of_an_entry_identifies_its_message(sender: str, root: str, number: int) -> None:
    data = make_envelope("x" * 2000, sender)

    seen = parse_entry("chat", RecentEntry(f"{root}.{number}~0123abcd", data[:HEAD_BYTES]))

    assert seen == SeenMessage("chat", sender, root, number)


def test_a_foreign_entry_has_no_sender() -> None:
    assert parse_entry("chat", RecentEntry("x", b'{"text": "tea"}')) == SeenMessage(
        "chat", "", "", 0
    )


def test_an_error_is_counted_for_the_agent_that_it_names_last() -> None:
    agents = [make_view("a (b), c"), make_view("d")]
    errors = [
        "Refused: no (agent d, block x) here (agent a (b), c, block add_1)",
        "Refused: no (agent gone, block add_1)",
        "TooManyHops: no",
    ]

    assert count_failures(agents, errors) == {"a (b), c": 1}


async def read(web_system: WebSystem, uid: str, within_ms: int) -> list[list[RecentEntry]]:
    async with ReconnectingConnection(Address(path=str(web_system.system.client.socket))) as line:
        logs = [(uid, "chat"), (uid, "none"), (uid, "wrong")]
        return await read_recent(line, logs, within_ms=within_ms, limit=50)


def test_a_read_of_recent_entries_is_bounded_in_age_number_and_bytes(web_system: WebSystem) -> None:
    uid, redis = web_system.deploy(), web_system.system.client.redis
    redis.set(f"swarm:{{{uid}}}:wrong", "x")
    redis.xadd(f"swarm:{{{uid}}}:chat", {"mid": "old", "data": "x"}, id="1000-0")
    for number in range(60):
        data = make_envelope("x" * 5000, f"sender {number}")
        redis.xadd(f"swarm:{{{uid}}}:chat", {"mid": f"1-0.{number}~00000000", "data": data})

    recent, none, wrong = asyncio.run(read(web_system, uid, 60_000))

    assert len(recent) == 50 and recent[0].mid == "1-0.59~00000000" and none == wrong == []
    assert all(len(entry.head) <= HEAD_BYTES for entry in recent)


def count_edges(web_system: WebSystem, uid: str) -> list[int]:
    """Return the numbers at the used edges in the refreshed statistics."""
    page = web_system.get(f"/pipelines/{uid}/stats").body.decode()
    return [int(found) for found in re.findall(r'class="edge used.*?>(\d+)</text>', page)]


def test_the_refreshed_statistics_show_used_edges(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_commands())
    before = count_edges(web_system, uid)
    web_system.say(uid, {"text": "/write tea"}, query="?wait=60")
    web_system.say(uid, {"text": "/write milk"}, query="?wait=60")

    wait_for(lambda: count_edges(web_system, uid) == [2, 2, 2], "three edges carried two messages")

    assert before == []
    page = web_system.get(f"/pipelines/{uid}").body.decode()
    assert page.count('class="edge used') == 3 and "data-replace" not in page


async def bury(web_system: WebSystem, uid: str, error: str, *, is_old: bool = False) -> None:
    """Store a dead letter of the active version, or of an earlier one."""
    async with Catalog(web_system.system.root) as catalog:
        active = await catalog.serving(uid)
        assert active is not None
        bundle = "0" * 64 if is_old else active.hash
        await catalog.dead_letters.add([DeadLetter(uid, error, "chat", b"x", error, bundle, 1000)])


def test_an_agent_is_marked_if_it_fails_under_the_active_version(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_agent("one", "add_1"), make_agent("two", "add_1"))
    asyncio.run(bury(web_system, uid, "ValueError: no (agent one_, block add_1)", is_old=True))
    asyncio.run(bury(web_system, uid, "ValueError: no (agent two_, block add_1)"))

    def find_marks() -> list[str]:
        page = web_system.get(f"/pipelines/{uid}/stats").body.decode()
        return re.findall(r'class="mark failing"><rect x="\d+" y="(\d+)"', page)

    (at,) = wait_for(find_marks, "the failing agent is marked")

    page = web_system.get(f"/pipelines/{uid}")
    assert "Failing: two (1 of the latest dead letters)" in text_of(page)
    assert re.search(rf'href="#agent-two_".*?<rect x="\d+" y="{at}"', page.body.decode())


def test_a_paused_pipeline_marks_all_agents(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    with web_system.system.client.redis.pipeline() as pipe:
        pipe.delete(f"pipeline:{{{uid}}}:in")
        pipe.set(f"pipeline:{{{uid}}}:in", "wrong type")
        pipe.execute()

    def shows_marks() -> bool:
        return web_system.get(f"/pipelines/{uid}/stats").body.count(b'class="mark') == 10

    wait_for(shows_marks, "all agents are marked as paused")
    assert "Paused: " in text_of(web_system.get(f"/pipelines/{uid}"))
