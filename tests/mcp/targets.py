"""Calls of the tools on a store file, without a server, for tests."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jsonschema import Draft202012Validator

from memrelay import open_store
from memrelay.web.mcp.tool import Tool, ToolError
from memrelay.web.mcp.transports.local_targets import FileTarget
from tests.memory.builders import FAST_ROOT

JsonObject = dict[str, Any]


class ToolClient:
    """Calls tools by their names, and checks what they take and return against their schemas."""

    def __init__(self, tools: tuple[Tool, ...], target: FileTarget) -> None:
        self.target = target
        self._tools = {tool.name: tool for tool in tools}

    def use(self, name: str, /, **arguments: Any) -> JsonObject:
        """Return the structured result of a call. Raises ToolError."""
        tool = self._tools[name]
        Draft202012Validator(tool.input_schema).validate(arguments)
        value = asyncio.run(tool.run(self.target, arguments))
        Draft202012Validator(tool.output_schema).validate(value)
        return value

    def text(self, name: str, /, **arguments: Any) -> str:
        """Return the text result of a call. Raises ToolError."""
        to_text = self._tools[name].to_text
        assert to_text is not None
        return to_text(self.use(name, **arguments))

    def fail(self, name: str, /, **arguments: Any) -> str:
        """Return the error of a call that fails."""
        try:
            value = self.use(name, **arguments)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"{name} succeeded: {value}")


@contextmanager
def tools_on_a_file(tools: tuple[Tool, ...]) -> Iterator[ToolClient]:
    """Open an empty store and yield a client of its tools."""
    with TemporaryDirectory(dir=FAST_ROOT) as folder, open_store(Path(folder, "s.db")) as store:
        yield ToolClient(tools, FileTarget(store.operate))
