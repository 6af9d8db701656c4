"""The registry: it finds every block by its name, and a name is used once."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import create_model

from memrelay import blocks
from memrelay.blocks.contract import Block, BlockArgs
from memrelay.blocks.errors import BrokenBlock
from memrelay.blocks.registry import block, built_in_blocks, find_block, register
from memrelay.pipelines.check import check
from tests.pipelines.builders import make_block, make_bundle

FOLDER = Path(blocks.__path__[0])
NAMED = {"regex_match", "regex_filter", "chat_agent", "viewer_agent", "add_1"}
MEMORY = {"memory_write", "memory_read", "memory_search", "memory_append", "memory_delete"}


def declared() -> Iterator[tuple[str, str]]:
    """Yield (file, name) of each `@block("name", ...)` and `register(Block("name", ...))`."""
    for path in FOLDER.glob("*.py"):
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and node.args
        ]
        for call in calls:
            name = call.args[0]
            if getattr(call.func, "id", "") in ("block", "Block") and isinstance(
                name, ast.Constant
            ):
                yield path.stem, name.value


def test_every_file_that_declares_a_block_is_found() -> None:
    found = list(declared())

    assert built_in_blocks().keys() >= {name for _, name in found} >= NAMED | MEMORY
    assert all(file == name for file, name in found)


def test_a_block_is_found_by_its_exact_name() -> None:
    assert all(find_block(name) is found for name, found in built_in_blocks().items())
    for unknown in (
        "",
        "nonsense",
        "contract",
        "memory.write",
        "../memory_write",
        "memory_write\n",
        "a" * 100_000,
    ):
        assert find_block(unknown) is None


def test_a_bundle_loads_only_the_blocks_that_it_names() -> None:
    # pydantic would read the source of models into the cache of lines, to find descriptions.
    # Blocks call operations without their validators.
    program = (
        "import linecache, sys; from pathlib import Path\n"
        "from memrelay.pipelines.check import check\n"
        "assert check(Path('pipelines/memory_test.json').read_bytes()).bundle\n"
        "from memrelay.memory.operations import OPERATIONS\n"
        "assert OPERATIONS and not any('adapter' in vars(one) for one in OPERATIONS.values())\n"
        "assert not linecache.cache; print(*sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    loaded = {
        name.removeprefix("memrelay.blocks.")
        for name in done.stdout.split()
        if name.startswith("memrelay.blocks.")
    }
    assert loaded >= MEMORY
    assert not loaded & {"add_1", "memory_entry_write", "knowledge_search", "template_engine"}
    assert "cronsim" not in done.stdout.split()  # no agent has a schedule


def test_the_documented_blocks_exist() -> None:
    assert built_in_blocks().keys() >= NAMED | MEMORY


def test_a_name_used_twice_is_an_error() -> None:
    built_in_blocks()

    with pytest.raises(ValueError, match="two blocks are named 'add_1'"):
        register(Block("add_1", BlockArgs, None))
    with pytest.raises(ValueError, match="two blocks are named 'add_1'"):
        block("add_1")(lambda call, args: None)


@pytest.mark.parametrize("name", sorted(MEMORY))
def test_a_memory_block_names_its_store(name: str) -> None:
    args = built_in_blocks()[name].args

    assert args.model_validate({"memory_id": "instances/a/b"}).store == "instances/a/b"
    assert args.model_validate({}).store == ""


@pytest.mark.parametrize("name", sorted(NAMED | MEMORY))
def test_every_block_refuses_an_unknown_argument(name: str) -> None:
    assert built_in_blocks()[name].args.model_config["extra"] == "forbid"


BROKEN = [
    ("def x(:\n", "SyntaxError: invalid syntax"),
    ("import no_such_module\n", "line 1: ModuleNotFoundError: No module named 'no_such_module'"),
    ("\nraise SystemExit(3)\n", "line 2: SystemExit: 3"),
    (
        "@block('add_1')\ndef ours(call, args): ...\n",
        "a block has the name of its file, but ours.py declares 'add_1': rename one of them",
    ),
    ("@block('ours')\ndef ours(call, args): yield\n", "use no yield"),
    ("@block('ours')\nasync def ours(call, args): yield\n", "use no yield"),
    (
        "@block('ours', deferred_call='fetch')\ndef ours(call, args): ...\n",
        'deferred_call="module:function"',
    ),
    (
        "@block('ours', deferred_call='a:b')\nasync def ours(call, args): ...\n",
        "an async block is its own deferred call",
    ),
    ("@block('ours')\ndef ours(call): ...\n", "write def ours(call, args)"),
    (
        "@block('ours')\ndef ours(call, args): ...\n1 / 0\n",
        "line 5: ZeroDivisionError: division by zero",
    ),
]


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a built-in block `ours`, in a second folder of built-in blocks."""
    monkeypatch.setattr(blocks, "__path__", [*blocks.__path__, str(tmp_path / "blocks")])
    monkeypatch.delitem(sys.modules, "memrelay.blocks.ours", raising=False)
    (tmp_path / "blocks").mkdir()
    return tmp_path / "blocks" / "ours.py"


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_a_broken_file_is_reported_with_its_line_and_the_reason(
    ours: Path, text: str, why: str
) -> None:
    ours.write_text(
        "from memrelay.blocks.contract import BlockArgs\n"
        "from memrelay.blocks.registry import block\n" * ("block(" in text) + text
    )

    for _ in range(2):  # a block that was declared before the failure is not found either
        with pytest.raises(BrokenBlock, match=re.escape(why)) as broken:
            find_block("ours")
        assert str(broken.value).startswith("blocks/ours.py, line ")


def test_an_argument_with_the_name_of_an_attribute_of_every_block_is_refused() -> None:
    with pytest.warns(UserWarning, match="shadows"):
        taken = create_model("Taken", __base__=BlockArgs, store=(str, ""))

    with pytest.raises(ValueError, match="BlockArgs already has the attribute store"):
        block("ours", taken)(lambda call, args: None)


def test_the_check_of_a_bundle_reports_a_broken_block_and_the_remedy(ours: Path) -> None:
    ours.write_text("def x(:\n")

    named, other = (check(make_bundle(make_block(name))).faults for name in ("ours", "add_2"))

    assert [fault.pointer for fault in named] == ["/agents/0/wf_diagram_webhook"]
    assert [fault.suggestion for fault in named] == ["correct blocks/ours.py"]
    assert [fault.suggestion for fault in other] == ['did you mean "add_1"?']
