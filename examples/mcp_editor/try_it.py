"""Do what an editor does: start the server of mcp.json, store a fact and ask for it."""

import asyncio
import json
from pathlib import Path

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

CONFIGURATION = Path(__file__).with_name("mcp.json")


async def main() -> None:
    server = json.loads(CONFIGURATION.read_text())["mcpServers"]["memrelay"]
    parameters = StdioServerParameters(command=server["command"], args=server["args"])
    async with Client(stdio_client(parameters)) as client:
        tools = await client.list_tools()
        print("tools:", ", ".join(tool.name for tool in tools.tools))
        await client.call_tool("memory_remember", {"text": "Ada prefers tabs to spaces"})
        answer = await client.call_tool("memory_recall", {"query": "tabs or spaces?"})
        print(*(part.text for part in answer.content if part.type == "text"))


if __name__ == "__main__":
    asyncio.run(main())
