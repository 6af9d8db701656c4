"""Live copies as the product packs them."""

import hiredis

from memrelay.bus.client.resp import PUBLISH, SwarmEncoder


def live_copy(ident: bytes, number: int, data: bytes) -> bytes:
    """Return the live copy of the envelope `data`, which is the `number`-th message of the input
    `ident`.
    """
    _, commands = SwarmEncoder("a", 10).write(ident, [("chat", data)] * (number + 1))
    reader = hiredis.Reader()
    reader.feed(PUBLISH + commands[-1])
    (_, _, payload) = reader.gets()
    return bytes(payload)
