"""Calls of the toolset `memory` on a store file, with the checks that every answer must pass."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from jsonschema import Draft202012Validator

from memrelay import open_store
from memrelay.web.mcp.arguments import read_arguments
from memrelay.web.mcp.tools.memory_toolset import MEMORY_TOOLS
from memrelay.web.mcp.transports.local_targets import FileTarget

TOOLS = {tool.name: tool for tool in MEMORY_TOOLS}
MAX_ANSWER_BYTES = 75_000


class ToolCaller:
    """Calls tools on a store file."""

    def __init__(self, target: FileTarget) -> None:
        self.target = target

    def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of a tool, which fits its schema and the limit. Raises ToolError."""
        tool = TOOLS[name]
        given = read_arguments(tool, arguments, takes_pipeline=False)
        answer = asyncio.run(tool.run(self.target, given))
        Draft202012Validator(tool.output_schema).validate(answer)
        assert len(orjson.dumps(answer)) <= MAX_ANSWER_BYTES
        return answer

    def text(self, name: str, **arguments: Any) -> str:
        """Return the text of an answer."""
        answer, to_text = self(name, **arguments), TOOLS[name].to_text
        return orjson.dumps(answer).decode() if to_text is None else to_text(answer)


@contextmanager
def tools_on_file(path: Path) -> Iterator[ToolCaller]:
    """Open a store file for tools."""
    with open_store(path, "mcp") as store:
        yield ToolCaller(FileTarget(store.operate))
