"""The same calls have equal answers over stdio and over both kinds of HTTP."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from tests.support.mcp_clients import HANDSHAKE, STATELESS, over_http, over_stdio
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow
# The value at a path of an earlier answer, like "$0.guid".
REFERENCE = re.compile(r"\$(\d+)((?:\.\w+)+)")
CHANGING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "GUID"),
    (re.compile(r"\b(mem|me)_[A-Za-z0-9-]+_[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{11}-[0-9a-f]{10,16}\b"), "VERSION"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d{13}\b"), "TIME"),
)
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("memory_write", {"content": "The harbor opens at six", "tags": ["harbor"], "kind": "fact"}),
    ("memory_write", {"content": "Ada planted tomatoes", "data": {"year": 2026}}),
    ("memory_write", {"content": "A log", "key": "log"}),
    ("memory_write", {"content": "more of the log", "append_to": "$2.guid"}),
    ("memory_write", {"content": "once", "idempotency_key": "k1"}),
    ("memory_write", {"content": "once", "idempotency_key": "k1"}),
    ("memory_read", {"guid": "$0.guid"}),
    ("memory_read", {"guid": "$2.guid"}),
    ("memory_read", {"guid": "$0.guid", "offset": 4}),
    ("memory_read", {"kind": "fact"}),
    ("memory_read", {"tags": ["harbor"]}),
    ("memory_read", {"limit": 2, "order": "asc"}),
    ("memory_read", {"guid": "00000000-0000-7000-8000-000000000000"}),
    ("memory_search", {"query": "harbor"}),
    ("memory_search", {"query": "tomatoes", "limit": 1}),
    ("memory_search", {"query": "harbor", "kind": "fact", "tags": ["harbor"]}),
    ("memory_search", {"query": "zebra"}),
    ("memory_search", {}),
    ("memory_search", {"query": "harbor", "limit": "many"}),
    ("memory_change", {"guid": "$0.guid", "content": "The harbor opens at seven"}),
    ("memory_change", {"guid": "$0.guid", "tags": ["harbor", "hours"], "reason": "clearer"}),
    ("memory_change", {"guid": "$0.guid"}),
    ("memory_history", {"guid": "$0.guid"}),
    ("memory_history", {"guid": "$0.guid", "limit": 1}),
    ("memory_change", {"guid": "$0.guid", "restore": 1}),
    ("memory_read", {"guid": "$0.guid"}),
    ("memory_forget", {"guid": "$1.guid", "reason": "harvested"}),
    ("memory_forget", {"guid": "$1.guid"}),
    ("memory_read", {"guid": "$1.guid"}),
    ("memory_change", {"guid": "$1.guid", "restore": 0}),
    ("memory_read", {"guid": "$1.guid"}),
    ("memory_remember", {"text": "Ada likes tea"}),
    ("memory_remember", {"text": "Ada likes tea"}),
    ("memory_remember", {"text": "Ben plays chess", "memory": "people", "tags": ["games"]}),
    ("memory_recall", {"query": "what does Ada drink"}),
    ("memory_recall", {"query": "chess", "memory": "people", "tags": ["games"]}),
    ("memory_recall", {"query": "chess", "limit": 1, "token_budget": 100}),
    ("memory_read", {"as_of": "n:2", "order": "asc"}),
    ("memory_search", {"query": "harbor", "as_of": "n:1"}),
    ("memory_read", {"as_of": "yesterday"}),
    ("memory_remember", {"text": ""}),
    ("memory_read", {"unknown": 1}),
    ("memory_sing", {"song": "none"}),
]


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield web_system


def connect(web_system: WebSystem, transport: str) -> AbstractAsyncContextManager[Client]:
    """Connect to a new pipeline."""
    uid = web_system.deploy()
    if transport == "stdio":
        environment = {
            "MEMRELAY_BUS__URL": f"unix://{web_system.system.client.socket}",
            "MEMRELAY_MEMORY__ROOT": str(web_system.system.root),
        }
        return over_stdio(uid, folder=web_system.system.folder, environment=environment)
    return over_http(f"{web_system.url}/mcp/{uid}", transport)


async def answers(connection: AbstractAsyncContextManager[Client]) -> list[Any]:
    """Return the answers of all calls."""
    found: list[Any] = []
    async with connection as client:
        for tool, arguments in CALLS:
            given = {name: refer(value, found) for name, value in arguments.items()}
            found.append(await answer(client, tool, given))
    return found


async def answer(client: Client, tool: str, given: dict[str, Any]) -> Any:
    try:
        result = await client.call_tool(tool, given)
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}
    texts = [block.text for block in result.content if block.type == "text"]
    return result.structured_content or {"error": result.is_error, "texts": texts}


def refer(value: Any, found: list[Any]) -> Any:
    match = REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    target = found[int(match[1])]
    for part in match[2].split(".")[1:]:
        target = target[part]
    return target


def comparable(found: list[Any], uid_pattern: str = r"[\w-]+") -> list[str]:
    """Return the answers without what differs between pipelines."""
    texts = []
    for one in found:
        text = re.sub(rf"instances/{uid_pattern}/", "instances/UID/", json.dumps(one))
        for pattern, name in CHANGING:
            text = pattern.sub(name, text)
        texts.append(text)
    return texts


def test_43_calls_have_equal_answers_over_three_transports(web_system: WebSystem) -> None:
    transports = ("stdio", HANDSHAKE, STATELESS)

    stdio, handshake, stateless = (
        comparable(asyncio.run(answers(connect(web_system, transport)))) for transport in transports
    )

    assert len(CALLS) == 43
    assert stdio == handshake
    assert handshake == stateless
