"""Faulty blocks for tests: they raise, exit, use up memory, or raise Transient."""

import os
import resource
import signal
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from msgspec import structs

from memrelay.blocks.async_call import AsyncCall
from memrelay.blocks.contract import (
    BlockArgs,
    Call,
    DeferredCall,
    RunningCall,
    SecretReference,
    Transient,
)
from memrelay.blocks.memory_args import AnyMemoryId, MemoryId, NewRecordArgs
from memrelay.blocks.memory_write import memory_write
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.engine.filter_sql import Conditions
from memrelay.memory.records.reading import ReadInput, read
from tests.support.deferred_calls import (
    UrlArgs,
    asks,
    asks_aside,
    fetches,
    notes,
    refuse,
    tells_deferred_call,
    write_actor,
)

MINE, BOMB, EXIT, GLUTTON = (
    "mine",
    "bomb",
    "exit",
    "glutton",
)  # texts that trigger each fault
UNTIL = (
    # TEXT until COUNT FILE: transient until FILE<alias> has COUNT bytes; each attempt adds one
    " until "
)
PIECE = 32 << 20
# longer than a worker needs from its first attempt to a crash, shorter than its watchdog's limit
NAP_S = 0.4


class BesideArgs(NewRecordArgs):
    """Arguments of a block that reads another store."""

    other: MemoryId = ""


class ItemsArgs(BlockArgs):
    """Arguments of a block on the built-in store of items."""

    memory_id: AnyMemoryId = ""

    @property
    def store(self) -> str:
        """Return the memory_id."""
        return self.memory_id


class Speechless(Exception):
    """An exception whose own text cannot be built."""

    def __str__(self) -> str:
        raise IndexError


def counts_items(call: Call, args: ItemsArgs) -> Message:
    """Answer with the number of records in the store."""
    return call.reply_json(call.tx.records.count(Conditions()))


def reads_beside(call: Call, args: BesideArgs) -> Message:
    """Write as memory_write does, then answer with the contents of another store.

    The text "write there" writes to the other store too.
    """
    memory_write(call, args)
    other = call.open_for_read(args.other)
    if call.text == "write there":
        memory_write(structs.replace(call, tx=other), args)
    return call.reply_json([record.content for record in read(other, ReadInput(1 << 20))])


def fails(call: Call, args: NewRecordArgs) -> Message:
    """Write as memory_write does, then fail in the way that the text names."""
    answer = memory_write(call, args)
    if MINE in call.text and not Path(call.text.rpartition(" ")[2]).is_file():
        raise Speechless if "speechless" in call.text else RuntimeError("stepped on a mine")
    if EXIT in call.text:
        sys.exit("a library thought that this was its own program")
    if GLUTTON in call.text:
        with _little_memory():
            _eat()
    return answer


def crashes(call: Call, args: NewRecordArgs) -> Message:
    """Write as memory_write does, then end the process if the text contains a bomb."""
    answer = memory_write(call, args)
    if BOMB in call.text:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


def sleeps(call: Call, args: NewRecordArgs) -> Message:
    """Write as memory_write does, then sleep."""
    answer = memory_write(call, args)
    time.sleep(NAP_S)
    return answer


def waits(call: Call, args: NewRecordArgs) -> Message:
    """Write as memory_write does, then raise Transient until the time that the text names."""
    answer = memory_write(call, args)
    _await_time(call)
    return answer


def waits_then_crashes(call: Call, args: NewRecordArgs) -> Message:
    """Do the same as `waits`, then end the process if the text contains a bomb."""
    _await_time(call)
    return crashes(call, args)


def waits_without_memory(call: Call, args: BlockArgs) -> Message:
    """Answer with the text once its time has come; end the process if the text contains a bomb."""
    if BOMB in call.text:
        os.kill(os.getpid(), signal.SIGKILL)
    _await_time(call)
    return call.reply(call.text)


def tells_start(call: Call, args: BlockArgs) -> Message:
    """Answer with the text, and with the time from which the rate of `wf_flow` counts this call."""
    sql = "SELECT starts FROM flow_keys WHERE agent = ?"
    starts = array("q", call.tx.connection.execute(sql, (call.agent.alias,)).get)
    return call.reply_json([call.text, starts[-1]])


def identifies(call: Call, args: BlockArgs) -> Message:
    """Forward the message with a user, as a block that knows its clients does."""
    return call.forward(user_id="u1")


