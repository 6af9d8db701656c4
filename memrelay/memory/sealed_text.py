"""The form and the place of a sealed value (memrelay/memory/sealing.py)."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

import orjson

PREFIX = "v1."
# The key id, the nonce, and the ciphertext with its tag. The last two are base64url.
FORM = re.compile(r"v1\.[0-9a-f]{16}\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]{23,}")


def is_sealed(value: object) -> bool:
    """Return whether a stored value has the form of a sealed text."""
    return isinstance(value, str) and FORM.fullmatch(value) is not None


class Place(NamedTuple):
    """The place of a sealed value."""

    uid: str
    store: str
    owner: str
    namespace: str
    key: str

    @property
    def derivation(self) -> bytes:
        """The pipeline and the store, which select the derived key."""
        return orjson.dumps([self.uid, self.store])

    @property
    def bound(self) -> bytes:
        """The associated data: the value opens only there."""
        return orjson.dumps([self.store, self.owner, self.namespace, self.key])

    @classmethod
    def of(cls, uid: str, entry: Mapping[str, Any], owner: str) -> Self:
        """Return the place of an entry, or of the input that writes one."""
        return cls(uid, entry["store"], owner, entry.get("namespace") or "", entry["key"])


class Sealer(Protocol):
    """Seals and opens values."""

    @property
    def current_id(self) -> str:
        """The id of the key that seals."""

    def seal(self, value: Any, place: Place, idempotency_key: str = "") -> str:
        """Return the sealed text of a value. Raises ValueTooLarge."""

    def open(self, text: str, place: Place) -> Any:
        """Return the value of a sealed text. Raises SealKeyMissing and SealBroken."""
