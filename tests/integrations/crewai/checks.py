"""MemrelayStorage with the real CrewAI, next to the storage that CrewAI brings along."""

import asyncio
import copy
import json
import random
import re
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from crewai import BaseLLM, Memory
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord
from killing import add_until_killed, assert_kept
from pages import EXAMPLES, read_program, run
from servers import Server

from memrelay import connect, open_store
from memrelay.integrations.crewai import MemrelayStorage

SIZE = 8
SCOPES = ("/team", "/team/a", "/team/a/b", "/other", "/other/c")
CATEGORIES = ("food", "travel", "work")
QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}
CHILD = """
import sys
from itertools import count
from crewai.memory.types import MemoryRecord
from memrelay import open_store
from memrelay.integrations.crewai import MemrelayStorage

with open_store("memory.db", embedder="none") as store:
    storage = MemrelayStorage(store, user="ada")
    for n in count(int(sys.argv[-1]), 2):
        storage.save(
            [
                MemoryRecord(id=f"m{one}", content=str(one), embedding=[1.0, float(one)])
                for one in (n, n + 1)
            ]
        )
        print(f"{n}\\n{n + 1}", flush=True)
"""


@pytest.fixture(params=["file", "server"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemrelayStorage]:
    if request.param == "file":
        with open_store(tmp_path / "memory.db", embedder="none") as store:
            yield MemrelayStorage(store, user="ada")
        return
    server: Server = request.getfixturevalue("server")
    with server.connect_sync() as client:
        yield MemrelayStorage(client, user=request.node.name)


def make_record(choose: random.Random, number: int) -> MemoryRecord:
    return MemoryRecord(
        id=f"m{number}",
        content=f"memory {number} é",
        scope=choose.choice(SCOPES),
        categories=choose.sample(CATEGORIES, choose.randrange(3)),
        metadata={"n": choose.randrange(3), "deep": {"a": [1, None, 2.5]}},
        importance=0.25,
        created_at=datetime(2026, 1, 1) + timedelta(minutes=number),
        last_accessed=datetime(2026, 1, 2),
        source="ada",
        private=number % 5 == 0,
        embedding=unit([choose.gauss(0, 1) for _ in range(SIZE)]),
    )


def unit(vector: list[float]) -> list[float]:
    length = sum(one * one for one in vector) ** 0.5
    return [one / length for one in vector]


def test_the_storage_does_what_the_storage_of_crewai_does(
    storage: MemrelayStorage, tmp_path: Path
) -> None:
    choose = random.Random(7)
    theirs = LanceDBStorage(path=str(tmp_path / "lance"), vector_dim=SIZE)
    assert isinstance(storage, StorageBackend)
    number = 0
    for _ in range(60):
        scope = choose.choice((None, "/", *SCOPES, "/nobody"))
        step = choose.choice(["save", "save", "update", "delete", "reset", "search", "read"])
        for one in (storage, theirs):
            again = random.Random(number)
            if step == "save":
                one.save([make_record(again, number + n) for n in range(4)])
            elif step == "update":
                one.update(make_record(again, number - 1).model_copy(update={"content": "new"}))
            elif step == "delete":
                one.delete(record_ids=[f"m{number - 2}", "nobody"])
                one.delete(scope_prefix=scope, categories=["food"], metadata_filter={"n": 1})
            elif step == "reset" and again.random() < 0.2:
                one.reset(scope)
        number += 4 if step == "save" else 0
        compare(storage, theirs, choose, scope)
    assert number > 40


def compare(
    ours: MemrelayStorage, theirs: LanceDBStorage, choose: random.Random, scope: str | None
) -> None:
    asked = unit([choose.gauss(0, 1) for _ in range(SIZE)])
    categories = choose.choice((None, ["food", "work"]))
    found, expected = (
        one.search(asked, scope_prefix=scope, categories=categories, limit=200)
        for one in (ours, theirs)
    )
    positive = [record for record, _ in expected if cosine(record, asked) > 0]
    assert [show(record) for record, _ in found][: len(positive)] == [
        show(record) for record in positive
    ]
    for record, score in found:
        assert score == pytest.approx(max(cosine(record, asked), 0), abs=1e-5)
    assert ours.count(scope) == theirs.count(scope)
    assert [*map(show, ours.list_records(scope, limit=5, offset=1))] == [
        *map(show, theirs.list_records(scope, 5, 1))
    ]
    assert ours.list_scopes(scope or "/") == theirs.list_scopes(scope or "/")
    assert ours.list_categories(scope) == theirs.list_categories(scope)
    assert ours.get_scope_info(scope or "/") == theirs.get_scope_info(scope or "/")
    for ident in ("m1", "m7"):
        mine, other = ours.get_record(ident), theirs.get_record(ident)
        assert (mine and show(mine)) == (other and show(other))
        assert mine is None or mine.embedding == pytest.approx(other.embedding)


def show(record: MemoryRecord) -> dict[str, Any]:
    """Return a record without its embedding."""
    return record.model_dump()


def cosine(record: MemoryRecord, asked: list[float]) -> float:
    assert record.embedding is not None
    return sum(a * b for a, b in zip(record.embedding, asked, strict=True))


def test_records_come_back_equal_and_are_deleted_exactly(storage: MemrelayStorage) -> None:
    old = MemoryRecord(id="old", content="x" * 100_000, scope="/teams", embedding=[1.0, 0.5])
    new = MemoryRecord(id="new", content="tea", scope="team/", created_at=datetime.now(UTC))
    storage.save([])
    storage.save([old, new])
    assert storage.get_record("old") == old and storage.get_record("new") == new
    assert storage.count("/team") == 1 and storage.list_scopes() == ["/team", "/teams"]
    assert [record for record, _ in storage.search([1.0, 0.5], min_score=0.99)] == [old]
    assert storage.search([-1.0, -0.5], min_score=0.1) == []
    storage.update(old.model_copy(update={"embedding": None, "scope": "/team/x"}))
    assert [record.id for record, _ in storage.search([1.0, 0.5], "/team")] == ["old"]
    assert storage.delete(record_ids=[]) == 0 and storage.delete(record_ids=["nobody"]) == 0
    assert storage.delete(record_ids=["old"], scope_prefix="/teams") == 0
    assert storage.delete(older_than=datetime(2026, 1, 1)) == 0
    assert storage.delete(older_than=datetime.now(UTC) + timedelta(days=1), categories=[]) == 2
    assert storage.count() == 0 and storage.search([1.0, 0.5]) == []


def test_embeddings_have_one_size(storage: MemrelayStorage) -> None:
    storage.save([MemoryRecord(id="a", content="a", embedding=[1.0, 0.0])])
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([MemoryRecord(id="b", content="b", embedding=[1.0])])
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.search([1.0, 0.0, 0.0])
    assert storage.get_record("b") is None


def test_users_are_apart_and_copies_share(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        ada, bob = MemrelayStorage(store, user="ada"), MemrelayStorage(store, user="bob")
        ada.save([MemoryRecord(id="a", content="a", embedding=[1.0])])
        assert bob.count() == 0 and bob.search([1.0]) == [] and bob.get_record("a") is None
        bob.reset()
        assert copy.deepcopy({"memory": ada})["memory"].count() == 1

        async def use() -> None:
            await bob.asave([MemoryRecord(id="b", content="b", embedding=[1.0])])
            assert [record.id for record, _ in await bob.asearch([1.0], limit=1)] == ["b"]
            assert await bob.adelete(record_ids=["b"]) == 1

        asyncio.run(use())


def test_a_client_that_cannot_wait_is_refused_with_a_remedy(server: Server) -> None:
    storage = MemrelayStorage(connect(server.url))
    with pytest.raises(TypeError, match="connect_sync"):
        storage.count()


class Silent(BaseLLM):
    """Answers what makes CrewAI keep a text as it is."""

    def call(self, messages: Any, *arguments: Any, **named: Any) -> str:
        return "."


def embed_words(texts: list[str]) -> list[list[float]]:
    vectors = [[0.0] * 64 for _ in texts]
    for vector, text in zip(vectors, texts, strict=True):
        for word in re.findall(r"\w+", text.lower()):
            vector[zlib.crc32(word.encode()) % 64] += 1.0
    return vectors


def test_the_memory_of_crewai_remembers_recalls_and_forgets(storage: MemrelayStorage) -> None:
    memory = Memory(storage=storage, llm=Silent(model="silent"), embedder=embed_words)
    kept = {"categories": ["food"], "importance": 0.9, "metadata": {"by": "ada"}}
    nuts = memory.remember("Ada is allergic to walnuts", scope="/facts", **kept)
    memory.remember("The train leaves at nine", scope="/plans", **kept)
    assert nuts is not None
    for depth in ("shallow", "deep"):
        best = memory.recall("allergic to walnuts", depth=depth, limit=1)[0].record
        assert (best.id, best.content) == (nuts.id, "Ada is allergic to walnuts")
    assert memory.recall("allergic to walnuts", scope="/plans", depth="shallow", limit=1)[
        0
    ].record.content.startswith("The train")
    memory.update(nuts.id, content="Ada is allergic to hazelnuts")
    best = memory.recall("hazelnuts", depth="shallow", limit=1)[0].record
    assert best.id == nuts.id and best.created_at == nuts.created_at
    assert memory.info("/").record_count == 2 and memory.list_scopes() == ["/facts", "/plans"]
    assert memory.forget(scope="/facts") == 1
    memory.reset()
    assert memory.info("/").record_count == 0


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path, batch=2, rounds=3)

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        storage = MemrelayStorage(store, user="ada")
        records = storage.list_records(limit=1_000_000)
        found = storage.search([1.0, 1.0], limit=1_000_000)
    assert_kept(sorted(int(record.content) for record in records), killed)
    assert {record.id for record, _ in found} == {record.id for record in records}


def test_the_program_of_the_page_remembers(tmp_path: Path) -> None:
    program = read_program("crewai")

    with serve_openai() as model:
        address = f"http://127.0.0.1:{model.server_port}/v1"
        keys = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": address, "HOME": str(tmp_path)}
        printed = run(program, tmp_path, environment=QUIET | keys)
        first = len(model.requests)
        run(program, tmp_path, "Which cake has no walnuts?", environment=QUIET | keys)

    assert "Noted." in printed
    assert not any("Relevant memories" in one for one in model.requests[:first])
    asked = next(one for one in model.requests[first:] if "Relevant memories" in one)
    assert "I am allergic to walnuts." in asked


def test_the_program_with_a_server_counts_memories(server: Server) -> None:
    names: dict[str, Any] = {}
    exec(read_program("crewai", 1), names)

    with server.connect_sync() as client:
        MemrelayStorage(client, user="eve").save([MemoryRecord(content="tea")])

    assert names["count_memories"](server.url, "eve") == 1


def test_the_example_remembers_in_another_process(tmp_path: Path) -> None:
    agent, environment = EXAMPLES / "crewai_agent/agent.py", QUIET | {"HOME": str(tmp_path)}

    fact = "remember: Ada is allergic to walnuts"
    run(agent, tmp_path, fact, environment=environment)
    printed = run(agent, tmp_path, "May Ada eat walnuts?", environment=environment)

    assert re.search(r"I remember:\n- \(score=[0-9.]+\) Ada is allergic to walnuts", printed)


class OpenAIServer(ThreadingHTTPServer):
    """Answers each request to OpenAI's API with a word, or with vectors of words."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[str] = []


@contextmanager
def serve_openai() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: OpenAIServer

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        request = json.loads(text)
        answer: Any = {"object": "list", "model": request["model"]}
        answer["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if self.path.endswith("/embeddings"):
            answer["data"] = [
                {"object": "embedding", "index": index, "embedding": vector}
                for index, vector in enumerate(embed_words(request["input"]))
            ]
        else:
            self.server.requests.append(text)
            message = {"role": "assistant", "content": "Noted."}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer |= {"id": "1", "object": "chat.completion", "created": 1, "choices": [choice]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
