"""How many entries of an input may be read at once, so that large entries do not fill the memory.

The server bounds a read only by its number of entries.
"""

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import Word
from memrelay.bus.errors import BusError

# Bytes of one input that are read at once, except for a single larger entry.
READ_BYTES = 16 << 20
# Nodes of the stream that the server measures. Each has at least one entry.
SAMPLES = 256


def measure_command(key: Word) -> tuple[Word, ...]:
    """Return the command that estimates the bytes of an input."""
    return "MEMORY", "USAGE", key, "SAMPLES", SAMPLES


def count_fitting(size: int, length: int, most: int) -> int:
    """Return how many entries of an input with `length` entries and `size` bytes are read."""
    if size <= READ_BYTES:
        return most
    return max(1, min(most, READ_BYTES * length // size))


async def read_count(client: ReconnectingConnection, key: Word, most: int) -> int:
    """Return how many entries of an input or a log, up to `most`, may be read at once.

    A server that refuses to measure turns the limit off. Raises BusUnavailable.
    """
    commands = (("XLEN", key), measure_command(key))
    length, size = await client.call_all(commands, keep_refusals=True)
    if isinstance(length, BusError) or isinstance(size, BusError):
        return most
    return count_fitting(size or 0, length, most)
