"""What mypy and an editor know about the call of a block."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
BLOCK = '''"""A block that reads and writes two stores."""

from memrelay import BlockArgs, Call, Message, block
from memrelay.memory.engine.filter_sql import Conditions
from memrelay.memory.records.reading import ReadInput, read


@block("counts", BlockArgs)
def counts(call: Call, args: BlockArgs) -> Message:
    """Return the number of records in the block's store and in a second one."""
    other = call.open_for_read("instances/a3d8f1b2/memories")
    own = call.tx.records.count(Conditions())
    found = [record.content for record in read(other, ReadInput(1 << 20))]
    return call.reply_json([own, found])
'''
WRONG = """

def wrong(call: Call) -> None:
    call.tx.records.cuont(Conditions())
    call.open_for_read("instances/a3d8f1b2/memories").records.delete_all({})
    print("never reached")
"""


def check(file: Path, text: str) -> str:
    """Return what mypy reports about a file."""
    file.write_text(text)
    cache = CHECKOUT / ".mypy_cache"
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unreachable", "--cache-dir"]
    done = subprocess.run(
        [*command, str(cache), str(file)], cwd=CHECKOUT, capture_output=True, text=True, timeout=300
    )
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_mypy_strict_accepts_a_block_that_uses_stores(tmp_path: Path) -> None:
    assert "Success" in check(tmp_path / "counts.py", BLOCK)


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_mypy_finds_a_wrong_method_and_a_write_to_a_store_for_reads(tmp_path: Path) -> None:
    report = check(tmp_path / "counts.py", BLOCK + WRONG)
    assert '"RecordTable" has no attribute "cuont"' in report
    assert "Statement is unreachable" in report
