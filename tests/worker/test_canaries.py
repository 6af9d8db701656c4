"""Found values are in no file, for each block and call that writes.

One worker, its stores with their logs, its dead letters and the append-only file of its server.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.msgpack import encode as to_msgpack

from memrelay.blocks.registry import list_blocks
from memrelay.blocks.sources import built_in_source
from memrelay.memory.models.inputs.packing import unpack
from tests.support.blocks import MINE, make_waiting
from tests.support.bundles import Json, make_agent, make_bundle
from tests.support.calls import call
from tests.support.canaries import Canary, make_canaries
from tests.support.client import make_envelope
from tests.support.deferred_calls import Service
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.worker_reports import type_command

UID, FAILING = "canaries", "failing"
POLICIES = [
    {
        "name": "no values",
        "match": {"find": ["secrets", "personal"]},
        "action": "redact",
        "internal": True,
    }
]
MEMORIES = {"memory_id": f"instances/{UID}/memories"}
NOWHERE: Json = {"url": "https://nowhere.invalid/", "body": {"text": "{{ message.text }}"}}


def to_json(**fields: Any) -> str:
    return orjson.dumps(fields).decode()


# Blocks that write: their arguments, and a message that they take. Each has a swarm of its name.
WRITERS: dict[str, tuple[Json, Callable[[str, int], str]]] = {
    "memory_write": (MEMORIES, lambda text, n: text),
    "memory_append": (MEMORIES, lambda text, n: text),
    "memory_turn": (MEMORIES, lambda text, n: text),
    "memory_entry_write": (MEMORIES | {"memory": "Team"}, lambda text, n: text),
    "remember": (MEMORIES, lambda text, n: to_json(key=f"k{n}", value={"a": [text]})),
    "memory_tool": (
        {},
        lambda text, n: to_json(command="create", path=f"/memories/k{n}", content=text),
    ),
}
# Blocks that keep something else of the message. In the same cascade, `memory_write` writes it.
OTHERS: dict[str, Json] = {
    "identify_user": MEMORIES,
    "http_request": NOWHERE | {"method": "POST"},
    "webhook_send": NOWHERE,
}
FAILURES: dict[str, Callable[[str, Path], str]] = {
    "test_fails": lambda text, file: f"{text} {MINE} /nowhere",
    "test_waits": lambda text, file: make_waiting(f"{text} at once", file, 1),
    "test_waits_then_crashes": lambda text, file: make_waiting(f"{text} at once", file, 1),
}
# Blocks that write nothing, so that no policy sees what they publish.
READERS = (
    *("add_1", "json_map", "json_match", "regex_filter", "regex_match", "template"),
    *("chat_agent", "viewer_agent", "knowledge_search", "memory_delete", "memory_read"),
    *("memory_search", "recall", "recipe", "consolidate"),
)
# Its tools write what the tests of its tools check. The others write what a model answers
# (tests/blocks/test_extract.py).
TESTED_ELSEWHERE = ("agent", "extract", "summarize")
CALLS: dict[str, Callable[[str, int], Json]] = {
    "records.create": lambda text, n: {"content": text, "data": {"a": text}, "tags": [text]},
    "records.put": lambda text, n: {
        "items": [{"scope": "s", "key": f"k{n}", "data": {"value": {"v": text}}}]
    },
    "documents.put": lambda text, n: {"collection": "c", "uri": f"u{n}", "text": text},
    "items.put": lambda text, n: {"agent": "a1", "store": "a1", "key": f"k{n}", "value": text},
}


def list_stores(uid: str) -> list[Json]:
    names = ("memories", "stores", "recipes", "langgraph")
    return [{"memory_id": f"instances/{uid}/{name}", "policies": POLICIES} for name in names]


def make_canary_bundle() -> Json:
    agents = [
        make_agent(f"does_{block}", block, args, senders="User", on=block, to=block)
        for block, args in [
            *((block, args) for block, (args, _) in WRITERS.items()),
            *OTHERS.items(),
        ]
    ]
    agents += [
        make_agent(f"writes_{block}", "memory_write", MEMORIES, senders="User", on=block, to=block)
        for block in OTHERS
    ]
    return make_bundle(UID, *agents, stores=list_stores(UID), inputs_days=7)


def make_failing_bundle() -> Json:
    """Return a bundle with a block that fails after a write, and one that has to be retried."""
    memories = {"memory_id": f"instances/{FAILING}/memories"}
    agents = [
        make_agent(f"does_{block}", block, memories, senders="User", on=block, to=block)
        for block in FAILURES
    ]
    asking = make_agent("asks", "test_asks_aside", senders="User", on="ask", to="ask")
    writing = make_agent("writes", "memory_write", memories, senders="asks", on="ask", to="ask")
    return make_bundle(
        FAILING, *agents, asking, writing, stores=list_stores(FAILING), inputs_days=7
    )


@pytest.fixture
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker(bundles=[make_canary_bundle(), make_failing_bundle()])
        yield system


def escape(data: bytes) -> bytes:
    """Write some characters of JSON texts in the way of libraries that escape them for HTML."""
    return data.replace(b"_", b"\\u005F").replace(b"-", b"\\u002d")


def send(system: TestSystem, canaries: Iterator[Canary], rounds: int) -> list[Canary]:
    """Send canaries in every way, `rounds` times. Return them."""
    sent = []
    for number in range(rounds):
        for block in [*WRITERS, *OTHERS]:
            sent.append(canary := next(canaries))
            make = WRITERS[block][1] if block in WRITERS else lambda text, n: text
            data = make_envelope(make(canary.text, number), more={"deep": [canary.text]})
            system.client.enter_raw(UID, escape(data) if number % 2 else data, swarm=block)
        for block, fail in FAILURES.items():
            sent.append(canary := next(canaries))
            text = fail(canary.text, system.folder / f"waits{number}")
            system.client.enter(FAILING, text, swarm=block)
    system.client.await_quiet(UID)
    system.client.await_quiet(FAILING)
    wait_for(lambda: len(system.contents(FAILING)) == 2 * rounds, "the retries are over")
    return sent


def ask(system: TestSystem, canaries: Iterator[Canary], rounds: int) -> list[Canary]:
    """Let a service answer with canaries, which a block writes then."""
    sent, before = [next(canaries) for _ in range(rounds)], len(system.contents(FAILING))
    with Service() as service:
        for number, canary in enumerate(sent):
            (file := system.folder / f"question{number}").write_text(f"{service.url} {canary.text}")
            system.client.enter(FAILING, str(file), swarm="ask")
        wait_for(
            lambda: len(system.contents(FAILING)) == before + rounds, "the answers are written"
        )
    return sent


def call_all(system: TestSystem, canaries: Iterator[Canary], rounds: int) -> list[Canary]:
    sent = []
    for number in range(rounds):
        for name, make in CALLS.items():
            sent.append(canary := next(canaries))
            call(system, UID, name, make(canary.text, number), producer_id=f"{name}{number}")
    return sent


def settle(system: TestSystem) -> None:
    """End the worker, empty the logs of its stores, and rewrite the append-only file."""
    system.workers[-1].stop()
    for path in system.root.rglob("*.db"):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    bus = system.client.redis
    bus.bgrewriteaof()
    wait_for(lambda: not bus.info("persistence")["aof_rewrite_in_progress"], "it is rewritten")


def find_left(system: TestSystem, canaries: Sequence[Canary]) -> list[tuple[str, str]]:
    """Return (pattern, file) of each canary that a file holds."""
    folders = system.root, system.folder / "bus"
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    paths += [Path(log) for log in system.folder.glob("*.log")]
    contents = {str(path.relative_to(system.folder)): path.read_bytes() for path in paths}
    assert any(b"[email:" in content or b"_key:" in content for content in contents.values())
    for path in system.root.rglob("memories.db"):
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT data FROM inputs").fetchall()
        assert rows
        kept = [to_msgpack(unpack(data)) for (data,) in rows]
        contents[f"kept inputs of {path.parent.name}"] = b"".join(kept)
    values = [max(one.value.split("\n"), key=len).encode() for one in canaries]
    return [
        (canary.name, name)
        for canary, value in zip(canaries, values, strict=True)
        for name, content in contents.items()
        if value in content or escape(value) in content
    ]


def test_each_built_in_block_is_in_a_list() -> None:
    listed = [*WRITERS, *OTHERS, *READERS, *TESTED_ELSEWHERE]
    # Other tests of this process may have loaded blocks of their own.
    assert {one.name for one in list_blocks() if built_in_source(one.name)} == set(listed)


@pytest.mark.parametrize("rounds", [2, pytest.param(36, marks=pytest.mark.slow, id="500 canaries")])
def test_no_canary_is_in_a_file(system: TestSystem, rounds: int) -> None:
    canaries = make_canaries(100_000)
    sent = send(system, canaries, rounds) + call_all(system, canaries, rounds)
    sent += ask(system, canaries, min(rounds, 4))

    exported = type_command(system, "export", UID, "--records").stdout
    letters = system.dead_letters(FAILING)
    settle(system)

    assert len(letters) == rounds and "[" in exported
    assert find_left(system, sent) == []
    assert [one.name for one in sent if one.value in exported] == []
