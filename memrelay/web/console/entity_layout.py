"""The picture of a graph of entities: circles, lines between them, and which ones have labels."""

from collections import Counter, deque
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

# Sizes in px.
WIDTH, HEIGHT, MARGIN = 1000, 680, 44
RADIUS, ARROW_GAP = 10, 4
# More labels would cover each other: those of the entities with the most edges are shown.
MAX_LABELS, MAX_EDGE_LABELS = 60, 30
# More edges are one path without names and arrows.
MAX_NAMED_EDGES, MAX_EDGES = 120, 2000
COLORS = 6
# Types after the sixth have one color.
OTHER = COLORS
FORCES = "memrelay.web.console.forces.placing"
# (from, to) as indexes of entities.
Pair = tuple[int, int]


class Dot(NamedTuple):
    """The circle of an entity, in px. `color` is 0 to 5, 6 for rare types."""

    x: int
    y: int
    color: int
    has_label: bool


class Line(NamedTuple):
    """An edge between two circles, in px. (`middle_x`, `middle_y`) is the place of its label."""

    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def middle(self) -> tuple[int, int]:
        """The place of the label."""
        return (self.x1 + self.x2) // 2, (self.y1 + self.y2) // 2


class Picture(NamedTuple):
    """The entities and edges in the order in which they were given. `path` has the lines of many
    edges at once, in SVG's notation; "" for few edges.
    """

    dots: list[Dot]
    lines: list[Line]
    has_edge_labels: bool
    path: str = ""


def rank_types(types: Sequence[str]) -> dict[str, int]:
    """Return the color of each type: each of the six most frequent types has another one."""
    counts = Counter(types)
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return {name: min(at, OTHER) for at, name in enumerate(ordered)}


def draw(ids: Sequence[str], types: Sequence[str], pairs: Sequence[Pair]) -> Picture:
    """Return the picture of a graph."""
    # It loads numpy, which no other page needs.
    places = import_module(FORCES).place(tuple(ids), tuple(pairs), (WIDTH, HEIGHT, MARGIN))
    colors = rank_types(types)
    degrees = Counter(end for pair in pairs for end in pair)
    by_degree = sorted(range(len(ids)), key=lambda at: (-degrees[at], ids[at]))
    labeled = set(by_degree[:MAX_LABELS])
    dots = [
        Dot(x, y, colors[kind], at in labeled)
        for at, ((x, y), kind) in enumerate(zip(places, types, strict=True))
    ]
    lines = [_connect(places[source], places[target]) for source, target in pairs[:MAX_EDGES]]
    many = lines if len(pairs) > MAX_NAMED_EDGES else []
    path = "".join(f"M{line.x1} {line.y1}L{line.x2} {line.y2}" for line in many)
    return Picture(dots, lines, len(pairs) <= MAX_EDGE_LABELS, path)


def _connect(source: tuple[int, int], target: tuple[int, int]) -> Line:
    """Return the line between the edges of two circles."""
    dx, dy = target[0] - source[0], target[1] - source[1]
    length = max((dx * dx + dy * dy) ** 0.5, 1.0)
    start, end = RADIUS / length, (RADIUS + ARROW_GAP) / length
    return Line(
        round(source[0] + dx * start),
        round(source[1] + dy * start),
        round(target[0] - dx * end),
        round(target[1] - dy * end),
    )


def find_distances(start: int, count: int, pairs: Sequence[Pair]) -> list[int]:
    """Return the number of edges from an entity to each of `count`, -1 if there is no way."""
    near: list[list[int]] = [[] for _ in range(count)]
    for source, target in pairs:
        near[source].append(target)
        near[target].append(source)
    distances = [-1] * count
    distances[start] = 0
    waiting = deque([start])
    while waiting:
        at = waiting.popleft()
        for other in near[at]:
            if distances[other] < 0:
                distances[other] = distances[at] + 1
                waiting.append(other)
    return distances
