"""The architecture: the arrows between the rooms, the few numbers of our style, and what the root
may hold."""

import subprocess
from collections.abc import Callable, Iterable

import pytest

from tests.architecture import arrows, numbers
from tests.architecture.source import ROOMS, ROOT, Source, sources

ROOT_FOLDERS = {*ROOMS, "tests", "benchmarks", "docs", ".ci"}
ROOT_PAPERS = {"README.md", "CHANGELOG.md", "LICENSE"}
ROOT_TOOLS = {
    "config.yaml",
    "Procfile",
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    ".gitignore",
}
# The two outer edges: the worker's message boundary and the HTTP error middleware.
BROAD_EXCEPT_ALLOWED = ("worker/batch.py", "web/errors.py")
ENVIRONMENT_ALLOWED = ("cli/settings.py",)
# Optional heavy parts only, each with its reason beside the import.
INNER_IMPORTS_ALLOWED = ("memory/sqlite/store.py",)

Rule = Callable[[Source], list[str]]


def product(*, but: Iterable[str] = ()) -> list[Source]:
    return [source for source in sources(*ROOMS) if source.path not in but]


def everything(*, but: Iterable[str] = ()) -> list[Source]:
    return product(but=but) + [
        source for source in sources("tests", "benchmarks") if source.path not in but
    ]


def hold(rule: Rule, over: Iterable[Source]) -> None:
    faults = [fault for source in over for fault in rule(source)]
    assert not faults, "\n".join(["", *faults])


def strangers(tracked: Iterable[str]) -> list[str]:
    return sorted(
        {path.split("/")[0] for path in tracked} - ROOT_FOLDERS - ROOT_PAPERS - ROOT_TOOLS
    )


def test_a_room_imports_only_the_rooms_to_its_right() -> None:
    hold(arrows.imports_of_the_wrong_room, product())


def test_a_room_imports_no_library_of_another_room() -> None:
    hold(arrows.imports_of_a_forbidden_library, product())


def test_only_the_composition_root_knows_a_block_by_name() -> None:
    blocks = arrows.block_modules(sources("blocks"))

    hold(lambda source: arrows.imports_of_a_block_by_name(source, blocks), product())


def test_imports_are_absolute() -> None:
    hold(arrows.relative_imports, everything())


def test_imports_stand_at_the_top() -> None:
    hold(numbers.imports_in_functions, everything(but=INNER_IMPORTS_ALLOWED))


def test_nothing_is_mocked() -> None:
    hold(arrows.imports_of_mocks, everything())


def test_a_function_fits_on_a_screen() -> None:
    hold(numbers.long_functions, everything())


def test_a_file_is_read_once_downwards() -> None:
    hold(numbers.long_files, everything())


def test_code_nests_at_most_three_deep() -> None:
    hold(numbers.deep_nesting, everything())


def test_a_function_takes_few_positional_parameters() -> None:
    hold(numbers.many_parameters, everything())


def test_everything_is_caught_only_at_the_two_outer_edges() -> None:
    assert len(BROAD_EXCEPT_ALLOWED) == 2

    hold(numbers.broad_excepts, everything(but=BROAD_EXCEPT_ALLOWED))


def test_the_environment_is_read_in_one_file() -> None:
    hold(numbers.reads_of_the_environment, product(but=ENVIRONMENT_ALLOWED))


def test_the_root_holds_what_the_house_lists_and_nothing_else() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    found = strangers(filter(None, tracked.stdout.split("\0")))

    assert not found, f"at the root, which is no attic: {', '.join(found)}"


def test_a_stranger_at_the_root_is_found() -> None:
    assert strangers(["cli/main.py", "README.md", "notes.txt", "attic/x.py"]) == [
        "attic",
        "notes.txt",
    ]


def lines(count: int) -> str:
    return "\n".join(["    x = 1"] * count)


IFS = "if a:\n if b:\n  if c:\n   pass\n"
BLOCKS = {"blocks.memory_write"}


