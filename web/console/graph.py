"""A pipeline as a picture: bars are swarms, boxes are agents, and lines run from left to right.

Those who listen to a swarm stand beside its bar, and those who listen to named agents alone behind
the first of them; what the
last of a row says goes to a bar at the right. Rows of equal height and straight lines: a pipeline
of sixty agents is long, but
no harder to read than one of six.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memrelay.web.console.figures import clip
from memrelay.web.console.order import (
    BAR_LETTERS,
    BAR_WIDTH,
    BOX_HEIGHT,
    BOX_LETTERS,
    BOX_WIDTH,
    GAP,
    LABEL_LETTERS,
    MARGIN,
    ROW,
    GridPosition,
    Order,
    Point,
    column_x,
    left_of,
    right_of,
    row_y,
)
from memrelay.web.console.stations import Station

# The lines of a picture: who listens on which swarm, and who says on it, in SVG's path
# notation.

BEND = 14  # px from a box to where a line to another row turns
HEAD, HALF = 6, 4  # an arrow's head, in px


class Wire(NamedTuple):
    """A line with an arrow's head."""

    # listens, says, passes (says and listens), crosses (the same, to one that does not stand
    # behind)
    kind: str
    swarm: str
    title: str
    path: str
    end: Point
    label: str


def wires(order: Order, places: Sequence[GridPosition]) -> Iterator[Wire]:
    """Every line but the crossing ones."""
    bars_x = column_x(1 + max((place.column for place in places), default=-1))
    for at, station in enumerate(order.stations):
        first, end = order.first[at], left_of(places[at])
        if first is not None:
            start, label = right_of(places[first]), clip(station.hears_on, LABEL_LETTERS)
            yield Wire(
                "passes",
                station.hears_on,
                _heard(station, order.stations[first]),
                _bent(start, end),
                end,
                label,
            )
        elif station.hears_on:
            title, label = (
                f"{station.name} listens on {station.hears_on} to {station.from_whom}",
                ", ".join(station.named),
            )
            path = _bent(Point(MARGIN + BAR_WIDTH, end.y), end)
            yield Wire("listens", station.hears_on, title, path, end, clip(label, LABEL_LETTERS))
        if station.says_on and not order.behind[at]:
            bar = Point(bars_x, end.y)
            title = f"{station.name} says on {station.says_on}"
            yield Wire("says", station.says_on, title, _bent(right_of(places[at]), bar), bar, "")


def crossing_wires(order: Order, places: Sequence[GridPosition]) -> Iterator[Wire]:
    """The lines to those who listen to several named agents, from all of them but the one that they
    stand behind."""
    for at, station in enumerate(order.stations):
        end = left_of(places[at])
        for other in order.heard[at]:
            if other != order.first[at]:
                path = _curved(right_of(places[other]), end)
                yield Wire(
                    "crosses",
                    station.hears_on,
                    _heard(station, order.stations[other]),
                    path,
                    end,
                    "",
                )


def _heard(hearer: Station, speaker: Station) -> str:
    return f"{hearer.name} listens to {speaker.name} on {hearer.hears_on}"


def _bent(start: Point, end: Point) -> str:
    """Straight, or down to a lower row at a right angle."""
    if start.y == end.y:
        return f"M{start.x} {start.y}H{end.x}{_head(end)}"
    turn = start.x + BEND
    return f"M{start.x} {start.y}H{turn - 6}q6 0 6 6V{end.y - 6}q0 6 6 6H{end.x}{_head(end)}"


def _curved(start: Point, end: Point) -> str:
    return f"M{start.x} {start.y}C{start.x + GAP} {start.y} {end.x - GAP} {end.y} {end.x} {end.y}{_head(end)}"


def _head(end: Point) -> str:
    return f"M{end.x - HEAD} {end.y - HALF}L{end.x} {end.y}L{end.x - HEAD} {end.y + HALF}"


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
