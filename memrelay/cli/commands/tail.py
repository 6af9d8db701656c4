"""`memrelay tail PIPELINE`: print the messages on its swarms, from the logs and then live."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from heapq import nlargest
from typing import Annotated

import typer

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.codec import decode
from memrelay.bus.errors import BusUnavailable, MalformedMessage
from memrelay.bus.streams.follow import Follower
from memrelay.bus.streams.log import LogEntry, parse_cursor, read_log, read_log_backward
from memrelay.cli.composition import bus_address, run
from memrelay.cli.logs import configure_logging
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.pipeline import look_up
from memrelay.cli.settings import Settings, may_color
from memrelay.cli.terminal.output import end_unread, is_read, on_one_line, print_json, print_line
from memrelay.cli.terminal.readable import moment, text_lines

# Messages of one log that are read at once.
PAGE = 200
# The highest sequence number within a millisecond.
MAX_SEQUENCE = (1 << 64) - 1
# How often an idle command checks whether its output is still read.
READER_CHECK_S = 1.0
# Wait before the next attempt to reach a lost bus.
BUS_RETRY_S = 0.5
# Returns the owner of a swarm, which is part of the key of its log.
SwarmOwner = Callable[[str], str]
PrintEntry = Callable[[str, LogEntry], None]


class MergedLogs:
    """Read the logs of several swarms as one: oldest first, each message once.

    `after` has the cursor per swarm after which reading starts. "" is the beginning of the log.
    """

    def __init__(
        self, connection: ReconnectingConnection, swarm_owner: SwarmOwner, after: dict[str, str]
    ) -> None:
        self._connection, self._swarm_owner, self._after = connection, swarm_owner, after
        self._pages: dict[str, deque[LogEntry]] = {swarm: deque() for swarm in after}

    async def unread(self) -> AsyncIterator[tuple[str, LogEntry]]:
        """Yield (swarm, message) for all messages after the last one read.

        Raises BusUnavailable: if the bus is lost. A new call then continues.
        """
        ended: set[str] = set()
        while True:
            for swarm in self._pages.keys() - ended:
                if not self._pages[swarm] and not await self._read_page(swarm):
                    ended.add(swarm)
            first = min(
                ((page[0].place, swarm) for swarm, page in self._pages.items() if page),
                default=None,
            )
            if first is None:
                return
            swarm = first[1]
            entry = self._pages[swarm].popleft()
            self._after[swarm] = entry.cursor
            yield swarm, entry

    async def _read_page(self, swarm: str) -> bool:
        """Return whether the log had another page."""
        page, owner = self._pages[swarm], self._swarm_owner(swarm)
        page += await read_log(self._connection, owner, swarm, after=self._after[swarm], limit=PAGE)
        return bool(page)


async def cursors_before_last(
    connection: ReconnectingConnection, swarm_owner: SwarmOwner, swarms: Sequence[str], count: int
) -> dict[str, str]:
    """Return the cursor per log after which the newest `count` messages of all logs come.

    Raises BusUnavailable: if the bus is lost.
    """
    positions = {
        swarm: await _newest(connection, swarm_owner(swarm), swarm, max(count, 1))
        for swarm in swarms
    }
    chosen = nlargest(count, ((at, swarm) for swarm in swarms for at in positions[swarm]))
    after = {swarm: _cursor(*newest[0]) if newest else "" for swarm, newest in positions.items()}
    # `chosen` has the newest first, so the oldest message of each swarm wins.
    return after | {swarm: _before(*at) for at, swarm in chosen}


async def _newest(
    connection: ReconnectingConnection, owner: str, swarm: str, count: int
) -> list[tuple[int, int]]:
    """Return (millisecond, sequence) of the newest messages, newest first."""
    positions: list[tuple[int, int]] = []
    before = ""
    while len(positions) < count:
        limit = min(PAGE, count - len(positions))
        page = await read_log_backward(connection, owner, swarm, before=before, limit=limit)
        if not page:
            break
        positions += [entry.place for entry in page]
        before = page[-1].cursor
    return positions


def _before(ms: int, sequence: int) -> str:
    return _cursor(ms, sequence - 1) if sequence else _cursor(max(ms - 1, 0), MAX_SEQUENCE)


def _cursor(ms: int, sequence: int) -> str:
    return f"{ms}-{sequence}"


def _validate_since(since: str) -> str:
    try:
        if not (since.isascii() and since.isdecimal() and len(since) < 10):
            parse_cursor(since)
    except ValueError as error:
        raise typer.BadParameter(
            f"use a number of messages, or a cursor such as 1780000000000-0, not {since!r}"
        ) from error
    return since


Swarms = Annotated[
    list[str] | None,
    typer.Option("--swarm", metavar="NAME", help="Only this swarm. Repeat it for several."),
]
Since = Annotated[
    str,
    typer.Option(
        metavar="CURSOR|N",
        callback=_validate_since,
        help="Start after this cursor (0-0: at the oldest message), or with the last N messages.",
    ),
]
NoFollow = Annotated[bool, typer.Option("--no-follow", help="End after the stored messages.")]


def tail(
    pipeline: Pipeline,
    *,
    swarm: Swarms = None,
    since: Since = "10",
    no_follow: NoFollow = False,
    as_json: Json = False,
) -> None:
    """Print the messages on the swarms of a pipeline until Ctrl-C: time, swarm, sender, text."""

    async def command(settings: Settings) -> None:
        # Only errors, because messages and log share the terminal.
        configure_logging("error", settings.log.format, may_color=may_color())
        interface = await look_up(settings, pipeline)
        for name in swarm or ():
            interface.check_swarm(name)
        swarms = list(dict.fromkeys(swarm or interface.swarms))
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(
                ReconnectingConnection(bus_address(settings))
            )
            changed = asyncio.Event()
            if not no_follow:
                follower = await stack.enter_async_context(Follower(bus_address(settings)))
                for name in swarms:
                    await follower.follow(
                        interface.swarm_owner(name), name, lambda _: changed.set()
                    )
            logs = await _open_logs(connection, interface.swarm_owner, swarms, since)
            show = _print_json if as_json else _print_text
            await (_print_unread(logs, show) if no_follow else _follow(logs, show, changed))

    try:
        run(command)
    except KeyboardInterrupt as end:
        # Ctrl-C is the normal end.
        raise typer.Exit(0) from end


async def _open_logs(
    connection: ReconnectingConnection, swarm_owner: SwarmOwner, swarms: Sequence[str], since: str
) -> MergedLogs:
    if "-" in since:
        return MergedLogs(connection, swarm_owner, dict.fromkeys(swarms, since))
    after = await cursors_before_last(connection, swarm_owner, swarms, int(since))
    return MergedLogs(connection, swarm_owner, after)


async def _follow(logs: MergedLogs, show: PrintEntry, changed: asyncio.Event) -> None:
    """Print the stored messages, and again after each change.

    All messages come from the logs, page by page, so a slow reader misses none.
    """
    changed.set()
    while True:
        await _wait_for_change(changed)
        changed.clear()
        try:
            await _print_unread(logs, show)
        except BusUnavailable:
            # Read again as soon as the bus is back.
            changed.set()
            await asyncio.sleep(BUS_RETRY_S)


async def _wait_for_change(changed: asyncio.Event) -> None:
    """Wait for a change. End the command if its output is no longer read.

    The system reports a closed pipe only to a write, hence the checks in between.
    """
    while not changed.is_set():
        if not is_read():
            end_unread()
        with suppress(TimeoutError):
            async with asyncio.timeout(READER_CHECK_S):
                await changed.wait()


async def _print_unread(logs: MergedLogs, show: PrintEntry) -> None:
    async for swarm, entry in logs.unread():
        show(swarm, entry)


def _print_text(swarm: str, entry: LogEntry) -> None:
    try:
        message = decode(entry.data, len(entry.data))
        sender, text = message.sender, message.text
    except MalformedMessage:
        sender, text = "?", entry.data.decode(errors="replace")
    first, *more = text_lines(text)
    print_line(f"{moment(entry.place[0], '%Y-%m-%d %H:%M:%S')}  {swarm}  {sender}: {first}")
    for line in more:
        print_line(f"{'':19}  {line}")


def _print_json(swarm: str, entry: LogEntry) -> None:
    print_json(
        {
            "swarm": swarm,
            "cursor": entry.cursor,
            "mid": entry.mid,
            "message": on_one_line(entry.data),
        }
    )
