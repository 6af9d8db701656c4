"""Tells why a server cannot be reached: a full disk ends the embedded one, and keeps it down."""

import shutil
from contextlib import suppress
from pathlib import Path

from memrelay.bus.client.url import Address
from memrelay.bus.embedded.socket_path import find_data_folder
from memrelay.bus.errors import BusUnavailable

# Below this, the server can neither write its append-only file nor start.
LEAST_BYTES = 1 << 20


def make_unreachable(address: Address, reason: str) -> BusUnavailable:
    """Return the error of a server that does not answer, for a `reason` of the system."""
    if address.path and _is_disk_full(address.path):
        return BusUnavailable(
            "the disk of the bus (bus.data) is full, so its server cannot run; make room, and it "
            "starts again by itself"
        )
    return BusUnavailable(f"no server answers at {address}: {reason}")


def _is_disk_full(socket: str) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(find_data_folder(Path(socket))).free < LEAST_BYTES
    return False