def forwards(call: Call, args: BlockArgs) -> Message:
    """Forward the message with the name of this agent in a field."""
    return call.forward(seen_by=call.agent.name)


def tells_part(call: Call, args: NewRecordArgs) -> Message:
    """Answer with the first part as blocks see it, once its time has come."""
    _await_time(call)
    return call.reply_json(call.part)


class SecretArgs(BlockArgs):
    """A service and the reference to its key."""

    url: str
    key: SecretReference = ""


def sends_secret(call: Call, args: SecretArgs) -> Message:
    """Send the secret to a service, as a block that calls a model does."""
    return call.reply(_send(args.url, call.secret(args.key or call.text)))


async def sends_secret_in_deferred_call(call: AsyncCall, args: SecretArgs) -> Message:
    """Send the secret to a service, and forward the message with the status and a user."""
    return call.forward(user_id="u1", status=_send(args.url, call.secret(args.key)))


def asks_with_secret(call: Call, args: SecretArgs) -> Message | DeferredCall:
    """Let an executor send the secret. The request holds the reference only."""
    if call.got is None:
        return DeferredCall({"url": args.url, "key": args.key})
    return call.reply(call.got.error or str(call.got.value))


async def send_secret(request: dict[str, str], deferred_call: RunningCall) -> str:
    """Send the secret to the service."""
    return _send(request["url"], deferred_call.secret(request["key"]))


def _send(url: str, key: str) -> str:
    if url == "nowhere":
        raise ConnectionError(f"no service takes the header {key}") from ValueError(key)
    with urlopen(Request(url, headers={"Authorization": key}), timeout=5) as answer:
        return str(answer.status)


@contextmanager
def _little_memory() -> Iterator[None]:
    """Limit the memory of this process, as on a small machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 8 * PIECE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _eat() -> None:
    eaten = []
    while True:
        eaten.append(bytes(PIECE))


def make_waiting(text: str, file: Path, tries: int = 1_000_000) -> str:
    """Return a text that `waits` delays so many times."""
    return f"{text}{UNTIL}{tries} {file}"


def _await_time(call: Call) -> None:
    _, waits_for_it, condition = call.text.partition(UNTIL)
    if waits_for_it:
        count, path = condition.split(" ", 1)
        with open(path + call.agent.alias, "ab") as file:
            file.write(b".")
            if file.tell() <= int(count):
                raise Transient(
                    "it is not the time", after_s=0.01 if "at once" in call.text else None
                )


def register_test_blocks() -> None:
    """Register the blocks in a worker process only. Here they would appear in the schema and in
    the documentation tests.
    """
    block("test_counts_items", ItemsArgs)(counts_items)
    block("test_reads_beside", BesideArgs)(reads_beside)
    block("test_fails", NewRecordArgs)(fails)
    block("test_crashes", NewRecordArgs)(crashes)
    block("test_sleeps", NewRecordArgs)(sleeps)
    block("test_waits", NewRecordArgs)(waits)
    block("test_waits_then_crashes", NewRecordArgs)(waits_then_crashes)
    block("test_waits_without_memory", BlockArgs)(waits_without_memory)
    block("test_tells_start", BlockArgs)(tells_start)
    block("test_identifies", BlockArgs)(identifies)
    block("test_forwards", BlockArgs)(forwards)
    block("test_sends_secret", SecretArgs)(sends_secret)
    block("test_sends_secret_in_deferred_call", SecretArgs)(sends_secret_in_deferred_call)
    block("test_asks_with_secret", SecretArgs, deferred_call=send_secret)(asks_with_secret)
    block("test_tells_part", NewRecordArgs)(tells_part)
    block("test_asks", BlockArgs, deferred_call="tests.support.deferred_calls:fetch")(asks)
    block("test_asks_aside", BlockArgs, deferred_call="tests.support.deferred_calls:fetch")(
        asks_aside
    )
    block("test_asks_here", NewRecordArgs, deferred_call=refuse)(asks)
    block("test_tells_deferred_call", NewRecordArgs, deferred_call=write_actor)(tells_deferred_call)
    block("test_fetches", UrlArgs)(fetches)
    block("test_fetches_at_once", UrlArgs, ordered=False)(fetches)
    block("test_notes", BlockArgs)(notes)
