"""The chat commands of a pipeline, such as /write, read from the patterns of its relays."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import NamedTuple

import orjson

from memrelay.pipelines.checked import CheckedBundle

# The beginning of a pattern that matches a command, such as ^/write\s+(.*): the word, and what must
# follow it.
OPENING = re.compile(r"\^\\?(/[\w-]+)(?=\\[bs]|\$|\s|$|\((\?:)?\\[bs])")
# Characters of a mistyped command that a hint repeats.
MAX_WORD = 50
FLAGS = re.compile(r"^\(\?[ism]+\)")


class Command(NamedTuple):
    """A command: `word` with its slash, and a description.

    The description is that of the agent whose description begins with the word, or of the relay.
    """

    word: str
    description: str


def list_commands(bundle: CheckedBundle) -> list[Command]:
    """Return each command once, in the order of the bundle."""
    texts = [str(agent.get("agent_desc") or "") for agent in orjson.loads(bundle.source)["agents"]]
    by_word = {text.split(" ", 1)[0]: text for text in reversed(texts)}
    found: dict[str, Command] = {}
    for agent, text in zip(bundle.agents, texts, strict=True):
        selector = agent.args.selector
        if selector is None or selector.invert:
            continue
        match = OPENING.match(FLAGS.sub("", selector.pattern.source))
        if match is not None:
            found.setdefault(match[1], Command(match[1], by_word.get(match[1], text)))
    return list(found.values())


def hint_for(text: str, known: Mapping[str, str]) -> str:
    """Return how to correct a command that no agent handled; "" if `text` is no command.

    `known` has the description of each command by its word.
    """
    if not known or not text.startswith("/"):
        return ""
    word, *given = text.split(maxsplit=1)
    if word in known:
        problem = f'"{word}" does not accept this.' if given else f'"{word}" is incomplete.'
        label = "Usage: " if known[word].startswith(word) else ""
        return f"{problem} {label}{known[word]}".strip()
    near = get_close_matches(word.lower(), known, 1)
    suggestion = f' Did you mean "{near[0]}"?' if near else ""
    return f'Unknown command "{word[:MAX_WORD]}".{suggestion} Commands: {", ".join(known)}'
