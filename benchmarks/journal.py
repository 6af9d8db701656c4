"""usage: .venv/bin/python benchmarks/journal.py [--takeover] [OPTIONS OF drive.py]

Measures what journals in PostgreSQL cost: the yardstick with plain stores and with journals, in
turn, next to the straight-line program. A third worker also keeps inputs and receipts, and has
policies. PostgreSQL runs on this machine, with fsync. --takeover
measures how long another host needs to take over a store of 100,000 records with a snapshot, and
10,000 later commits.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from memrelay.memory.engine.journal.journal import Journal
from memrelay.memory.engine.stores import OpenStores
from tests.memory.builders import MEMORY_ID, perform
from tests.support.postgres import Postgres

HERE = Path(__file__).resolve().parent
RECORDS, COMMITS, TOGETHER = 100_000, 10_000, 500
TEXT = "The meeting number {} with the people of the tea house is at 3pm on Friday"


def write(stores: OpenStores, count: int, together: int) -> None:
    """Write records, so many in each commit."""
    for first in range(0, count, together):
        with stores.get(MEMORY_ID).transaction() as tx:
            for number in range(first, first + together):
                perform(tx, "records.create", content=TEXT.format(number))


def measure_takeover(server: Postgres, folder: Path) -> None:
    url = server.create_database()
    first = OpenStores(folder / "a", 10, None, Journal(folder / "a", url))
    first.take_over(MEMORY_ID, 1)
    write(first, RECORDS, TOGETHER)
    first.rewrite(MEMORY_ID)  # makes a snapshot
    began = time.perf_counter()
    write(first, COMMITS, 1)
    took_s = time.perf_counter() - began
    first.close_all()
    size = first_size(folder / "a")
    ((tail,),) = server.query("SELECT bytes FROM memrelay.stores", url)
    print(f"{COMMITS:,} commits of one record: {COMMITS / took_s:,.0f} per second")
    print(f"journal: {tail / COMMITS:,.0f} bytes per commit; file: {size / 1e6:.0f} MB")
    for number in range(3):
        second = OpenStores(folder / f"b{number}", 10, None, Journal(folder / f"b{number}", url))
        began = time.perf_counter()
        second.take_over(MEMORY_ID, 2 + number)
        second.get(MEMORY_ID)
        print(f"takeover on an empty host: {time.perf_counter() - began:.2f} s")
        second.close_all()


def first_size(root: Path) -> int:
    return sum(file.stat().st_size for file in root.rglob("*.db"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--takeover", action="store_true")
    given, options = parser.parse_known_args()
    with Postgres() as server:
        if given.takeover:
            folder = Path(tempfile.mkdtemp(dir=server.folder))
            measure_takeover(server, folder)
            shutil.rmtree(folder)
            return
        plain = f"{sys.executable} {HERE}/support/serve.py {{socket}} {{root}} {{uid}}"
        journal = f"{plain} --postgres {server.url('').rstrip('/')}"
        workers = ["--worker", f"plain={plain}", "--fill-through", "plain"]
        workers += ["--worker", f"journal={journal}", "--fill-through", "journal"]
        workers += ["--worker", f"full={journal} --full", "--fill-through", "full"]
        drive = HERE / "yardstick" / "drive.py"
        only = ["--only", "straight_line,plain,journal,full"]
        subprocess.run([sys.executable, drive, *only, *workers, *options], check=True)


if __name__ == "__main__":
    main()
