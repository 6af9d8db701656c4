"""How a message or a call came in. An entry has it in the field `via`, if its sender knows it."""

from functools import lru_cache
from typing import NamedTuple

import orjson

from memrelay.bus.errors import MalformedMessage

# Bytes of each value, so that the field keeps to its limit.
MAX_BYTES = 160
SHAPE = 'the field `via` must be a JSON array of up to 5 texts, such as ["webhook:github"]'


class Via(NamedTuple):
    """A way in. Each value is "" for what does not apply or is not known."""

    # `webhook:github`, `rest`, `mcp`, `console`, `cli`, `turn:<id of the deferred call>`.
    profile: str = ""
    # Of the sender's signature: `verified` or `unverified`.
    verdict: str = ""
    # The id of the API key, or `jwt:` and the subject of a JWT.
    key: str = ""
    # The alias of the agent that calls.
    agent: str = ""
    # The model that asks for the call.
    model: str = ""

    def pack(self) -> bytes:
        """Return the field of an entry."""
        cut = [value.encode()[:MAX_BYTES].decode(errors="ignore") for value in self]
        return orjson.dumps(cut)


NO_VIA = Via()


@lru_cache(1024)
def parse_via(field: str) -> Via:
    """Return the way in that a field of an entry holds. Raises MalformedMessage."""
    if not field:
        return NO_VIA
    try:
        values = orjson.loads(field)
    except orjson.JSONDecodeError:
        values = None
    if not isinstance(values, list) or len(values) > len(Via._fields):
        raise MalformedMessage(SHAPE)
    if not all(isinstance(value, str) for value in values):
        raise MalformedMessage(SHAPE)
    return Via(*values)
