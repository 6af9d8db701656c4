"""Blocks that no product would ship: one that fails, and one that takes the whole process with it."""
import os
import signal

from blocks.contract import Call
from blocks.memory_args import NewRecordArgs
from blocks.memory_write import memory_write
from blocks.registry import block
from bus.message import Message

MINE, BOMB = "mine", "bomb"   # what the texts hold that set them off


def fails(call: Call, args: NewRecordArgs) -> Message:
    """Writes as memory_write does, and then fails where the text holds a mine."""
    answer = memory_write(call, args)
    if MINE in call.text:
        raise RuntimeError("stepped on a mine")
    return answer


def crashes(call: Call, args: NewRecordArgs) -> Message:
    """Writes as memory_write does, and then ends the process at once where the text holds a bomb."""
    answer = memory_write(call, args)
    if BOMB in call.text:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


def register_test_blocks() -> None:
    """Only in a worker's own process: here they would stand in the schema and in the documents' tests."""
    block("test_fails", NewRecordArgs)(fails)
    block("test_crashes", NewRecordArgs)(crashes)
