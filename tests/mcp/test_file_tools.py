"""The toolset `files` on a store file, and Anthropic's file-based memory tool as its reference."""

from collections.abc import Iterator
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from anthropic.tools import BetaLocalFilesystemMemoryTool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema.exceptions import ValidationError

from memrelay.web.mcp.tool import ToolError
from memrelay.web.mcp.tools.files import FILE_TOOLS
from tests.mcp.targets import ToolClient, tools_on_a_file
from tests.memory.builders import FAST_ROOT
from tests.memory.models.shared_stores.tool.test_file_parity import (
    LENGTH,
    answer_of,
    hide_folder_sizes,
    make_command,
    remove_empty_folders,
)

ROOT = "/memories"


@pytest.fixture(scope="module")
def client() -> Iterator[ToolClient]:
    with tools_on_a_file(FILE_TOOLS) as client:
        yield client


@pytest.fixture
def empty(client: ToolClient) -> ToolClient:
    """Return the client after a deletion of all files."""
    delete_all(client)
    return client


def delete_all(client: ToolClient) -> None:
    listing = client.use("memory", command="view", path=ROOT)["text"]
    for line in listing.split("\n")[2:]:
        path = line.partition("\t")[2].rstrip("/")
        if path.count("/") == 2:
            client.use("memory", command="delete", path=path)


def test_a_file_is_created_read_and_edited(empty: ToolClient) -> None:
    path = f"{ROOT}/notes.md"

    created = empty.text("memory", command="create", path=path, file_text="one\ntwo")
    empty.use("memory", command="str_replace", path=path, old_str="two", new_str="2")

    assert created == f"File created successfully at: {path}"
    assert empty.use("memory", command="view", path=path) == {
        "text": f"Here's the content of {path} with line numbers:\n     1\tone\n     2\t2"
    }
    (item,) = empty.target.operate("items.list", {"agent": "mcp", "store": "mcp"})["entries"]
    assert item["key"] == "notes.md"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"command": "view", "path": "/memories/x"}, "The path /memories/x does not exist"),
        ({"command": "create", "path": "/memories/x"}, "file_text is required for create"),
        (
            {"command": "create", "path": "/memories/.x", "file_text": ""},
            "Path /memories/.x has the hidden name .x",
        ),
    ],
)
def test_the_error_of_a_command_is_that_of_the_call(
    empty: ToolClient, arguments: dict[str, str], text: str
) -> None:
    assert empty.fail("memory", **arguments).startswith(text)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": "search", "path": ROOT},
        {"command": "view", "path": ROOT, "content": "x"},
        {"command": "view", "path": ROOT, "view_range": [1]},
    ],
)
def test_the_schema_refuses_other_arguments(
    client: ToolClient, arguments: dict[str, object]
) -> None:
    with pytest.raises(ValidationError):
        client.use("memory", **arguments)


@pytest.mark.slow
@pytest.mark.timeout(500)
@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(random=st.randoms())
def test_random_command_sequences_give_the_texts_of_the_sdk(
    client: ToolClient, random: Random
) -> None:
    created = list[str]()
    delete_all(client)
    with TemporaryDirectory(dir=FAST_ROOT) as folder:
        tool = BetaLocalFilesystemMemoryTool(folder)
        for _ in range(LENGTH):
            compare(client, tool, make_command(random, created), created)


def compare(
    client: ToolClient,
    tool: BetaLocalFilesystemMemoryTool,
    arguments: dict[str, Any],
    created: list[str],
) -> None:
    """Run one command in both. `created` has the paths of created files."""
    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        answer = client.use("memory", **given)["text"], False
    except ToolError as error:
        answer = str(error), True
    expected = answer_of(tool, given)
    remove_empty_folders(tool.memory_root)
    if expected is None:
        assert answer[1], (given, answer)
        return
    assert (hide_folder_sizes(answer[0]), answer[1]) == (
        hide_folder_sizes(expected[0]),
        expected[1],
    ), given
    if given["command"] == "create" and not expected[1]:
        created.append(given["path"])
