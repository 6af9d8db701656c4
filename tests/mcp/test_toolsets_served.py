"""The toolsets `graph` and `files` of a served pipeline: concurrent writers, stdio and keys."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from memrelay.memory.control.keys import SCOPES
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.mcp_calls import McpCalls
from tests.support.mcp_clients import call, over_stdio, refused
from tests.support.web_system import WebSystem

WRITERS, CALLS_EACH = 64, 3
# The tools that a key with one scope sees.
TOOLS: dict[str, set[str]] = {
    **{scope: set() for scope in SCOPES},
    "search": {"search_nodes"},
    "read": {"read_graph", "open_nodes"},
    "write": {"create_entities", "create_relations", "add_observations"},
    "delete": {"delete_entities", "delete_observations", "delete_relations"},
}


class Site(NamedTuple):
    web_system: WebSystem
    uid: str
    keys: dict[str, ApiKey]

    def calls(self, toolset: str, scope: str = "all") -> McpCalls:
        """Return a client of a toolset over HTTP."""
        return McpCalls(self.web_system.url, f"/mcp/{self.uid}/{toolset}", self.keys[scope])


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with WebSystem() as web_system:
        uid, root = web_system.deploy(), web_system.system.root
        keys = {scope: make_key(root, scope, pipelines=(uid,)) for scope in SCOPES}
        keys["all"] = make_key(root, pipelines=(uid,))
        await_closed(web_system)
        yield Site(web_system, uid, keys)


def use(calls: McpCalls, tool: str, **arguments: object) -> object:
    """Return the structured result of a tool call that succeeds."""
    result = calls("tools/call", name=tool, arguments=arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]


def test_concurrent_writers_lose_nothing(site: Site) -> None:
    calls = site.calls("graph")
    hub = {"name": "hub", "entityType": "t", "observations": []}
    use(calls, "create_entities", entities=[hub])

    def write(number: int) -> None:
        for turn in range(CALLS_EACH):
            name = f"{number}-{turn}"
            use(calls, "create_entities", entities=[hub | {"name": name}])
            relation = {"from": name, "to": "hub", "relationType": "of"}
            use(calls, "create_relations", relations=[relation])
            added = [{"entityName": "hub", "contents": [name]}]
            use(calls, "add_observations", observations=added)

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(write, range(WRITERS)))

    graph = calls.read("memory://knowledge-graph")
    hub_now, *others = graph["entities"]
    names = sorted(f"{number}-{turn}" for number in range(WRITERS) for turn in range(CALLS_EACH))
    assert sorted(hub_now["observations"]) == names
    assert sorted(one["name"] for one in others) == names
    assert sorted(one["from"] for one in graph["relations"]) == names


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_sees_and_calls_the_tools_of_its_scope(site: Site, scope: str) -> None:
    calls = site.calls("graph", scope)

    listed = {tool["name"] for tool in calls("tools/list")["tools"]}

    assert listed == TOOLS[scope]
    for tool in {name for names in TOOLS.values() for name in names} - listed:
        result = calls("tools/call", name=tool, arguments={})
        assert result["isError"] and f"{tool} needs a key" in result["content"][0]["text"]


def test_files_need_the_scope_of_their_command(site: Site) -> None:
    path = "/memories/a"
    use(site.calls("files"), "memory", command="create", path=path, file_text="x")
    edit = {"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"}

    for scope in ("read", "search"):
        calls = site.calls("files", scope)
        result = calls("tools/call", name="memory", arguments=edit)
        assert result["isError"] and "write" in result["content"][0]["text"], scope
    shown = use(site.calls("files", "read"), "memory", command="view", path=path)
    assert shown == {"text": f"Here's the content of {path} with line numbers:\n     1\tx"}


def test_the_tools_work_over_the_bus(site: Site, tmp_path: Path) -> None:
    environment = {
        "MEMRELAY_BUS__URL": f"unix://{site.web_system.system.client.socket}",
        "MEMRELAY_MEMORY__ROOT": str(site.web_system.system.root),
    }
    entity = {"name": "by stdio", "entityType": "t", "observations": ["a\nb"]}

    async def run() -> tuple[object, str]:
        options = (site.uid, "--toolset", "graph")
        async with over_stdio(*options, folder=tmp_path, environment=environment) as client:
            await call(client, "create_entities", entities=[entity])
            missing = {"entityName": "nobody", "contents": []}
            error = await refused(client, "add_observations", observations=[missing])
            return await call(client, "open_nodes", names=["by stdio"]), error

    graph, error = asyncio.run(run())

    assert graph == {"entities": [entity], "relations": []}
    assert error == "Entity with name nobody not found"
