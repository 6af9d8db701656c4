"""An agent of Strands that remembers conversations and facts in one file."""

import argparse
import os
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.memory import MemoryManager
from strands.models import Model

from memrelay import open_store
from memrelay.integrations.strands import MemrelayMemoryStore, MemrelaySessionManager


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("--session", default="main", help="a conversation of the user")
    parser.add_argument("text", help="a message")
    options = parser.parse_args()

    with open_store(options.file, embedder="none") as store:
        memory = MemrelayMemoryStore(
            store, user=options.user, agent="guide", session_id=options.session
        )
        agent = Agent(
            agent_id="guide",
            model=choose_model(),
            system_prompt="Be brief. Remember lasting facts.",
            session_manager=MemrelaySessionManager(options.session, store, user=options.user),
            memory_manager=MemoryManager([memory], add_tool_config=True),
            callback_handler=None,
        )
        print(str(agent(options.text)).strip())


class Stub(Model):
    """Answers with what the prompt has from before, in place of a model."""

    async def stream(self, messages: Any, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        texts = [
            part["text"].strip()
            for message in messages
            for part in message["content"]
            if message["role"] == "user" and "text" in part
        ]
        memory = [text for text in texts if text.startswith("<memory>")]
        said = [text for text in texts if text not in memory][:-1]
        answer = f"Before that, you said: {' '.join([*said, *memory]) or 'nothing'}"
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": answer}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}

    def structured_output(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError("the stub makes texts only")

    def get_config(self) -> dict[str, Any]:
        return {}

    def update_config(self, **model_config: Any) -> None:
        """Ignore it: the stub has no configuration."""


def choose_model() -> Model:
    """Return OpenAI's model with a key, else a stub."""
    if not os.environ.get("OPENAI_API_KEY"):
        return Stub()
    # pip install openai
    from strands.models.openai import OpenAIModel

    return OpenAIModel(model_id=os.environ.get("MODEL", "gpt-5-mini"))


if __name__ == "__main__":
    main()
