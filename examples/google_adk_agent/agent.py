"""An agent of Google's ADK that keeps sessions and memories in one file."""

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai.types import ModelContent, UserContent

from memrelay import open_store
from memrelay.integrations.google_adk import MemrelayMemoryService, MemrelaySessionService

APP = "guide"


class Stub(BaseLlm):
    """Repeats its input, in place of a model."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        texts = "\n".join(part.text for part in parts if part.text)
        yield LlmResponse(content=ModelContent(f"I received:\n{texts}"))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("--session", default="main", help="a conversation of the user")
    parser.add_argument("text", help="a message")
    options = parser.parse_args()

    with open_store(options.file, embedder="none") as store:
        sessions, memory = MemrelaySessionService(store), MemrelayMemoryService(store)
        runner = Runner(
            app_name=APP,
            agent=LlmAgent(
                name="guide",
                model=os.environ.get("MODEL") or Stub(model="stub"),
                instruction="Be brief.",
                tools=[PreloadMemoryTool()],
            ),
            session_service=sessions,
            memory_service=memory,
            auto_create_session=True,
        )
        where = {"user_id": options.user, "session_id": options.session}
        async for event in runner.run_async(**where, new_message=UserContent(options.text)):
            if event.content and event.content.parts:
                print(event.content.parts[0].text)
        session = await sessions.get_session(app_name=APP, **where)
        assert session is not None
        await memory.add_session_to_memory(session)


if __name__ == "__main__":
    asyncio.run(main())
