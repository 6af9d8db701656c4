"""An agent of Agno that remembers conversations and facts in one file."""

import argparse
import os
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from memrelay import open_store
from memrelay.integrations.agno import MemrelayDb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("--session", default="main", help="a conversation of the user")
    parser.add_argument("text", help="a message")
    options = parser.parse_args()

    with open_store(options.file, embedder="none") as store:
        agent = Agent(
            model=choose_model(),
            name="guide",
            instructions="Be brief. Remember lasting facts.",
            db=MemrelayDb(store),
            user_id=options.user,
            session_id=f"{options.user}-{options.session}",
            add_history_to_context=True,
            enable_agentic_memory=True,
            telemetry=False,
        )
        print(agent.run(options.text).content)


class Stub(Model):
    """Answers with what the prompt has from before, in place of a model."""

    def invoke(self, messages: Any, *arguments: Any, **options: Any) -> ModelResponse:
        said = [str(one.content) for one in messages if one.role == "user"][:-1]
        text = f"Before that, you said: {' '.join(said) or 'nothing'}"
        return ModelResponse(role="assistant", content=text)

    async def ainvoke(self, *arguments: Any, **options: Any) -> ModelResponse:
        return self.invoke(*arguments, **options)

    def invoke_stream(self, *arguments: Any, **options: Any) -> Any:
        yield self.invoke(*arguments, **options)

    async def ainvoke_stream(self, *arguments: Any, **options: Any) -> Any:
        yield self.invoke(*arguments, **options)

    def _parse_provider_response(self, response: Any, **options: Any) -> ModelResponse:
        return ModelResponse()

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return ModelResponse()


def choose_model() -> Model:
    """Return OpenAI's model with a key, else a stub."""
    if not os.environ.get("OPENAI_API_KEY"):
        return Stub(id="stub")
    # pip install openai
    from agno.models.openai import OpenAIChat

    return OpenAIChat(id=os.environ.get("MODEL", "gpt-5-mini"))


if __name__ == "__main__":
    main()
