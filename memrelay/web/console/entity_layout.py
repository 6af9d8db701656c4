"""The places of entities in a picture of their graph: edges pull, and entities push each other away.

The places begin at the digests of the ids, so equal graphs look equal, and a small change moves
little. The layout takes about 0.1 s for 300 entities.
"""

from collections import Counter, deque
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Sizes in px.
WIDTH, HEIGHT, MARGIN = 1000, 680, 44
RADIUS, ARROW_GAP = 10, 4
STEPS = 70
# More labels would cover each other: those of the entities with the most edges are shown.
MAX_LABELS, MAX_EDGE_LABELS = 60, 30
COLORS = 6
# Types after the sixth have one color.
OTHER = COLORS
# (from, to) as indexes of entities.
Pair = tuple[int, int]
Floats = NDArray[np.float64]


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
    """The entities and edges in the order in which they were given."""

    dots: list[Dot]
    lines: list[Line]
    has_edge_labels: bool


def rank_types(types: Sequence[str]) -> dict[str, int]:
    """Return the color of each type: the most frequent ones have a color of theirs."""
    counts = Counter(types)
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return {name: min(at, OTHER) for at, name in enumerate(ordered)}


def draw(ids: Sequence[str], types: Sequence[str], pairs: Sequence[Pair]) -> Picture:
    """Return the picture of a graph."""
    places = _place(tuple(ids), tuple(pairs))
    colors = rank_types(types)
    degrees = Counter(end for pair in pairs for end in pair)
    by_degree = sorted(range(len(ids)), key=lambda at: (-degrees[at], ids[at]))
    labeled = set(by_degree[:MAX_LABELS])
    dots = [
        Dot(x, y, colors[kind], at in labeled)
        for at, ((x, y), kind) in enumerate(zip(places, types, strict=True))
    ]
    lines = [_connect(places[source], places[target]) for source, target in pairs]
    return Picture(dots, lines, len(pairs) <= MAX_EDGE_LABELS)


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


@lru_cache(64)
def _place(ids: tuple[str, ...], pairs: tuple[Pair, ...]) -> list[tuple[int, int]]:
    """Return the places in px. Cached, because an open page asks again after each change."""
    if not ids:
        return []
    x, y = _begin(ids)
    edges = np.array([pair for pair in pairs if pair[0] != pair[1]], dtype=np.intp).reshape(-1, 2)
    spread = (1.0 / len(ids)) ** 0.5
    for step in range(STEPS if len(ids) > 1 else 0):
        move_x, move_y = _push(x, y, edges, spread)
        length = np.hypot(move_x, move_y) + 1e-9
        most = np.minimum(length, 0.12 * (1 - step / STEPS)) / length
        x, y = x + move_x * most, y + move_y * most
    return list(zip(_scale(x, WIDTH), _scale(y, HEIGHT), strict=True))


def _begin(ids: tuple[str, ...]) -> tuple[Floats, Floats]:
    """Return places between 0 and 1 that depend only on the id."""
    digests = [sha256(id_.encode(errors="replace")).digest() for id_ in ids]
    parts = np.array(
        [(int.from_bytes(one[:4]) / 2**32, int.from_bytes(one[4:8]) / 2**32) for one in digests]
    )
    return parts[:, 0], parts[:, 1]


def _push(x: Floats, y: Floats, edges: NDArray[np.intp], spread: float) -> tuple[Floats, Floats]:
    """Return how far each entity moves."""
    dx, dy = x[:, None] - x[None, :], y[:, None] - y[None, :]
    force = spread * spread / (dx * dx + dy * dy + 1e-6)
    move_x = (dx * force).sum(axis=1) - 0.4 * (x - 0.5)
    move_y = (dy * force).sum(axis=1) - 0.4 * (y - 0.5)
    source, target = edges[:, 0], edges[:, 1]
    away_x, away_y = x[source] - x[target], y[source] - y[target]
    pull = np.hypot(away_x, away_y) / spread
    for moves, away in ((move_x, away_x), (move_y, away_y)):
        np.add.at(moves, source, -away * pull)
        np.add.at(moves, target, away * pull)
    return move_x, move_y


def _scale(values: Floats, size: int) -> list[int]:
    low, span = float(values.min()), float(np.ptp(values))
    if span < 1e-9:
        return [size // 2] * len(values)
    inner = size - 2 * MARGIN
    return [round(MARGIN + inner * (float(one) - low) / span) for one in values]


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
