"""`memrelay tail PIPELINE`: what is said on its swarms, from the logs and then live."""

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
from memrelay.bus.streams.log import LogEntry, cursor_of, read_log, read_log_back
from memrelay.cli.composition import bus_address, run
from memrelay.cli.logs import configure_logging
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.pipeline import look_up
from memrelay.cli.settings import Settings, may_color
from memrelay.cli.terminal.output import end_unread, is_read, on_one_line, print_json, print_line
from memrelay.cli.terminal.readable import moment, text_lines

# The logs of several swarms, read on as one: oldest first, each message once.

PAGE = 200  # messages of one log that are read at once
LAST_NUMBER = (1 << 64) - 1  # within a millisecond
HomeOf = Callable[[str], str]  # whose a swarm is, in the key of its log


class History:
    """Where each log has been read to."""

    def __init__(
        self, line: ReconnectingConnection, home_of: HomeOf, after: dict[str, str]
    ) -> None:
        """`after` has the cursor of each swarm's log to go on from; "" is its beginning."""
        self._line, self._home_of, self._after = line, home_of, after
        self._pages: dict[str, deque[LogEntry]] = {swarm: deque() for swarm in after}

    async def unread(self) -> AsyncIterator[tuple[str, LogEntry]]:
        """(swarm, message) of all that came after what was read before. Raises BusUnavailable; it
        may be called again then."""
        ended: set[str] = set()
        while True:
            for swarm in self._pages.keys() - ended:
                if not self._pages[swarm] and not await self._turn_page(swarm):
                    ended.add(swarm)
            first = min(
                ((page[0].place, swarm) for swarm, page in self._pages.items() if page),
                default=None,
            )
            if first is None:
                return
            swarm = first[1]
            said = self._pages[swarm].popleft()
            self._after[swarm] = said.cursor
            yield swarm, said

    async def _turn_page(self, swarm: str) -> bool:
        """Whether there is another."""
        page = self._pages[swarm]
        page += await read_log(
            self._line, self._home_of(swarm), swarm, after=self._after[swarm], limit=PAGE
        )
        return bool(page)


async def before_last(
    line: ReconnectingConnection, home_of: HomeOf, swarms: Sequence[str], count: int
) -> dict[str, str]:
    """The cursor in each log after which the newest `count` messages of all of them come. Raises
    BusUnavailable."""
    places = {swarm: await _newest(line, home_of(swarm), swarm, max(count, 1)) for swarm in swarms}
    chosen = nlargest(count, ((place, swarm) for swarm in swarms for place in places[swarm]))
    after = {swarm: _cursor(*found[0]) if found else "" for swarm, found in places.items()}
    return after | {
        swarm: _before(*place) for place, swarm in chosen
    }  # the last word is the oldest's


async def _newest(
    line: ReconnectingConnection, home: str, swarm: str, count: int
) -> list[tuple[int, int]]:
    """The places of the newest messages, newest first."""
    places: list[tuple[int, int]] = []
    before = ""
    while len(places) < count:
        page = await read_log_back(
            line, home, swarm, before=before, limit=min(PAGE, count - len(places))
        )
        if not page:
            break
        places += [said.place for said in page]
        before = page[-1].cursor
    return places


def _before(ms: int, number: int) -> str:
    return _cursor(ms, number - 1) if number else _cursor(max(ms - 1, 0), LAST_NUMBER)


def _cursor(ms: int, number: int) -> str:
    return f"{ms}-{number}"


LOOK_S = 1.0  # how often a reader that has gone is noticed while nothing is said
PAUSE_S = 0.5  # before a bus that is away is looked at again
Print = Callable[[str, LogEntry], None]


def _cursor_or_count(since: str) -> str:
    """A count as it is, or a cursor."""
    try:
        if not (since.isascii() and since.isdecimal() and len(since) < 10):
            cursor_of(since)
    except ValueError as error:
        raise typer.BadParameter(
            f"a number of messages, or a cursor such as 1780000000000-0, not {since!r}"
        ) from error
    return since


Swarms = Annotated[
    list[str] | None,
    typer.Option("--swarm", metavar="NAME", help="Only this one; may be given again."),
]
Since = Annotated[
    str,
    typer.Option(
        metavar="CURSOR|N",
        callback=_cursor_or_count,
        help="Begin after this cursor (0-0: with the oldest that is kept), or with the last N.",
    ),
]
NoFollow = Annotated[
    bool, typer.Option("--no-follow", help="End when all that is in the logs is printed.")
]


def tail(
    pipeline: Pipeline,
    *,
    swarm: Swarms = None,
    since: Since = "10",
    no_follow: NoFollow = False,
    as_json: Json = False,
) -> None:
    """Print what is said on a pipeline's swarms until Ctrl-C: time, swarm, speaker, text."""

    async def command(settings: Settings) -> None:
        configure_logging(
            "error", settings.log.format, may_color=may_color()
        )  # what is printed here is what is said
        spoken = await look_up(settings, pipeline)
        for name in swarm or ():
            spoken.check_swarm(name)
        swarms = list(dict.fromkeys(swarm or spoken.swarms))
        async with AsyncExitStack() as stack:
            line = await stack.enter_async_context(ReconnectingConnection(bus_address(settings)))
            bell = asyncio.Event()
            if not no_follow:
                follower = await stack.enter_async_context(Follower(bus_address(settings)))
                for name in swarms:
                    await follower.follow(spoken.home_of(name), name, lambda _: bell.set())
            history = await _begin(line, spoken.home_of, swarms, since)
            show = _as_json if as_json else _as_text
            await (_print_unread(history, show) if no_follow else _follow(history, show, bell))

    try:
        run(command)
    except KeyboardInterrupt as end:
        raise typer.Exit(0) from end  # the way to end it, and no failure


async def _begin(
    line: ReconnectingConnection, home_of: HomeOf, swarms: Sequence[str], since: str
) -> History:
    """The logs from where they are wanted."""
    if "-" in since:
        return History(line, home_of, dict.fromkeys(swarms, since))
    return History(line, home_of, await before_last(line, home_of, swarms, int(since)))


async def _follow(history: History, show: Print, bell: asyncio.Event) -> None:
    """Prints what is there, and again whenever the bell rings.

    What is printed comes from the log alone, page by page, however slow the reader is.
    """
    bell.set()
    while True:
        await _rung(bell)
        bell.clear()
        try:
            await _print_unread(history, show)
        except BusUnavailable:
            bell.set()  # look again as soon as it is back
            await asyncio.sleep(PAUSE_S)


async def _rung(bell: asyncio.Event) -> None:
    """Waits for the bell; ends the command where nobody reads any more, which is not told until
    something is written."""
    while not bell.is_set():
        if not is_read():
            end_unread()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await bell.wait()


async def _print_unread(history: History, show: Print) -> None:
    async for swarm, said in history.unread():
        show(swarm, said)


def _as_text(swarm: str, said: LogEntry) -> None:
    try:
        message = decode(said.data, len(said.data))
        speaker, text = message.sender, message.text
    except MalformedMessage:
        speaker, text = "?", said.data.decode(errors="replace")
    first, *more = text_lines(text)
    print_line(f"{moment(said.place[0], '%Y-%m-%d %H:%M:%S')}  {swarm}  {speaker}: {first}")
    for line in more:
        print_line(f"{'':19}  {line}")


def _as_json(swarm: str, said: LogEntry) -> None:
    print_json(
        {"swarm": swarm, "cursor": said.cursor, "mid": said.mid, "message": on_one_line(said.data)}
    )