def no_block_by_name(source: Source) -> list[str]:
    return arrows.imports_of_a_block_by_name(source, BLOCKS)


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (arrows.imports_of_the_wrong_room, "memory/x.py", "import bus.wire"),
        (arrows.imports_of_the_wrong_room, "memory/x.py", "from tests import builders"),
        (arrows.imports_of_the_wrong_room, "blocks/x.py", "from bus import codec"),
        (arrows.imports_of_the_wrong_room, "pipelines/x.py", "def f():\n    import worker"),
        (arrows.imports_of_the_wrong_room, "worker/x.py", "from web.rest import routes"),
        (arrows.imports_of_a_forbidden_library, "memory/x.py", "import redis.asyncio as redis"),
        (arrows.imports_of_a_forbidden_library, "blocks/x.py", "from aiohttp import web"),
        (arrows.imports_of_a_forbidden_library, "pipelines/x.py", "import apsw"),
        (no_block_by_name, "worker/x.py", "from blocks.memory_write import write"),
        (no_block_by_name, "blocks/y.py", "from blocks import memory_write"),
        (arrows.relative_imports, "bus/x.py", "from . import wire"),
        (arrows.imports_of_mocks, "tests/x.py", "from unittest import mock"),
        (arrows.imports_of_mocks, "tests/x.py", "from unittest.mock import Mock"),
        (numbers.imports_in_functions, "bus/x.py", "def f():\n    def g():\n        import os"),
        (numbers.long_functions, "bus/x.py", f"@d\ndef f():\n    'doc'\n{lines(31)}"),
        (numbers.long_files, "bus/x.py", "\n" * 301),
        (numbers.long_files, "tests/x.py", "\n" * 501),
        (numbers.deep_nesting, "bus/x.py", f"{IFS}   while d: pass"),
        (numbers.deep_nesting, "bus/x.py", f"{IFS}  else:\n   if d: pass"),
        (numbers.many_parameters, "bus/x.py", "def f(a, b, /, c, d, e, g): pass"),
        (numbers.broad_excepts, "bus/x.py", "try: f()\nexcept: pass"),
        (numbers.broad_excepts, "bus/x.py", "try: f()\nexcept (OSError, Exception): pass"),
        (numbers.broad_excepts, "bus/x.py", "with suppress(BaseException): f()"),
        (numbers.reads_of_the_environment, "bus/x.py", "import os\nos.getenv('A')"),
        (numbers.reads_of_the_environment, "bus/x.py", "from os import environ"),
    ],
)
def test_a_breach_of_a_rule_is_found_with_its_place(rule: Rule, path: str, text: str) -> None:
    (fault,) = rule(Source.of(path, text))

    assert fault.startswith(f"{path}:")
    assert fault.split(":")[1].isdecimal()


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (
            arrows.imports_of_the_wrong_room,
            "blocks/x.py",
            "from bus.message import Message\nimport memory.query, re2",
        ),
        (
            arrows.imports_of_the_wrong_room,
            "blocks/x.py",
            "from bus import message\nfrom blocks.contract import block",
        ),
        (arrows.imports_of_the_wrong_room, "cli/x.py", "import worker.owner, web.rest"),
        (arrows.imports_of_a_forbidden_library, "bus/x.py", "import hiredis, redistribute"),
        (no_block_by_name, "worker/x.py", "from blocks.registry import find"),
        (no_block_by_name, "cli/x.py", "import blocks.memory_write"),
        (
            numbers.imports_in_functions,
            "bus/x.py",
            "try:\n    import uvloop\nexcept ImportError: pass",
        ),
        (numbers.long_functions, "bus/x.py", f"@d\ndef f():\n    'doc'\n\n{lines(30)}"),
        (numbers.long_functions, "bus/x.py", "def f():\n    'doc'"),
        (numbers.deep_nesting, "bus/x.py", f"{IFS}  elif d: pass\n  elif e: pass\n  else: pass"),
        (numbers.deep_nesting, "bus/x.py", f"{IFS}   def f():\n    for x in y: pass"),
        (numbers.many_parameters, "bus/x.py", "def f(self, a, b, c, d, e, *args, g, **more): pass"),
        (numbers.broad_excepts, "bus/x.py", "try: f()\nexcept (OSError, ValueError): pass"),
        (numbers.reads_of_the_environment, "bus/x.py", "def f(environ): return environ['A']"),
    ],
)
def test_what_a_rule_allows_is_let_pass(rule: Rule, path: str, text: str) -> None:
    assert rule(Source.of(path, text)) == []


def test_a_block_file_is_known_by_its_decorator() -> None:
    block = Source.of(
        "blocks/memory_write.py", '@block("memory_write", access="write")\ndef write(): pass'
    )
    contract = Source.of(
        "blocks/contract.py", "def block(name): pass\n@dataclass(frozen=True)\nclass Call: pass"
    )

    assert arrows.block_modules([block, contract]) == BLOCKS


def test_every_room_has_its_arrows() -> None:
    assert tuple(arrows.HOUSE) == ROOMS
