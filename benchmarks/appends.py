"""Measure appends to one growing record, each committed alone or 64 in a transaction.

.venv/bin/python benchmarks/appends.py [--appends 256]
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from memrelay.memory.engine.store import Store
from memrelay.memory.records.writing import AppendInput, WriteInput, append, write

SIZES = (4_000, 43_000, 257_000)
TOGETHER = (1, 64)
GUID, WORDS_IN_APPEND = "00000000-0000-0000-0000-000000000001", 8


def make_text(words: int) -> str:
    """Return random words of three to nine letters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(random.choices(letters, k=random.randint(3, 9))) for _ in range(words))


def make_input(content: str, now_ms: int) -> WriteInput:
    """Return a record to write, or a text to append."""
    return WriteInput(GUID, "bench", "note", content, "bench", (), now_ms)


def measure(folder: Path, size: int, together: int, appends: int) -> float:
    """Return the appends per second to a record of that many characters."""
    store = Store("bench", folder / f"{size}-{together}.db")
    with store.transaction() as tx:
        write(tx, make_input(make_text(size)[:size], 1))
    texts = [make_text(WORDS_IN_APPEND) for _ in range(appends)]
    began = time.perf_counter()
    for at in range(0, appends, together):
        with store.transaction() as tx:
            for text in texts[at : at + together]:
                append(tx, AppendInput(make_input(text, 2 + at), GUID, {}))
    took_s = time.perf_counter() - began
    store.close()
    return appends / took_s


def main() -> None:
    """Print one line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=256)
    appends = parser.parse_args().appends
    print("characters", *(f"{together} in a commit" for together in TOGETHER), sep="\t")
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            rates = [measure(Path(folder), size, together, appends) for together in TOGETHER]
            print(size, *(f"{rate:.0f}/s" for rate in rates), sep="\t")


if __name__ == "__main__":
    main()
