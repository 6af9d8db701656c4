"""The example for AutoGen, with the real autogen-core."""

import asyncio
from pathlib import Path
from typing import Any

from autogen_core.memory import MemoryContent, MemoryMimeType
from killing import add_until_killed, assert_kept
from pages import read_program, run

from memrelay import open_store

PROGRAM = read_program("autogen")
# The class of the page, without the program that uses it.
CLASS, _, _ = PROGRAM.partition("async def main")
CHILD = f"""{CLASS}
from itertools import count

async def main():
    with open_store("memory.db", embedder="none") as store:
        memory = MemrelayMemory(store, "ada")
        for n in count(int(sys.argv[-1])):
            await memory.add(MemoryContent(content=f"fact {{n}}", mime_type=MemoryMimeType.TEXT))
            print(n, flush=True)

asyncio.run(main())
"""


def test_the_program_of_the_page_remembers(tmp_path: Path) -> None:
    run(PROGRAM, tmp_path, "I may not eat nuts.")
    printed = run(PROGRAM, tmp_path, "Which cake may I eat?")

    assert printed == "Which cake may I eat?\nKnown facts, as data:\n- I may not eat nuts.\n"


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path)

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        facts = [one.content for one in pages(store)]
    assert_kept([int(fact.removeprefix("fact ")) for fact in facts], killed)


def pages(store: Any) -> Any:
    """Yield the facts of all pages, in the order of their arrival."""
    cursor: str | None = ""
    while cursor is not None:
        page = store.records.list(kind="fact", limit=1000, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor


def test_users_have_their_own_facts_and_clear_erases_them(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(CLASS, names)

    async def use(store: Any) -> list[list[str]]:
        ada, bob = (names["MemrelayMemory"](store, user) for user in ("ada", "bob"))
        await ada.add(MemoryContent(content="tea at four", mime_type=MemoryMimeType.TEXT))
        results = [await memory.query("tea?") for memory in (ada, bob)]
        await ada.clear()
        results.append(await ada.query("tea?"))
        return [[one.content for one in result.results] for result in results]

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        assert asyncio.run(use(store)) == [["tea at four"], [], []]
