"""`memrelay up --reload`: changed blocks are loaded while messages arrive."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from memrelay.blocks import sources
from memrelay.blocks.errors import BrokenBlock
from memrelay.blocks.registry import find_block, reload_block
from tests.support.bundles import make_agent, make_bundle, make_memory
from tests.support.program import Program
from tests.support.waiting import wait_for

# Each version has the same size, and the tests write several within a second.
BLOCK = '''"""stamped: add a version to a text."""

from memrelay import BlockArgs, Call, Message, block

VERSION = 0


@block("stamped")
def stamped(call: Call, args: BlockArgs) -> Message:
    return call.reply(f"{call.text} of version {VERSION}")
'''
UID = "reloaded"
MESSAGES, VERSIONS = 400, 4


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Yield a program that reloads the block `stamped`."""
    with Program() as program:
        blocks = program.folder / "blocks"
        blocks.mkdir()
        write_version(program, 0)
        program.environment["MEMRELAY_BLOCKS__PATHS"] = str(blocks)
        program.up("up", "--reload")
        bundle = program.folder / "bundle.json"
        stamp = make_agent("stamp", "stamped", senders="User", to="kept")
        write = make_memory("write", senders="stamp") | {"agent_rec_swarm": "kept"}
        bundle.write_bytes(orjson.dumps(make_bundle(UID, stamp, write)))
        assert program.run("deploy", bundle).code == 0
        yield program
        assert program.end() == 0


def write_version(program: Program, version: int) -> None:
    write_block(program, BLOCK.replace("VERSION = 0", f"VERSION = {version}"))


def write_block(program: Program, text: str) -> None:
    (program.folder / "blocks" / "stamped.py").write_text(text)


def await_log(program: Program, event: str, start: int) -> str:
    """Wait for an event after the first `start` characters of the log, and return its line."""

    def find() -> list[str]:
        return [line for line in program.output[start:].splitlines() if event in line]

    wait_for(find, f"{event} is logged")
    return find()[0]


def test_each_message_is_stored_once_across_reloads(program: Program) -> None:
    client, texts = program.client(), [f"message {number}" for number in range(MESSAGES)]
    for number, text in enumerate(texts):
        if number % (MESSAGES // VERSIONS) == 0:
            start = len(program.output)
            write_version(program, number * VERSIONS // MESSAGES + 1)
            if number:
                await_log(program, "blocks_reloaded", start)
        client.enter(UID, text)
    client.await_quiet(UID)

    found = program.run("records", "list", UID, "--limit", "1000").lines[0]["items"]
    contents = [item["content"].partition(" of version ") for item in found]
    assert Counter(text for text, _, _ in contents) == Counter(texts)
    assert {version for _, _, version in contents} >= {str(version) for version in range(2, 5)}


def test_a_broken_block_keeps_the_old_one_running(program: Program) -> None:
    start = len(program.output)
    write_version(program, 7)
    await_log(program, "blocks_reloaded", start)
    start = len(program.output)

    write_block(program, BLOCK.replace("return", "return return"))

    line = await_log(program, "block_not_reloaded", start)
    assert "stamped.py, line 10: SyntaxError: invalid syntax" in line
    client = program.client()
    client.enter(UID, "after the mistake")
    client.await_quiet(UID)
    assert client.log(UID, "kept")[-1].text == "after the mistake of version 7"
    assert "blocks_reloaded" not in program.output[start:]

    write_version(program, 8)

    await_log(program, "blocks_reloaded", start)
    client.enter(UID, "after the correction")
    client.await_quiet(UID)
    assert client.log(UID, "kept")[-1].text == "after the correction of version 8"


def test_reload_without_a_folder_is_refused() -> None:
    with Program() as program:
        ended = program.run("up", "--reload")

    assert ended.code == 1 and "Traceback" not in ended.err
    assert "set blocks.paths in config.yaml" in ended.err


def test_a_block_that_cannot_be_loaded_again_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_folders", [tmp_path])
    file = tmp_path / "mended.py"
    file.write_text(BLOCK.replace("stamped", "mended"))
    first = find_block("mended")
    os.utime(file, (1, 1))

    file.write_text("raise ValueError('oops')")
    with pytest.raises(BrokenBlock, match=r"mended\.py, line 1: ValueError: oops"):
        reload_block("mended")
    assert find_block("mended") is first

    file.write_text(BLOCK.replace("stamped", "mended"))
    reload_block("mended")
    assert find_block("mended") not in (first, None)
