"""An agent of CrewAI whose memory is in one file."""

import argparse
import os
import re
import zlib
from typing import Any

from crewai import Agent, BaseLLM, Memory

from memrelay import open_store
from memrelay.integrations.crewai import MemrelayStorage


class Stub(BaseLLM):
    """Repeats what its input has of the memory, in place of a model."""

    def call(self, messages: Any, *arguments: Any, **named: Any) -> str:
        text = messages if isinstance(messages, str) else messages[-1]["content"]
        memories = text.partition("Relevant memories:\n")[2].partition("\n\n")[0]
        return f"I remember:\n{memories or 'nothing'}"


def embed_words(texts: list[str]) -> list[list[float]]:
    """Return a vector for each text by its words, in place of a model of embeddings."""
    vectors = [[0.0] * 256 for _ in texts]
    for vector, text in zip(vectors, texts, strict=True):
        for word in re.findall(r"\w+", text.lower()):
            vector[zlib.crc32(word.encode()) % 256] += 1.0
    return vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("text", help="a message. `remember: TEXT` keeps a fact")
    options = parser.parse_args()

    model = os.environ.get("MODEL") or Stub(model="stub")
    with open_store(options.file, embedder="none") as store:
        memory = Memory(
            storage=MemrelayStorage(store, user=options.user),
            llm=model,
            embedder=None if os.environ.get("OPENAI_API_KEY") else embed_words,
        )
        prefix, _, fact = options.text.partition(":")
        if prefix == "remember" and fact:
            memory.remember(fact.strip(), scope="/facts", categories=["fact"], importance=0.8)
        agent = Agent(
            role="guide",
            goal=f"Help {options.user}",
            backstory="You are brief.",
            llm=model,
            memory=memory,
        )
        print(agent.kickoff(options.text).raw)
        memory.close()


if __name__ == "__main__":
    main()
