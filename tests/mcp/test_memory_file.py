"""An imported and exported `memory.jsonl` has the same graph in the official server."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.mcp.stdio import stdio_client
from tests.support.bundles import make_bundle
from tests.support.npm import npm_command, npm_environment
from tests.support.program import Program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]
UID = "memfile1"
ENTITIES = [
    {"name": "Ada", "entityType": "person", "observations": ["likes tea", "né en 1815", "a\nb"]},
    {"name": "two\nlines", "entityType": "", "observations": []},
    {"name": "😀", "entityType": "sign", "observations": ["x" * 100_000, ""]},
]
RELATIONS = [
    {"from": "Ada", "to": "😀", "relationType": "uses"},
    {"from": "Ada", "to": "nobody", "relationType": "knows"},
]


def read_graph(path: Path) -> Any:
    settings = npm_environment() | {"MEMORY_FILE_PATH": str(path)}
    with stdio_client(npm_command("mcp-server-memory"), settings) as client:
        return client.call("read_graph")["structuredContent"]


def test_the_official_server_reads_the_same_graph(tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    settings = npm_environment() | {"MEMORY_FILE_PATH": str(file)}
    with stdio_client(npm_command("mcp-server-memory"), settings) as client:
        client.call("create_entities", entities=ENTITIES)
        client.call("create_relations", relations=RELATIONS)
    with Program() as program:
        program.up()
        (program.folder / "bundle.json").write_bytes(orjson.dumps(make_bundle(UID, name=UID)))
        assert program.run("deploy", "bundle.json").code == 0
        imported = program.run("import", UID, file, "--from", "auto", "--json")
        exported = program.run("export", UID, "--as", "mcp", "-o", tmp_path / "again.jsonl")
        assert program.end() == 0

    assert json.loads(imported.out)["added"] == 5 and exported.code == 0, imported.err
    assert read_graph(tmp_path / "again.jsonl") == read_graph(file)
    assert read_graph(file) == {"entities": ENTITIES, "relations": RELATIONS}
