"""A live copy, as the product packs it."""
import hiredis

from bus.resp import SwarmPen


def live_copy(mid: bytes, data: bytes) -> bytes:
    """What goes to the channel for an envelope `data`."""
    _, command = SwarmPen("swarm:{a}:chat", 10).write_sealed(mid, data)
    reader = hiredis.Reader()
    reader.feed(command)
    (_, _, payload) = reader.gets()
    return bytes(payload)
