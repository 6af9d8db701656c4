"""A LangChain chat whose history is in one file, without a graph."""

import argparse
import json
import os
import urllib.request

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import convert_to_openai_messages

from memrelay import open_store
from memrelay.integrations.langchain import MemrelayChatMessageHistory

MODEL_URL = os.environ.get("MODEL_URL", "")
MODEL = os.environ.get("MODEL", "llama3.2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="chat.db")
    parser.add_argument("--user", default="ada", help="the person whose memory it is")
    parser.add_argument("--session", default="main", help="a conversation of the user")
    parser.add_argument("text", help="a message")
    options = parser.parse_args()

    with open_store(options.file, embedder="none") as store:
        history = MemrelayChatMessageHistory(
            options.session, store, user=options.user, agent="guide", limit=50
        )
        question = HumanMessage(options.text)
        answer = ask_model([*history.messages, question])
        history.add_messages([question, answer])
        print(answer.content)


def ask_model(messages: list[BaseMessage]) -> AIMessage:
    """Return the answer of the endpoint in MODEL_URL. Without one, repeat what the user said."""
    if not MODEL_URL:
        said = [str(one.content) for one in messages[:-1] if isinstance(one, HumanMessage)]
        return AIMessage(f"Before that, you said: {' '.join(said) or 'nothing'}")
    request = urllib.request.Request(
        f"{MODEL_URL}/chat/completions",
        json.dumps({"model": MODEL, "messages": convert_to_openai_messages(messages)}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return AIMessage(str(json.load(response)["choices"][0]["message"]["content"]))


if __name__ == "__main__":
    main()
