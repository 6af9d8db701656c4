"""A live copy, as the product packs it."""

import hiredis

from memrelay.bus.client.resp import PUBLISH, SwarmEncoder


def live_copy(ident: bytes, number: int, data: bytes) -> bytes:
    """What goes to the channel for an envelope `data`, the `number`-th message that the input
    `ident` led to."""
    _, commands = SwarmEncoder("a", 10).write(ident, [("chat", data)] * (number + 1))
    reader = hiredis.Reader()
    reader.feed(PUBLISH + commands[-1])
    (_, _, payload) = reader.gets()
    return bytes(payload)
