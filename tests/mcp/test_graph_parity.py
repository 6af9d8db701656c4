"""The official memory server of MCP and the toolset `graph` give the same answers."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.mcp.stdio import JsonObject, StdioClient, stdio_client
from tests.support.npm import npm_command, npm_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]
SEQUENCES, LENGTH = 300, 12
NAMES = ("Ada", "ada", "Ben", "Zoë", "İstanbul", "two\nlines", "a, b", "Straße", "😀")
TYPES = ("person", "Person", "city", "")
TEXTS = ("likes tea", "LIKES coffee", "né en 1815", "ΣΑΣ", "", " x ", "one\ntwo", '"quoted" \\')
QUERIES = ("", "ADA", "tea", "likes", "PERSON", "σας", "é", "i̇", "SS", "\n", "nothing", " ", '"')
# The keys of a schema that name its draft.
DRAFT = "$schema"


class Servers(NamedTuple):
    """Clients of both servers."""

    official: StdioClient
    ours: StdioClient


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("graph")
    settings = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    python = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    ours = [sys.executable, "-m", "memrelay.cli.main", "mcp", "--toolset", "graph"]
    with (
        stdio_client(npm_command("mcp-server-memory"), npm_environment() | settings) as official,
        stdio_client([*ours, "--file", str(folder / "memory.db")], python) as client,
    ):
        yield Servers(official, client)


def test_the_tools_are_described_in_the_same_way(servers: Servers) -> None:
    official, ours = (
        [_description(tool) for tool in client.request("tools/list")["tools"]] for client in servers
    )

    assert len(official) == 9
    assert ours == official


def test_random_sequences_give_the_same_answers(servers: Servers) -> None:
    successes = [compare(servers, Random(seed)) for seed in range(SEQUENCES)]

    assert sum(successes) > SEQUENCES * LENGTH / 2
    assert sum(successes) < SEQUENCES * LENGTH  # errors are compared too


def compare(servers: Servers, random: Random) -> int:
    """Run one sequence of calls in both and empty the graphs. Return how many succeeded."""
    successes, made = 0, list[Any]()
    for _ in range(LENGTH):
        name, arguments = make_call(random)
        made.append((name, arguments))
        official, ours = (client.call(name, **arguments) for client in servers)
        assert _answer(ours) == _answer(official), made
        successes += not official.get("isError", False)
    graph = servers.official.call("read_graph")["structuredContent"]
    for client in servers:
        client.call("delete_relations", relations=graph["relations"])
        client.call("delete_entities", entityNames=[one["name"] for one in graph["entities"]])
    left = servers.ours.call("read_graph")["structuredContent"]
    assert left == {"entities": [], "relations": []}
    return successes


def make_call(random: Random) -> tuple[str, JsonObject]:
    """Return a call. Within a call, new names and new relations are distinct: the official server
    would create both of two equal ones.
    """
    name = random.choices(
        [*MAKERS, "read_graph", "search_nodes", "open_nodes"], (6, 6, 5, 1, 2, 2, 2, 3, 3)
    )[0]
    if name in MAKERS:
        return name, MAKERS[name](random)
    if name == "search_nodes":
        return name, {"query": random.choice(QUERIES)}
    return name, {"names": _names(random)} if name == "open_nodes" else {}


def _names(random: Random) -> list[str]:
    return random.sample(NAMES, random.randint(0, 3))


def _texts(random: Random) -> list[str]:
    return random.choices(TEXTS, k=random.randint(0, 3))


def _entities(random: Random) -> JsonObject:
    return {
        "entities": [
            {"name": name, "entityType": random.choice(TYPES), "observations": _texts(random)}
            for name in _names(random)
        ]
    }


def _relations(random: Random) -> JsonObject:
    found = {
        (random.choice(NAMES), random.choice(NAMES), random.choice(TYPES))
        for _ in range(random.randint(0, 4))
    }
    keys = ("from", "to", "relationType")
    return {"relations": [dict(zip(keys, one, strict=True)) for one in sorted(found)]}


def _additions(random: Random) -> JsonObject:
    names = random.choices(NAMES, k=random.randint(0, 2))
    return {"observations": [{"entityName": one, "contents": _texts(random)} for one in names]}


def _deletions(random: Random) -> JsonObject:
    names = random.choices(NAMES, k=random.randint(0, 3))
    return {"deletions": [{"entityName": one, "observations": _texts(random)} for one in names]}


MAKERS = {
    "create_entities": _entities,
    "create_relations": _relations,
    "add_observations": _additions,
    "delete_entities": lambda random: {"entityNames": _names(random)[:2]},
    "delete_observations": _deletions,
    "delete_relations": _relations,
}


def _answer(result: JsonObject) -> tuple[Any, str, bool]:
    (content,) = result["content"]
    return result.get("structuredContent"), content["text"], result.get("isError", False)


def _description(tool: JsonObject) -> JsonObject:
    hints = {name: one for name, one in tool["annotations"].items() if name.endswith("Hint")}
    schemas = {
        side: {key: one for key, one in tool[side].items() if key != DRAFT}
        for side in ("inputSchema", "outputSchema")
    }
    return {key: tool[key] for key in ("name", "title", "description")} | schemas | hints
