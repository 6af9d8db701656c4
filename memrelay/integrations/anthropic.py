"""The memory tool of Anthropic's SDK on Memrelay. It needs the extra `anthropic`."""

from typing import Any, Literal

from anthropic.lib.tools import BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from pydantic import BaseModel

from memrelay.client.http import Client
from memrelay.memory.models.shared_stores.tool.arguments import is_read

DIALECT: Literal["anthropic"] = "anthropic"


class MemrelayMemoryTool(BetaAsyncAbstractMemoryTool):
    """The tool `memory` (memory_20250818). Its files are items in the store of an agent.

    `client` is an open client of a Memrelay server, `pipeline` the uid of a pipeline, and `agent`
    the name whose store has the files.
    """

    def __init__(
        self,
        client: Client,
        pipeline: str,
        agent: str = "claude",
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._client, self._pipeline, self._agent = client, pipeline, agent

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the numbered lines of a file, or the listing of a folder."""
        return await self._run(command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Write a new file."""
        return await self._run(command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace the only occurrence of a text in a file."""
        return await self._run(command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines into a file."""
        return await self._run(command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with its files."""
        return await self._run(command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file, or a folder with its files."""
        return await self._run(command)

    async def _run(self, command: BaseModel) -> str:
        """Run a command. Raises ToolError with the text of the error."""
        arguments: dict[str, Any] = command.model_dump(exclude_unset=True)
        call = (
            self._client.memory_tool.read
            if is_read(arguments, DIALECT)
            else self._client.memory_tool.write
        )
        answer = await call(self._pipeline, agent=self._agent, arguments=arguments, dialect=DIALECT)
        if answer.is_error:
            raise ToolError(answer.value)
        return str(answer.value)
