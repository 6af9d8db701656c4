"""In which order a pipeline's agents stand in its picture: who beside a swarm, who behind whom, in
which column and row.

An agent that listens to named agents alone stands behind the first of them, in the same row where
it can. All others stand
beside the swarm that they hear.
"""

from collections.abc import Sequence
from typing import NamedTuple

from memrelay.web.console.stations import Station


class GridPosition(NamedTuple):
    """Where an agent stands."""

    column: int
    row: int


class Order:
    """Agents by number: `heard[i]` are those whom i names, `first[i]` the one behind whom it stands
    (or None), and `behind[i]`
    those who stand behind i."""

    def __init__(self, stations: Sequence[Station]) -> None:
        """Puts them in their order."""
        self.stations = stations
        speakers: dict[tuple[str, str], list[int]] = {}
        for at, station in enumerate(stations):
            if station.says_on:
                speakers.setdefault((station.says_on, station.name), []).append(at)
        self.heard = [
            [
                other
                for name in station.named
                for other in speakers.get((station.hears_on, name), ())
                if other != at
            ]
            for at, station in enumerate(stations)
        ]
        self.first: list[int | None] = [None] * len(stations)
        for at, others in enumerate(self.heard):
            self.first[at] = next(
                (other for other in others if not self._is_behind(other, at)), None
            )
        self.behind: list[list[int]] = [[] for _ in stations]
        for at, other in enumerate(self.first):
            if other is not None:
                self.behind[other].append(at)

    def _is_behind(self, at: int, other: int) -> bool:
        """Whether `at` stands behind `other`: the two would stand behind each other."""
        place: int | None = at
        while place is not None:
            if place == other:
                return True
            place = self.first[place]
        return False

    def places(self) -> list[GridPosition]:
        """The place of each."""
        found = [GridPosition(0, 0)] * len(self.stations)
        waiting = [(at, 0, True) for at in reversed(self.roots())]
        row = -1
        while waiting:
            at, column, is_new = waiting.pop()
            row += is_new
            found[at] = GridPosition(column, row)
            waiting += reversed(
                [(other, column + 1, number > 0) for number, other in enumerate(self.behind[at])]
            )
        return found

    def roots(self) -> list[int]:
        """Those who stand beside a swarm's bar, swarm by swarm; at the end those who hear none."""
        alone = [at for at, other in enumerate(self.first) if other is None]
        swarms = list(dict.fromkeys(self.stations[at].hears_on for at in alone))
        return sorted(
            alone,
            key=lambda at: (
                not self.stations[at].hears_on,
                swarms.index(self.stations[at].hears_on),
            ),
        )


# Where things stand in a picture, in px: columns of boxes between two columns of bars, in rows of
# equal height.

MARGIN = 8
ROW, GAP = 52, 88  # from row to row; between columns
BOX_WIDTH, BOX_HEIGHT = 184, 40
BAR_WIDTH = 104
BOX_LETTERS, BAR_LETTERS, LABEL_LETTERS = 21, 12, 10  # that fit


class Point(NamedTuple):
    """A point."""

    x: int
    y: int


def column_x(column: int) -> int:
    """Where a column begins; the one after the last is that of the bars at the right."""
    return MARGIN + BAR_WIDTH + GAP + column * (BOX_WIDTH + GAP)


def row_y(row: int) -> int:
    """The middle of a row."""
    return MARGIN + row * ROW + ROW // 2


def left_of(place: GridPosition) -> Point:
    """Where lines reach a box."""
    return Point(column_x(place.column), row_y(place.row))


def right_of(place: GridPosition) -> Point:
    """Where lines leave it."""
    return Point(column_x(place.column) + BOX_WIDTH, row_y(place.row))
