"""Places the entities of a graph: edges pull, and entities push each other away.

The places begin at the digests of the ids, so equal graphs look equal, and a small change moves
little. A layout of 300 entities takes about 0.1 s.
"""

from functools import lru_cache
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

STEPS = 70
# So many entities fill the picture.
MANY = 20
Floats = NDArray[np.float64]


@lru_cache(64)
def place(
    ids: tuple[str, ...], pairs: tuple[tuple[int, int], ...], size: tuple[int, int, int]
) -> list[tuple[int, int]]:
    """Return the places of entities, px. `pairs` are the edges by the indexes of their ends, and
    `size` is (width, height, margin). Cached, because an open page asks again after each change.
    """
    width, height, margin = size
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
    # Few entities stay near the middle.
    share = min(1.0, 0.3 + len(ids) / MANY)
    places = _scale(x, width, margin, share), _scale(y, height, margin, share)
    return list(zip(*places, strict=True))


def _begin(ids: tuple[str, ...]) -> tuple[Floats, Floats]:
    """Return places between 0 and 1 that depend only on the id."""
    digests = [sha256(id_.encode(errors="replace")).digest() for id_ in ids]
    parts = np.array(
        [(int.from_bytes(one[:4]) / 2**32, int.from_bytes(one[4:8]) / 2**32) for one in digests]
    )
    return parts[:, 0], parts[:, 1]


def _push(x: Floats, y: Floats, edges: NDArray[np.intp], spread: float) -> tuple[Floats, Floats]:
    """Return how far each entity moves."""
    places = np.stack((x, y), axis=1)
    squares = (places * places).sum(axis=1)
    # Squared distances, without a matrix for each of x and y.
    force = places @ places.T
    force *= -2
    force += squares[:, None]
    force += squares[None, :]
    np.maximum(force, 1e-6, out=force)
    np.divide(spread * spread, force, out=force)
    total = force.sum(axis=1)
    move_x = x * total - force @ x - 0.4 * (x - 0.5)
    move_y = y * total - force @ y - 0.4 * (y - 0.5)
    source, target = edges[:, 0], edges[:, 1]
    away_x, away_y = x[source] - x[target], y[source] - y[target]
    pull = np.hypot(away_x, away_y) / spread
    for moves, away in ((move_x, away_x), (move_y, away_y)):
        np.add.at(moves, source, -away * pull)
        np.add.at(moves, target, away * pull)
    return move_x, move_y


def _scale(values: Floats, size: int, margin: int, share: float) -> list[int]:
    low, span = float(values.min()), float(np.ptp(values))
    if span < 1e-9:
        return [size // 2] * len(values)
    inner = (size - 2 * margin) * share
    first = (size - inner) / 2
    return [round(first + inner * (float(one) - low) / span) for one in values]
