"""usage: serve.py SOCKET ROOT UID [UID ...] [--relays N] [--postgres URL] [--full]

Start Memrelay's worker for the yardstick.

Deploys the yardstick's bundle for each UID below ROOT, and serves the pipelines on the bus at
SOCKET. With --postgres, stores have journals in a new database of that server. With --full, they
keep inputs and receipts, and have policies.
"""

import argparse
import asyncio
import importlib
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.support.bundle import make_bundle, make_full_bundle
from memrelay.bus.client.url import Address
from memrelay.cli.imports import load_log_format
from memrelay.cli.logs import configure_logging
from memrelay.cli.open_files import resolve_open_files
from memrelay.cli.process import tune_runtime
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.service import Worker, WorkerOptions

# The yardstick's programs do not limit answers. A search for two common words finds more than
# the default limit of 1 MiB.
LIMITS = WorkerLimits(message_bytes=8 << 20)


async def serve(
    socket: str, root: Path, bundles: Mapping[str, dict[str, Any]], storage_url: str
) -> None:
    """Deploy the bundles and serve until SIGTERM."""
    async with Catalog(root, storage_url) as catalog:
        for uid, content in bundles.items():
            bundle = check(content).bundle
            assert bundle is not None
            await catalog.deploy(
                uid, bundle.name, bundle.hash, bundle.source, time.time_ns() // 1_000_000
            )
    open_files = resolve_open_files(None)
    worker = Worker(
        WorkerOptions(
            Address(path=socket),
            root,
            open_files=open_files,
            limits=LIMITS,
            storage_url=storage_url,
        )
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    tune_runtime()
    await worker.run()


def create_database(server: str) -> str:
    """Return the URL of a new database on a server; "" for no server."""
    if not server:
        return ""
    name = f"bench{time.time_ns()}"
    psycopg = importlib.import_module("psycopg")  # it takes 9 MB
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{server}/{name}"


def main() -> None:
    """Parse the arguments and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket")
    parser.add_argument("root", type=Path)
    parser.add_argument("uids", nargs="+")
    parser.add_argument("--relays", type=int, default=0)
    parser.add_argument("--postgres", default="")
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args()
    load_log_format()
    configure_logging("warning", "console")
    storage_url = create_database(given.postgres)
    bundles = {
        uid: make_full_bundle(uid) if given.full else make_bundle(uid, given.relays)
        for uid in given.uids
    }
    uvloop.run(serve(given.socket, given.root, bundles, storage_url))


if __name__ == "__main__":
    main()
