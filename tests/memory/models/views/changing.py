"""A program that changes a store at random until it is killed: changing.py FILE SEED."""

import random
import sys
from itertools import count
from pathlib import Path

from memrelay.memory.engine.store import Store
from tests.memory import builders
from tests.memory.models.views.recomputation import change_at_random


def main() -> None:
    """Print a line with the number of changes after each commit."""
    path, seed = sys.argv[1:]
    rng, at = random.Random(seed), 0
    builders._numbers = count(int(seed) * 1_000_000)  # other guids than the programs before
    store = Store(builders.MEMORY_ID, Path(path))
    while True:
        with store.transaction() as tx:
            for _ in range(rng.randrange(1, 12)):
                at += 1
                change_at_random(tx, rng, at)
        print(at, flush=True)


if __name__ == "__main__":
    main()
