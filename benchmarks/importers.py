"""Measure the import of memories of another system into a running product.

    .venv/bin/python benchmarks/importers.py [--items 50000]

It prints items per second of a first and of a repeated import of JSON lines of mem0, and the
memory of the importer. Target: 5,000 records per second.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.bundles import make_bundle
from tests.support.program import Program

UID = "importers1"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=50_000)
    items = parser.parse_args().items
    with Program() as program:
        program.up()
        (program.folder / "bundle.json").write_text(json.dumps(make_bundle(UID, name=UID)))
        assert program.run("deploy", "bundle.json").code == 0
        write_items(program.folder / "mem0.jsonl", items)
        for name in ("first", "repeated"):
            began = time.perf_counter()
            ended = program.run_process("import", UID, "mem0.jsonl", "--from", "mem0")
            rate = items / (time.perf_counter() - began)
            print(f"{name} import: {rate:,.0f} items/s; {(ended.out or ended.err).strip()}")
        # The largest child is the importer: the product is not waited for yet.
        peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"peak memory of a command: {peak_kib / 1024:.0f} MB")


def write_items(path: Path, count: int) -> None:
    """Write memories of mem0 as JSON lines."""
    with path.open("w") as file:
        for number in range(count):
            item = {
                "id": str(number),
                "memory": f"Person {number} likes drink {number % 97} and moved to city {number}",
                "user_id": f"user{number % 50}",
                "created_at": "2024-05-01T10:00:00Z",
                "metadata": {"topic": f"topic {number % 7}"},
            }
            file.write(json.dumps(item) + "\n")


if __name__ == "__main__":
    main()
