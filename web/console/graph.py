"""A pipeline as a picture: bars are swarms, boxes are agents, and lines run from left to right.

Those who listen to a swarm stand beside its bar, and those who listen to named agents alone behind
the first of them; what the
last of a row says goes to a bar at the right. Rows of equal height and straight lines: a pipeline
of sixty agents is long, but
no harder to read than one of six.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from web.console.figures import clip
from web.console.geometry import (
    BAR_LETTERS,
    BAR_WIDTH,
    BOX_HEIGHT,
    BOX_LETTERS,
    BOX_WIDTH,
    GAP,
    MARGIN,
    ROW,
    column_x,
    left_of,
    row_y,
)
from web.console.order import Order
from web.console.stations import Station
from web.console.wires import Wire, crossing_wires, wires

COLOURS = 6  # swarms are told apart by name; colour only helps
MOST_CROSSINGS = 120  # more of them would make the picture black
TALL = 9 * ROW  # a bar that is higher has its name at the top


class Bar(NamedTuple):
    """A swarm."""

    name: str
    label: str
    x: int
    y: int
    height: int
    label_y: int


class Box(NamedTuple):
    """An agent."""

    station: Station
    label: str
    block: str
    x: int
    y: int


class Graph(NamedTuple):
    """The picture. Sizes in px; the widths and heights of boxes and bars stand here for the
    template."""

    width: int
    height: int
    bars: list[Bar]
    boxes: list[Box]
    wires: list[Wire]
    colours: dict[str, int]  # of swarms
    left_out: int  # lines that are not drawn
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT
    bar_width: int = BAR_WIDTH


def draw(stations: Sequence[Station]) -> Graph:
    """The picture of a pipeline; without agents, an empty one."""
    order = Order(stations)
    places = order.places()
    columns, rows = (1 + max((place[axis] for place in places), default=-1) for axis in (0, 1))
    left = [(stations[at].hears_on, places[at].row) for at in order.roots()]
    right = sorted(
        (
            (stations[at].says_on, place.row)
            for at, place in enumerate(places)
            if not order.behind[at]
        ),
        key=lambda end: end[1],
    )
    bars = [*_bars(left, MARGIN, joined=True), *_bars(right, column_x(columns), joined=False)]
    boxes = [
        Box(
            station,
            clip(station.name, BOX_LETTERS),
            clip(station.block, BOX_LETTERS + 4),
            left_of(place).x,
            left_of(place).y - BOX_HEIGHT // 2,
        )
        for station, place in zip(stations, places, strict=True)
    ]
    crossing = list(crossing_wires(order, places))
    names = dict.fromkeys(
        name for station in stations for name in (station.hears_on, station.says_on) if name
    )
    width = column_x(columns) + (
        BAR_WIDTH + MARGIN if any(name for name, _ in right) else MARGIN - GAP
    )
    return Graph(
        width,
        rows * ROW + 2 * MARGIN,
        bars,
        boxes,
        [*wires(order, places), *crossing[:MOST_CROSSINGS]],
        {name: number % COLOURS for number, name in enumerate(names)},
        max(0, len(crossing) - MOST_CROSSINGS),
    )


def _bars(swarms: Iterable[tuple[str, int]], x: int, *, joined: bool) -> list[Bar]:
    """A bar for each run of rows with the same swarm; `joined` ones reach over the rows between."""
    runs: list[tuple[str, int, int]] = []
    for name, row in swarms:
        if runs and runs[-1][0] == name and (joined or runs[-1][2] == row - 1):
            runs[-1] = name, runs[-1][1], row
        else:
            runs.append((name, row, row))
    return [_bar(name, first, last, x) for name, first, last in runs if name]


def _bar(name: str, first: int, last: int, x: int) -> Bar:
    top, height = row_y(first) - BOX_HEIGHT // 2, (last - first) * ROW + BOX_HEIGHT
    return Bar(
        name,
        clip(name, BAR_LETTERS),
        x,
        top,
        height,
        top + (height if height < TALL else BOX_HEIGHT) // 2,
    )
