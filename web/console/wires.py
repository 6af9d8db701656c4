"""The lines of a picture: who listens on which swarm, and who says on it, in SVG's path
notation."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from web.console.figures import clip
from web.console.geometry import (
    BAR_WIDTH,
    GAP,
    LABEL_LETTERS,
    MARGIN,
    Point,
    column_x,
    left_of,
    right_of,
)
from web.console.order import Order, Place
from web.console.stations import Station

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


def wires(order: Order, places: Sequence[Place]) -> Iterator[Wire]:
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


def crossing_wires(order: Order, places: Sequence[Place]) -> Iterator[Wire]:
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
