"""Anthropic's own file-based memory tool and ours give the same texts."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool

from memrelay.memory.engine.store import Store
from tests.memory.builders import FAST_ROOT
from tests.memory.models.shared_stores.tool.calls import Agent, open_home

LENGTH = 10
NAMES = ("a", "b.md", "a.b", "a-b")
LINES = ("one", "two", "", "a a", "é", "aaa")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with open_home() as store:
        yield store


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_random_command_sequences_give_the_same_texts(store: Store, count: int) -> None:
    successes = [compare(store, count + seed) for seed in range(count)]

    assert sum(successes) > count * LENGTH / 4


def compare(store: Store, seed: int) -> int:
    """Run one sequence of commands in both. Return how many succeeded."""
    random, agent = Random(seed), Agent(store, f"agent-{seed}", "anthropic")
    created = list[str]()
    with TemporaryDirectory(dir=FAST_ROOT) as folder:
        tool = BetaLocalFilesystemMemoryTool(folder)
        return sum(
            compare_one(tool, agent, make_command(random, created), created) for _ in range(LENGTH)
        )


def compare_one(
    tool: BetaLocalFilesystemMemoryTool,
    agent: Agent,
    arguments: dict[str, Any],
    created: list[str],
) -> bool:
    """Run one command in both. Return whether it succeeded."""
    value, is_error = agent.answer(arguments)
    expected = answer_of(tool, arguments)
    remove_empty_folders(tool.memory_root)
    if expected is None:
        assert is_error, (agent.name, arguments, value)
        return False
    text, failed = expected
    told = hide_folder_sizes(value), is_error
    assert told == (hide_folder_sizes(text), failed), (agent.name, arguments)
    if arguments["command"] == "create" and not failed:
        created.append(arguments["path"])
    return not failed


def answer_of(tool: BetaLocalFilesystemMemoryTool, arguments: dict[str, Any]) -> Any:
    """Return (text, is_error), or None if the tool fails without a text of its own."""
    try:
        return tool.call(arguments), False
    except ToolError as error:
        return error.content, True
    except OSError:
        return None


def remove_empty_folders(root: Path) -> None:
    """Remove the folders that only the files have: a key has no folder."""
    for folder in sorted(root.rglob("*"), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def hide_folder_sizes(text: str) -> str:
    """Remove the sizes of folders from a listing. A listing ends each folder in a slash."""
    if not text.startswith("Here're the files"):
        return text
    header, own, *lines = text.split("\n")
    hidden = [line.partition("\t")[2] if line.endswith("/") else line for line in lines]
    return "\n".join([header, own.partition("\t")[2], *hidden])


def make_path(random: Random) -> str:
    path = "/".join(["/memories", *random.choices(NAMES, k=random.choice((1, 1, 2, 3)))])
    odd = ("/memories", "/memories/", "/x", "/memories/../x", f"{path}/", "/memories/../x/../y")
    return random.choice(odd) if random.random() < 0.12 else path


def make_text(random: Random, most: int = 4) -> str:
    text = "\n".join(random.choices(LINES, k=random.randint(0, most)))
    return text + "\n" * (random.random() < 0.3)


def make_command(random: Random, created: list[str]) -> dict[str, Any]:
    """Return a command. Most commands name a file that was created before."""
    command = random.choices(
        ("view", "create", "str_replace", "insert", "delete", "rename"), (3, 5, 2, 2, 1, 2)
    )[0]
    reuses = created and command != "create" and random.random() < 0.8
    path = {"command": command, "path": random.choice(created) if reuses else make_path(random)}
    match command:
        case "view":
            ranges = ([1, 2], [2, -1], [0, 9], [3, 2], [-2, -2], None)
            return path | {"view_range": random.choice(ranges)}
        case "create":
            return path | {"file_text": make_text(random)}
        case "str_replace":
            return path | {
                "old_str": random.choice(("one", "a", "aa", "\n", "two\n", "x")),
                "new_str": random.choice(("", "two", "$&", "a\nb")),
            }
        case "insert":
            return path | {
                "insert_line": random.choice((-1, 0, 0, 1, 2, 5)),
                "insert_text": make_text(random, 2),
            }
        case "rename":
            return {
                "command": command,
                "old_path": path["path"],
                "new_path": make_path(random),
            }
    return path
