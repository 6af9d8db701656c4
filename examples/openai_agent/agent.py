"""An agent of the OpenAI Agents SDK that remembers conversations and facts in one file."""

import argparse
import asyncio
import os
from typing import Any

from agents import Agent, Model, RunConfig, Runner
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message

from memrelay import open_store
from memrelay.integrations.openai_agents import MemrelaySession, memory_tools


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("--session", default="main", help="a conversation of the user")
    parser.add_argument("text", help="a message")
    options = parser.parse_args()

    with open_store(options.file, embedder="none") as store:
        agent = Agent(
            name="guide",
            instructions="Be brief. Remember lasting facts, and search before you answer.",
            tools=memory_tools(store, user=options.user, agent="guide"),
            model=choose_model(),
        )
        session = MemrelaySession(options.session, store, user=options.user, agent="guide")
        quiet = RunConfig(tracing_disabled=True)
        result = await Runner.run(agent, options.text, session=session, run_config=quiet)
        print(result.final_output)


def choose_model() -> Model | str | None:
    """Return the model in MODEL, the SDK's default with a key, or else a stub."""
    if name := os.environ.get("MODEL"):
        return name
    return None if os.environ.get("OPENAI_API_KEY") else ScriptedModel([ModelStep.respond(repeat)])


def repeat(call: ModelCall) -> Any:
    """Answer with what the user said before, in place of a model."""
    said = [item["content"] for item in call.input if item.get("role") == "user"]
    return [assistant_message(f"Before that, you said: {' '.join(said[:-1]) or 'nothing'}")]


if __name__ == "__main__":
    asyncio.run(main())
