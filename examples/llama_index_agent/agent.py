"""A LlamaIndex agent that remembers conversations and facts in one file."""

import argparse
import asyncio
import os
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory

from memrelay import open_store
from memrelay.integrations.llama_index import (
    MemrelayAsyncChatStore,
    MemrelayMemoryBlock,
    memory_tools,
)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("--session", default="main", help="a conversation of the user")
    parser.add_argument("text", help="a message")
    options = parser.parse_args()

    with open_store(options.file, embedder="none") as store:
        memory = Memory.from_defaults(
            session_id=options.session,
            chat_store=MemrelayAsyncChatStore(store, user=options.user, agent="guide"),
            memory_blocks=[MemrelayMemoryBlock(store, user=options.user)],
        )
        agent = FunctionAgent(
            system_prompt="Be brief. Remember lasting facts.",
            tools=memory_tools(store, user=options.user, agent="guide"),
            llm=choose_model(),
        )
        print(await agent.run(options.text, memory=memory))


def choose_model() -> LLM:
    """Return OpenAI's model with a key, else a stub."""
    if not os.environ.get("OPENAI_API_KEY"):
        return MockFunctionCallingLLM(response_generator=repeat)
    # pip install llama-index-llms-openai
    from llama_index.llms.openai import OpenAI

    return OpenAI(os.environ.get("MODEL", "gpt-5-mini"))


def repeat(messages: list[ChatMessage], **_: Any) -> ChatMessage:
    """Answer with what the prompt has from before, in place of a model."""
    system, *said = [str(one.content) for one in messages if one.role in ("system", "user")]
    recalled = [line for line in system.splitlines() if line.startswith('{"content"')]
    before = "\n".join([*said[:-1], *recalled]) or "nothing"
    return ChatMessage(role="assistant", content=f"Before that, you said: {before}")


if __name__ == "__main__":
    asyncio.run(main())
