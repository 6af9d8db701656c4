"""The logs of several swarms, read on as one: oldest first, each message once."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from heapq import nlargest

from bus.line import Line
from bus.log import Said, read_log, read_log_back

PAGE = 200  # messages of one log that are read at once
LAST_NUMBER = (1 << 64) - 1  # within a millisecond
HomeOf = Callable[[str], str]  # whose a swarm is, in the key of its log


class History:
    """Where each log has been read to."""

    def __init__(self, line: Line, home_of: HomeOf, after: dict[str, str]) -> None:
        """`after` has the cursor of each swarm's log to go on from; "" is its beginning."""
        self._line, self._home_of, self._after = line, home_of, after
        self._pages: dict[str, deque[Said]] = {swarm: deque() for swarm in after}

    async def unread(self) -> AsyncIterator[tuple[str, Said]]:
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
    line: Line, home_of: HomeOf, swarms: Sequence[str], count: int
) -> dict[str, str]:
    """The cursor in each log after which the newest `count` messages of all of them come. Raises
    BusUnavailable."""
    places = {swarm: await _newest(line, home_of(swarm), swarm, max(count, 1)) for swarm in swarms}
    chosen = nlargest(count, ((place, swarm) for swarm in swarms for place in places[swarm]))
    after = {swarm: _cursor(*found[0]) if found else "" for swarm, found in places.items()}
    return after | {
        swarm: _before(*place) for place, swarm in chosen
    }  # the last word is the oldest's


async def _newest(line: Line, home: str, swarm: str, count: int) -> list[tuple[int, int]]:
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
