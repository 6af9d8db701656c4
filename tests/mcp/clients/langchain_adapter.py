"""Calls tools with LangChain's adapter. Its input and output are those of n8n.mjs."""

import asyncio
import json
import re
import sys

from langchain_core.tools import ToolException
from langchain_mcp_adapters.client import MultiServerMCPClient

GUID = re.compile(r'"guid":"([^"]+)"')


async def main(url: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    client = MultiServerMCPClient(
        {"memrelay": {"transport": "streamable_http", "url": url, "headers": headers}}
    )
    tools = {tool.name: tool for tool in await client.get_tools()}
    print(json.dumps(list(tools)))
    guid = ""
    for name, given in json.load(sys.stdin):
        sent = json.loads(json.dumps(given).replace("$GUID", guid))
        try:
            answer, is_error = await tools[name].ainvoke(sent), False
        except ToolException as error:
            answer, is_error = str(error), True
        text = answer if isinstance(answer, str) else "".join(one["text"] for one in answer)
        found = GUID.search(text)
        guid = guid or (found[1] if found else "")
        print(json.dumps({"error": is_error, "text": text}))


asyncio.run(main(*sys.argv[1:]))
