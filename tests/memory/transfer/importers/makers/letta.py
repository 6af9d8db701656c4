"""Write the fixtures of Letta with the schemas of its own server.

Run it in an environment with `letta==0.16.8 asyncpg aiosqlite sqlite-vec`:
`python letta.py FOLDER`. The imports of `letta` need this folder off `sys.path`: use `python -P`.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from letta.schemas.agent_file import (
    AgentFileSchema,
    AgentSchema,
    BlockSchema,
    FileSchema,
    MessageSchema,
)
from letta.schemas.embedding_config import EmbeddingConfig
from letta.schemas.letta_message_content import ReasoningContent, TextContent
from letta.schemas.llm_config import LLMConfig
from letta.schemas.passage import Passage
from letta.serialize_schemas.pydantic_agent_schema import AgentSchema as OldAgentSchema
from letta.serialize_schemas.pydantic_agent_schema import CoreMemoryBlockSchema
from letta.serialize_schemas.pydantic_agent_schema import MessageSchema as OldMessageSchema

START = datetime(2026, 4, 1, 8, 0, 0, 123456, tzinfo=UTC)
PACKAGED = {"type": "user_message", "message": "Where is my parcel?", "time": "2026-04-01 08:00"}
HEARTBEAT = {"type": "heartbeat", "reason": "Automated timer", "time": "2026-04-01 08:01"}
SEND = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "send_message", "arguments": '{"message": "It arrives on Friday."}'},
}
SEARCH = {
    "id": "call_2",
    "type": "function",
    "function": {"name": "conversation_search", "arguments": '{"query": "parcel"}'},
}
BLOCKS = {"human": "The name of the user is Grace.", "persona": "I answer briefly."}


def messages() -> list[dict[str, Any]]:
    """Return the messages of an agent, as keyword arguments."""
    return [
        {"role": "system", "content": [text("You are a support agent.")]},
        {"role": "user", "content": [text(json.dumps(PACKAGED))]},
        {"role": "assistant", "content": [reasoning("Look it up.")], "tool_calls": [SEARCH]},
        {"role": "tool", "content": [text('{"status": "OK"}')], "tool_call_id": "call_2"},
        {"role": "assistant", "content": [reasoning("Answer.")], "tool_calls": [SEND]},
        {"role": "user", "content": [text(json.dumps(HEARTBEAT))]},
        {"role": "user", "content": [text("Danke schön 📦")]},
        {"role": "assistant", "content": [text("You are "), text("welcome.")]},
    ]


def text(value: str) -> TextContent:
    """Return a part with a text."""
    return TextContent(text=value)


def reasoning(value: str) -> ReasoningContent:
    """Return a part with the reasoning of a model."""
    return ReasoningContent(is_native=False, reasoning=value)


def agent_file() -> AgentFileSchema:
    """Return a file with one agent, two blocks and a file."""
    agent = AgentSchema(
        id="agent-0",
        name="support",
        system="You are a support agent.",
        block_ids=["block-0", "block-1"],
        in_context_message_ids=["message-0", "message-7"],
        messages=[
            MessageSchema(
                id=f"message-{number}",
                agent_id="agent-0",
                created_at=START + timedelta(seconds=number),
                otid=f"00000000-0000-4000-8000-{number:012}",  # random by default
                **given,
            )
            for number, given in enumerate(messages())
        ],
    )
    blocks = [
        BlockSchema(id=f"block-{number}", label=label, value=value)
        for number, (label, value) in enumerate(BLOCKS.items())
    ]
    manual = FileSchema(id="file-0", source_id="source-0", file_name="manual.pdf")
    return AgentFileSchema(
        agents=[agent],
        groups=[],
        blocks=blocks,
        files=[manual],
        sources=[],
        tools=[],
        mcp_servers=[],
        metadata={"revision_id": "1"},
        created_at=START,
    )


def old_file() -> OldAgentSchema:
    """Return the older form: one agent, with its blocks and messages."""
    at = START.isoformat()
    block = {"created_at": at, "updated_at": at, "description": None, "template_name": None}
    return OldAgentSchema(
        name="concierge",
        agent_type="memgpt_agent",
        created_at=at,
        updated_at=at,
        version="0.7.29",
        description=None,
        system="You are a support agent.",
        core_memory=[
            CoreMemoryBlockSchema(is_template=False, label=label, limit=5000, value=value, **block)
            for label, value in BLOCKS.items()
        ],
        messages=[
            OldMessageSchema(
                created_at=(START + timedelta(seconds=number)).isoformat(),
                updated_at=at,
                group_id=None,
                model=None,
                name=None,
                **{"tool_call_id": None, "tool_calls": [], "tool_returns": []} | given,
            )
            for number, given in enumerate(messages())
        ],
        embedding_config=EmbeddingConfig.default_config(provider="openai"),
        llm_config=LLMConfig.default_config("gpt-4o-mini"),
        message_buffer_autoclear=False,
        in_context_message_indices=[0, 7],
        multi_agent_group=None,
        tags=[],
        tool_exec_environment_variables=[],
        tool_rules=[],
        tools=[],
    )


def passages() -> list[Passage]:
    """Return the answer of GET /v1/agents/AGENT_ID/archival-memory."""
    return [
        Passage(
            id=f"passage-00000000-0000-4000-8000-00000000000{number}",
            text=value,
            tags=tags,
            metadata={"page": number},
            archive_id="archive-00000000-0000-4000-8000-000000000001",
            embedding=[0.25, -0.5],
            embedding_config=EmbeddingConfig.default_config(provider="openai"),
            created_at=START + timedelta(days=number),
        )
        for number, (value, tags) in enumerate(
            [("Grace lives in Zürich.", ["address"]), ("Parcels leave at noon.", [])]
        )
    ]


def dump(path: Path, document: Any) -> None:
    """Write indented JSON."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def write(folder: Path) -> None:
    """Write the agent file, its older form and the passages."""
    dump(folder / "letta.af", agent_file().model_dump(mode="json"))
    dump(folder / "letta_old.af", old_file().model_dump(mode="json"))
    dump(folder / "letta_passages.json", [one.model_dump(mode="json") for one in passages()])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
