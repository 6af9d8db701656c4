"""The memory tool answers any arguments that a model sends, and raises nothing."""

from random import Random
from typing import Any

import pytest

from memrelay.memory.models.shared_stores.tool.arguments import ACTIONS, COMMANDS
from memrelay.memory.models.shared_stores.tool.files import HANDLERS
from tests.memory.models.shared_stores.tool.calls import Agent, open_home

VALUES: tuple[Any, ...] = (
    None, "", "a", "a.md", "/memories", "/memories/", "/memories/a.md", "/memories/a/b/", "/",
    "/memories/shared/", "/memories/shared/a1/a", "/memories/shared/x/a", "..", "\0", "é" * 300,
    "self", "user", "chat", "agent", "read", 0, -1, 1.5, 1 << 62, 1e308, True, [], [1], [1, 2],
    ["a", 2], {}, {"a": [None]}, " ", "a2", "cursor",
)  # fmt: skip
FIELDS = (
    "store", "key", "value", "ttl", "prefix", "query", "agent", "level", "path", "scope", "content",
    "old_str", "new_str", "cursor", "file_text", "insert_line", "insert_text", "view_range",
    "old_path", "new_path",
)  # fmt: skip


@pytest.mark.parametrize("dialect", ["robutler", "anthropic"])
def test_any_arguments_get_an_answer(dialect: str) -> None:
    random = Random(dialect)
    names = [*COMMANDS, *ACTIONS, *HANDLERS, "other", 5, None, ["view"]]
    with open_home() as store:
        agents = [Agent(store, name, dialect) for name in ("a1", "a2")]
        for _ in range(1500):
            fields = random.sample(FIELDS, random.randint(0, 6))
            arguments = {name: random.choice(VALUES) for name in fields}
            arguments[random.choice(("command", "command", "action"))] = random.choice(names)
            value, is_error = random.choice(agents).answer(arguments)

            assert not is_error or (value if dialect == "anthropic" else value["error"])
