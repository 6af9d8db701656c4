"""An agent of Microsoft Agent Framework that remembers conversations and facts in one file."""

import argparse
import asyncio
import os
from collections.abc import Sequence
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, FunctionInvocationLayer, Message

from memrelay import open_store
from memrelay.integrations.agent_framework import MemrelayContextProvider, MemrelayHistoryProvider


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("--session", default="main", help="a conversation of the user")
    parser.add_argument("text", help="a message")
    options = parser.parse_args()

    with open_store(options.file, embedder="none") as store:
        agent = Agent(
            choose_client(),
            "Be brief. Remember lasting facts.",
            name="guide",
            context_providers=[
                MemrelayHistoryProvider(store, user=options.user, agent="guide"),
                MemrelayContextProvider(store, user=options.user, agent="guide"),
            ],
        )
        session = agent.create_session(session_id=options.session)
        print(await agent.run(options.text, session=session))


class Stub(FunctionInvocationLayer, BaseChatClient):
    """Answers with what the prompt has from before, in place of a model."""

    async def _inner_get_response(
        self, *, messages: Sequence[Message], **options: Any
    ) -> ChatResponse:
        before = [one.text for one in messages if one.role == "user"][:-1]
        text = f"Before that, you said: {' '.join(before) or 'nothing'}"
        return ChatResponse(messages=[Message("assistant", [text])])


def choose_client() -> BaseChatClient:
    """Return OpenAI's client with a key, else a stub."""
    if not os.environ.get("OPENAI_API_KEY"):
        return Stub()
    # pip install agent-framework-openai
    from agent_framework.openai import OpenAIChatCompletionClient

    return OpenAIChatCompletionClient(os.environ.get("MODEL", "gpt-5-mini"))


if __name__ == "__main__":
    asyncio.run(main())
