"""MemrelayMemoryTool: the memory tool of Anthropic's SDK with its files in a pipeline."""

import asyncio
from collections.abc import Iterator

import pytest
from anthropic.lib.tools import ToolError

from memrelay import connect
from memrelay.integrations.anthropic import MemrelayMemoryTool
from tests.support.web_system import WebSystem

PATH = "/memories/notes.md"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    return web_system.deploy()


def test_commands_of_the_sdk_read_and_write_files_of_the_pipeline(
    web_system: WebSystem, uid: str
) -> None:
    async def use() -> list[object]:
        async with connect(web_system.url) as client:
            tool = MemrelayMemoryTool(client, uid, "ann")
            commands = (
                {"command": "create", "path": PATH, "file_text": "one\ntwo\n"},
                {"command": "insert", "path": PATH, "insert_line": 0, "insert_text": "zero"},
                {"command": "str_replace", "path": PATH, "old_str": "two", "new_str": ""},
                {"command": "view", "path": PATH, "view_range": [1, 2]},
                {"command": "rename", "old_path": PATH, "new_path": "/memories/a/b"},
                {"command": "view", "path": "/memories"},
                {"command": "delete", "path": "/memories/a"},
            )
            return [await tool.call(command) for command in commands]

    created, inserted, replaced, viewed, renamed, listed, deleted = asyncio.run(use())

    assert created == f"File created successfully at: {PATH}"
    assert inserted == f"The file {PATH} has been edited."
    assert str(replaced).endswith("     1\tzero\n     2\tone\n     3\t\n     4\t")
    assert viewed == (f"Here's the content of {PATH} with line numbers:\n     1\tzero\n     2\tone")
    assert renamed == f"Successfully renamed {PATH} to /memories/a/b"
    assert str(listed).endswith("10B\t/memories/a/\n10B\t/memories/a/b")
    assert deleted == "Successfully deleted /memories/a"


def test_agents_have_separate_files_and_errors_reach_the_model(
    web_system: WebSystem, uid: str
) -> None:
    async def use() -> str:
        async with connect(web_system.url) as client:
            ann, ben = (MemrelayMemoryTool(client, uid, name) for name in ("ann", "ben"))
            await ann.call({"command": "create", "path": PATH, "file_text": ""})
            with pytest.raises(ToolError) as caught:
                await ben.call({"command": "view", "path": PATH})
            return str(caught.value.content)

    assert asyncio.run(use()) == f"The path {PATH} does not exist. Please provide a valid path."


def test_the_tool_is_described_as_the_sdk_describes_it(web_system: WebSystem, uid: str) -> None:
    async def describe() -> object:
        async with connect(web_system.url) as client:
            return MemrelayMemoryTool(client, uid, cache_control={"type": "ephemeral"}).to_dict()

    assert asyncio.run(describe()) == {
        "type": "memory_20250818",
        "name": "memory",
        "cache_control": {"type": "ephemeral"},
    }
