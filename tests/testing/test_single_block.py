"""run_block calls a block as the worker does, on a store in a file."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from memrelay import AsyncCall, BlockArgs, Call, Message, Transient, block, open_store
from memrelay.blocks import registry
from memrelay.blocks.add_1 import add_1
from memrelay.blocks.http_request import http_request
from memrelay.blocks.memory_args import MemoryArgs
from memrelay.blocks.memory_search import memory_search
from memrelay.blocks.memory_write import memory_write
from memrelay.errors import OperationFailed, StoreBusy
from memrelay.memory.operations import Context
from memrelay.memory.records.writing import CreateRecord, create, write
from memrelay.testing import run_block

URL = "https://api.example.com/words"


@pytest.fixture
def names() -> Iterator[None]:
    """Remove the blocks that a test declares."""
    yield
    for name, one in list(registry._blocks.items()):
        if one.handle is not None and one.handle.__module__ == __name__:
            del registry._blocks[name]


def test_a_block_answers_with_its_arguments() -> None:
    answer = run_block(add_1, "3", agent="Adder", amount=4)

    assert answer is not None
    assert (answer.text, answer.sender) == ("7", "Adder")


def test_blocks_share_the_store_of_a_file_that_open_store_reads(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    for text in ("tea", "coffee"):
        run_block(memory_write, text, path, kind="drink")
    found = run_block(memory_search, "coffee", path)
    with open_store(path) as store:
        records = store.records.list().items

    assert found is not None
    assert [one["content"] for one in orjson.loads(found.text)] == ["coffee"]
    assert [(one.content, one.kind, one.source) for one in records] == [
        ("tea", "drink", "agent"),
        ("coffee", "drink", "agent"),
    ]


def test_a_block_without_a_file_has_an_empty_store() -> None:
    run_block(memory_write, "tea")
    found = run_block(memory_search, "tea")

    assert found is not None and found.text == "[]"


@pytest.mark.usefixtures("names")
def test_the_writes_of_a_block_that_fails_are_rolled_back(tmp_path: Path) -> None:
    @block("fails_late", MemoryArgs)
    def fails_late(call: Call, args: MemoryArgs) -> None:
        context = Context(call.now_ms, call.agent.name, 1 << 20, call.new_guid)
        create(call.tx, CreateRecord(call.text), context)
        raise Transient("not now")

    path = tmp_path / "notes.db"
    with pytest.raises(Transient, match="not now"):
        run_block(fails_late, "tea", path)

    with open_store(path) as store:
        assert store.records.list().total == 0


def test_a_test_answers_deferred_calls() -> None:
    value = {"status": 200, "headers": {}, "body": {"meaning": "a drink"}}
    answer = run_block(http_request, "{}", url=URL, answers=[value])
    failed = run_block(http_request, "{}", url=URL, answers=[TimeoutError("too slow")])

    assert answer is not None and orjson.loads(answer.text)["body"] == {"meaning": "a drink"}
    assert failed is not None and "TimeoutError: too slow" in failed.text


def test_a_deferred_call_without_an_answer_is_shown() -> None:
    with pytest.raises(ValueError, match=rf"pass answers=\[...\]; the request is .*{URL}"):
        run_block(http_request, "{}", url=URL)


@pytest.mark.usefixtures("names")
def test_an_async_block_calls_operations_of_the_store(tmp_path: Path) -> None:
    @block("notes_later", BlockArgs)
    async def notes_later(call: AsyncCall, args: BlockArgs) -> Message | None:
        try:
            await call.operate("records.get", {"guid": "nobody"})
        except OperationFailed as failed:
            await call.operate("records.create", {"content": f"{call.text}: {failed.code}"})
        return call.reply("noted") if call.text else None

    path = tmp_path / "notes.db"
    answer = run_block(notes_later, "tea", path)

    async def run_in_a_loop() -> Message | None:
        return run_block(notes_later, "", path)

    silent = asyncio.run(run_in_a_loop())

    assert answer is not None and answer.text == "noted" and silent is None
    with open_store(path) as store:
        assert store.records.list().items[0].content == "tea: not_found"


def test_what_cannot_run_names_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no block: decorate it"):
        run_block(write, "tea")
    with pytest.raises(ValueError, match="add_1 has no store"):
        run_block(add_1, "3", tmp_path / "notes.db")
    with pytest.raises(ValueError, match="amout"):
        run_block(add_1, "3", amout=4)
    with (
        open_store(tmp_path / "notes.db"),
        pytest.raises(StoreBusy, match="open in this program already"),
    ):
        run_block(memory_write, "tea", tmp_path / "notes.db")
