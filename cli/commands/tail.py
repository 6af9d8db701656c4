"""`memrelay tail PIPELINE`: what is said on its swarms, from the logs and then live."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Annotated

import typer

from bus.codec import decode
from bus.errors import BusUnavailable, MalformedMessage
from bus.follow import Follower
from bus.line import Line
from bus.log import Said, place_of
from cli.composition import bus_address, run
from cli.history import History, HomeOf, before_last
from cli.logs import configure_logging
from cli.options import Json, Pipeline
from cli.output import end_unread, is_read, on_one_line, print_json, print_line
from cli.pipeline import look_up
from cli.readable import moment, text_lines
from cli.settings import Settings, may_colour

LOOK_S = 1.0  # how often a reader that has gone is noticed while nothing is said
PAUSE_S = 0.5  # before a bus that is away is looked at again
Print = Callable[[str, Said], None]


def _cursor_or_count(since: str) -> str:
    """A count as it is, or a cursor."""
    try:
        if not (since.isascii() and since.isdecimal() and len(since) < 10):
            place_of(since)
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
            "error", settings.log.format, may_colour=may_colour()
        )  # what is printed here is what is said
        spoken = await look_up(settings, pipeline)
        for name in swarm or ():
            spoken.check_swarm(name)
        swarms = list(dict.fromkeys(swarm or spoken.swarms))
        async with AsyncExitStack() as stack:
            line = await stack.enter_async_context(Line(bus_address(settings)))
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


async def _begin(line: Line, home_of: HomeOf, swarms: Sequence[str], since: str) -> History:
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


def _as_text(swarm: str, said: Said) -> None:
    try:
        message = decode(said.data, len(said.data))
        speaker, text = message.sender, message.text
    except MalformedMessage:
        speaker, text = "?", said.data.decode(errors="replace")
    first, *more = text_lines(text)
    print_line(f"{moment(said.place[0], '%Y-%m-%d %H:%M:%S')}  {swarm}  {speaker}: {first}")
    for line in more:
        print_line(f"{'':19}  {line}")


def _as_json(swarm: str, said: Said) -> None:
    print_json(
        {"swarm": swarm, "cursor": said.cursor, "mid": said.mid, "message": on_one_line(said.data)}
    )
