"""The commands of a pipeline: what its relays pick out of a chat, such as /write."""

import re
from typing import NamedTuple

import orjson

from memrelay.pipelines.checked import CheckedBundle

# What a pattern begins with that picks out a command, such as ^/write\s+(.*), and what must follow
# the word.
OPENING = re.compile(r"\^\\?(/[\w-]+)(?=\\[bs]|\$|\s|$|\((\?:)?\\[bs])")
FLAGS = re.compile(r"^\(\?[ism]+\)")


class Command(NamedTuple):
    """Something to say."""

    word: str  # with its slash
    description: str  # of the agent whose description begins with it, else of the relay


def commands_of(bundle: CheckedBundle) -> list[Command]:
    """Each command once, in the order of the bundle."""
    told = [str(agent.get("agent_desc") or "") for agent in orjson.loads(bundle.source)["agents"]]
    described = {text.split(" ", 1)[0]: text for text in reversed(told)}
    found: dict[str, Command] = {}
    for agent, text in zip(bundle.agents, told, strict=True):
        selector = agent.args.selector
        match = (
            OPENING.match(FLAGS.sub("", selector.pattern.source))
            if selector is not None and not selector.invert
            else None
        )
        if match is not None:
            found.setdefault(match[1], Command(match[1], described.get(match[1], text)))
    return list(found.values())
