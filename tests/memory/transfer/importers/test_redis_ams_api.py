"""Redis agent-memory-server over its REST API."""

import json
from collections.abc import Iterator

import pytest

from memrelay.memory.transfer.importers.redis_ams_api import read_api
from memrelay.memory.transfer.importers.source import (
    Fact,
    Fault,
    RefusedFile,
    SourceInput,
    SourceItem,
    Turn,
    all_sources,
)
from tests.support.agent_memory_server import AgentMemoryServer
from tests.support.foreign import FIXTURES

MEMORIES = [
    {"id": str(number), "text": f"Memory {number}.", "memory_type": "semantic", "user_id": "ada"}
    for number in range(250)
]
WORKING = json.loads((FIXTURES / "redis_ams_working.json").read_bytes())


@pytest.fixture
def server() -> Iterator[AgentMemoryServer]:
    with AgentMemoryServer(MEMORIES, {"trip-2": WORKING}) as started:
        yield started


def read(url: str, *, private: bool = False) -> list[SourceItem]:
    pages = read_api(url, private=private)
    return list(all_sources()["redis-ams"].read(SourceInput(None, pages=pages)))


def test_all_pages_and_sessions_are_read(server: AgentMemoryServer) -> None:
    found = read(f"{server.url}/")

    facts = [one for one in found if isinstance(one, Fact)]
    assert [one.text for one in facts[:250]] == [str(one["text"]) for one in MEMORIES]
    assert facts[250].text == "Ada travels by train."
    assert [one.text for one in found if isinstance(one, Turn)] == ["Which train?", "The Nozomi."]
    assert (facts[0].position, facts[150].position) == (
        "answer 1, memories[0]",
        "answer 2, memories[50]",
    )


def test_the_same_items_are_read_again(server: AgentMemoryServer) -> None:
    given = SourceInput(None, pages=read_api(server.url, private=False))
    source = all_sources()["redis-ams"]

    assert list(source.read(given)) == list(source.read(given))


def test_a_session_that_expired_meanwhile_is_reported(server: AgentMemoryServer) -> None:
    server.sessions, server.expired = {"a/b": WORKING}, ["gone"]

    found = read(server.url)

    assert Fault("session gone", "the server answers 404") in found
    assert any(isinstance(one, Turn) for one in found)


def test_a_full_last_page_ends_the_search(server: AgentMemoryServer) -> None:
    server.memories = MEMORIES[:200]

    assert len([one for one in read(server.url) if isinstance(one, Fact)]) == 201


def test_a_server_that_repeats_a_page_is_refused(server: AgentMemoryServer) -> None:
    server.repeats = True

    with pytest.raises(RefusedFile, match="repeats"):
        read(server.url)


@pytest.mark.parametrize("status", [302, 401, 500])
def test_another_status_is_refused(server: AgentMemoryServer, status: int) -> None:
    server.status = status

    with pytest.raises(RefusedFile, match=f"answers {status}"):
        read(server.url)


def test_another_api_is_refused(server: AgentMemoryServer) -> None:
    with pytest.raises(RefusedFile, match="answers 404"):
        read(f"{server.url}/v9")


def test_a_private_address_needs_the_setting() -> None:
    with pytest.raises(RefusedFile, match=r"port 9 in `outgoing\.private` for import"):
        read("http://10.255.255.1:9")


def test_a_closed_port_is_reported(server: AgentMemoryServer) -> None:
    url = server.url
    server.shutdown()
    server.server_close()

    with pytest.raises(RefusedFile, match="cannot be reached"):
        read(url)


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://localhost", "http://a:b@localhost", "http://[", "http://"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(RefusedFile, match="--url"):
        read_api(url, private=False)
