"""A client over stdio gets its first answer before the tools and the operations are loaded."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.models import list_nouns, modules_of
from tests.support.child import CHECKOUT
from tests.support.program import environment_without_settings
from tests.support.web_system import WebSystem

# Ends with its input, and then prints what it has loaded.
PROGRAM = """
import sys
from memrelay.cli.main import main
sys.argv = ["memrelay", "mcp", *sys.argv[1:]]
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
# The modules that declare operations, by the nouns of the manifests.
OPERATIONS = {module for noun in list_nouns() for module in modules_of(noun)}
# Models, generated schemas, the bundle's shape, blocks, and the HTTP client.
NOT_LOADED = {
    "aiohttp",
    "jinja2",
    "jsonschema",
    "memrelay.blocks.contract",
    "memrelay.client.http",
    "memrelay.memory.models.shared_stores.sealing",
    "memrelay.pipelines.bundle",
    "memrelay.web.mcp.tool_handlers",
    "memrelay.web.mcp.tools.memory_toolset",
    "numpy",
    "onnxruntime",
    "re2",
    "Stemmer",
    "tokenizers",
}
PREFIX = "io.modelcontextprotocol"
CLIENT = {"name": "tests", "version": "1"}
GREETINGS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
    "server/discover": {
        "_meta": {
            f"{PREFIX}/protocolVersion": "2026-07-28",
            f"{PREFIX}/clientCapabilities": {},
            f"{PREFIX}/clientInfo": CLIENT,
        }
    },
}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield web_system


def modules_after(
    methods: tuple[str, ...], *arguments: str, environment: Mapping[str, str]
) -> set[str]:
    """Send requests to a new process, which answers all, and return what it has then loaded."""
    sent = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": GREETINGS.get(method, {})}
        for number, method in enumerate(methods)
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        input="".join(f"{json.dumps(one)}\n" for one in sent),
        env=environment_without_settings() | {"PYTHONPATH": str(CHECKOUT)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["id"] for one in answers if "result" in one] == [*range(len(methods))], done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("method", GREETINGS)
def test_a_handshake_of_a_file_loads_no_operation(method: str, tmp_path: Path) -> None:
    loaded = modules_after((method,), "--file", str(tmp_path / "notes.db"), environment={})

    assert "memrelay.web.mcp.server" in loaded
    assert not NOT_LOADED & loaded
    assert OPERATIONS & loaded == set()


@pytest.mark.parametrize("method", GREETINGS)
def test_a_handshake_of_a_pipeline_loads_only_the_operation_that_it_calls(
    web_system: WebSystem, method: str
) -> None:
    environment = {
        "MEMRELAY_BUS__URL": f"unix://{web_system.system.client.socket}",
        "MEMRELAY_MEMORY__ROOT": str(web_system.system.root),
    }

    loaded = modules_after((method,), web_system.deploy(), environment=environment)

    assert "memrelay.web.mcp.server" in loaded
    assert not (NOT_LOADED | {"memrelay.embedded.store"}) & loaded
    assert OPERATIONS & loaded == {"memrelay.memory.records.changes"}


def test_the_list_of_tools_loads_them(tmp_path: Path) -> None:
    methods = ("initialize", "tools/list")

    loaded = modules_after(methods, "--file", str(tmp_path / "notes.db"), environment={})

    assert {"memrelay.web.mcp.tool_handlers", "jsonschema"} <= loaded
    assert "memrelay.memory.records.writing" in loaded
    assert not {"memrelay.client.http", "numpy", "onnxruntime"} & loaded
