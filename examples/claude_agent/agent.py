"""An agent of the Claude Agent SDK that remembers its user in one file."""

import argparse
import asyncio

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from memrelay import open_store
from memrelay.integrations.claude_agent_sdk import (
    MemrelaySessionStore,
    memory_hooks,
    memory_server,
)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db", help="facts, prompts and answers")
    parser.add_argument("--transcripts", default="transcripts.db", help="sessions to resume")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("--resume", help="the session to go on with; by default a new one")
    parser.add_argument("text", help="a message")
    options = parser.parse_args()

    with (
        open_store(options.file, embedder="none") as store,
        open_store(options.transcripts, embedder="none") as transcripts,
    ):
        settings = ClaudeAgentOptions(
            system_prompt="You are a guide. Be brief. Remember lasting facts about the user.",
            tools=[],  # without those that read and change files
            mcp_servers={"memory": memory_server(store, user=options.user, agent="guide")},
            allowed_tools=["mcp__memory__remember", "mcp__memory__search"],
            hooks=memory_hooks(store, user=options.user, agent="guide"),
            session_store=MemrelaySessionStore(transcripts, user=options.user),
            resume=options.resume,
        )
        async for message in query(prompt=options.text, options=settings):
            if isinstance(message, ResultMessage):
                print(f"session {message.session_id}\n{message.result}")


if __name__ == "__main__":
    asyncio.run(main())
