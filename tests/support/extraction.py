"""A pipeline that extracts facts and summaries, and stubs of its model."""

import re
from typing import Any

import orjson

from tests.support.model_server import Json

TURN_LINE = re.compile(r"^\{.*\}$", re.MULTILINE)
FACT = "This is the fact of {}."


def make_bundle(**more: Json) -> Json:
    """Return a bundle with a timer of a minute for each block: `extract={...}` are its arguments.

    The URL is that of a service that does not answer.
    """
    agents: list[Json] = [
        {
            "agent_class": "wf_agent",
            "agent_alias": block,
            "wf_agent_name": block,
            "agent_rec_swarm": "run",
            "agent_from": "User",
            "agent_send_swarm": "work",
            "wf_publish_results": True,
            "wf_interval_secs": 60,
            "wf_diagram_webhook": block,
            "wf_webhook_args": {"url": "http://127.0.0.1:9/v1", "model": "stub", **args},
        }
        for block, args in more.items()
    ]
    chat = {
        "agent_class": "chat_agent",
        "agent_alias": "user",
        "agent_name": "User",
        "agent_rec_swarm": "run",
        "agent_send_swarm": "run",
    }
    return {"pipeline_name": "extraction", "agents": [chat, *agents]}


def read_turns(request: Json) -> list[Json]:
    """Return the turns in a request: `n`, `role`, `at` and `text`."""
    content = request["messages"][1]["content"].partition("<turns>")[2]
    return [orjson.loads(line) for line in TURN_LINE.findall(content)]


def answer_text(text: str) -> Json:
    """Return the result of the executor for a text of the model."""
    return {"text": text, "tokens": 100, "ended_at_ms": 0}


def answer_facts(*facts: Any) -> Json:
    """Return the result of the executor for an answer with these facts."""
    return answer_text(orjson.dumps({"facts": facts}).decode())


def state_facts(request: Json) -> list[Json]:
    """Return one fact for each turn of a request."""
    return [{"text": FACT.format(one["text"]), "turns": [one["n"]]} for one in read_turns(request)]


def extract_all(request: Json) -> Json:
    """Return the result of the executor with one fact for each turn."""
    return answer_facts(*state_facts(request))
