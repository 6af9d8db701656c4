"""Calls tools with the OpenAI Agents SDK. Its input and output are those of n8n.mjs."""

import asyncio
import importlib
import json
import re
import sys

# The name of the package is also that of a folder of the checkout.
MCPServerStreamableHttp = importlib.import_module(".mcp", "agents").MCPServerStreamableHttp
GUID = re.compile(r'"guid":"([^"]+)"')


async def main(url: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    server = MCPServerStreamableHttp(
        params={"url": url, "headers": headers}, client_session_timeout_seconds=60
    )
    async with server:
        print(json.dumps([tool.name for tool in await server.list_tools()]))
        guid = ""
        for name, given in json.load(sys.stdin):
            sent = json.loads(json.dumps(given).replace("$GUID", guid))
            result = await server.call_tool(name, sent)
            text = "".join(block.text for block in result.content)
            found = GUID.search(text)
            guid = guid or (found[1] if found else "")
            print(json.dumps({"error": bool(result.is_error), "text": text}))


asyncio.run(main(*sys.argv[1:]))
