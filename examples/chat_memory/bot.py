"""A chat bot that remembers its users, also after a restart."""

import argparse
import json
import os
import sys
import urllib.request

from memrelay import BlockingClient, connect_sync

SERVER = os.environ.get("SERVER_URL", "http://127.0.0.1:8765")
MODEL_URL = os.environ.get("MODEL_URL", "http://127.0.0.1:11434/v1")
MODEL = os.environ.get("MODEL", "llama3.2")
PIPELINE = "chatbot"
PROMPT = "You are a helpful assistant. Be brief. What you know about {user}:\n{facts}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("user", help="who speaks; each user has a memory of their own")
    user = parser.parse_args().user
    with connect_sync(SERVER) as client:
        client.deploy({"pipeline_name": "chat bot", "agents": []}, uid=PIPELINE)
        for line in sys.stdin:
            print(answer(client, user, line.strip()), flush=True)


def answer(client: BlockingClient, user: str, text: str) -> str:
    """Store the message, and let the model answer with the stored facts that fit to it.

    A repeated sentence is not stored twice: entries of a named memory are deduplicated.
    """
    client.entries.create(PIPELINE, memory=user, content=text)
    facts = client.knowledge.context(PIPELINE, text, memory=user, token_budget=1000)
    return ask_model(PROMPT.format(user=user, facts=facts.text), text)


def ask_model(system: str, text: str) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    request = urllib.request.Request(
        f"{MODEL_URL}/chat/completions",
        json.dumps({"model": MODEL, "messages": messages}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main()
