"""The seal keys of an interface: internal values are sealed before a call, and opened afterwards.

The model with internal values declares in its manifest what does that.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from memrelay.memory.engine.models import list_hooks, load

# The version, the key id, the nonce, and the ciphertext with its tag. The last two are base64url.
SEALED = re.compile(r"v1\.[0-9a-f]{16}\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]{23,}")


def is_sealed(value: object) -> bool:
    """Return whether a stored value has the form of a sealed text."""
    return isinstance(value, str) and SEALED.fullmatch(value) is not None


class Resolver(Protocol):
    """Resolves `env:` and `file:` references."""

    async def resolve(self, reference: str) -> str:
        """Return the value. Raises LookupError."""


class SealKeys:
    """Seals and opens nothing. The model with internal values has a subclass with the keys of
    `memory.seal_keys`.
    """

    async def load(self) -> Any:
        """Return what seals and opens values, None if no key is configured.

        Raises SealKeyMissing: a key cannot be read, is malformed, or cryptography is missing.
        """
        return None

    async def read(self) -> Any:
        """Return the same as `load`. Raises LookupError and ValueError with the fault of a key.

        Raises SealKeyMissing: cryptography is missing.
        """
        return None

    async def load_line_sealer(self, uid: str) -> Callable[[str], str]:
        """Return the function that seals the internal value in a line of an export.

        Raises SealKeyMissing. The function raises ValueTooLarge.
        """
        return lambda line: line

    async def seal_input(self, uid: str, op: str, data: bytes, idempotency_key: str = "") -> bytes:
        """Return the input of a call with sealed values, if it writes internal ones.

        Raises SealKeyMissing, ValueTooLarge and Refused.
        """
        return data

    async def open_output(self, uid: str, op: str, output: Any) -> Any:
        """Return the output of a call with its value opened. Raises SealKeyMissing, SealBroken."""
        return output


def make_seal_keys(references: Sequence[str] = (), resolver: Resolver | None = None) -> SealKeys:
    """Return the keys with these references. A changed file takes effect within a second."""
    for hook in list_hooks("seals"):
        return cast(SealKeys, load(hook)(references, resolver))
    return SealKeys()
