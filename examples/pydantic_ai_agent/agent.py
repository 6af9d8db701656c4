"""A Pydantic AI agent that remembers conversations and facts in one file."""

import argparse
import asyncio
import os

from pydantic_ai import Agent, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memrelay import open_store
from memrelay.integrations.pydantic_ai import MemrelayConversationStore, memory_toolset


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("--conversation", default="main", help="a conversation of the user")
    parser.add_argument("text", help="a message")
    options = parser.parse_args()

    with open_store(options.file, embedder="none") as file:
        store = MemrelayConversationStore(file, agent="guide")
        agent = Agent(
            os.environ.get("MODEL") or FunctionModel(repeat),
            instructions="Be brief. Remember lasting facts.",
            toolsets=[memory_toolset(file, user=options.user, agent="guide", recall=True)],
        )
        # The ids of two users must differ.
        ident = f"{options.user}/{options.conversation}"
        conversation = await store.load(ident) or Conversation(conversation_id=ident)
        result = await agent.run(options.text, conversation=conversation)
        await store.save(result, scope=options.user)
        print(result.output)


def repeat(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer with what the user said before, in place of a model."""
    said = [
        str(part.content)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    return ModelResponse([TextPart(f"Before that, you said: {' '.join(said[:-1]) or 'nothing'}")])


if __name__ == "__main__":
    asyncio.run(main())
