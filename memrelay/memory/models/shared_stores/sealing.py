"""Seal internal values with AES-GCM, so that the bus and all files hold only sealed texts.

Only interfaces import this module: it loads `cryptography`, and a worker has no seal key. A sealed
text is `v1.<key id>.<nonce>.<ciphertext>`. Each pipeline and store has a separate key, derived by
HKDF-SHA256. The store, owner, namespace and key of the entry are authenticated with the value, so
that it opens at no other address.
"""

import hmac
import secrets
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memrelay.memory.errors import SealBroken, SealKeyMissing, ValueTooLarge
from memrelay.memory.models.shared_stores.seals import PREFIX, SealAddress

KEY_BYTES, NONCE_BYTES = 32, 12
# Bytes of the value. The sealed text stays below the limit of a stored value, 64 KiB.
MAX_VALUE_BYTES = 44 << 10
# Derived keys in memory, per process.
MAX_DERIVED = 1024
# The first byte of the plaintext: a text follows as it is, another value as JSON.
TEXT, JSON = b"t", b"j"
FORM = "64 hexadecimal digits, or 44 characters of base64 (make one with `openssl rand -hex 32`)"


class _Derived(NamedTuple):
    """The keys of one pipeline and store: for the values, and for nonces."""

    cipher: AESGCM
    nonces: bytes


class _SealKey(NamedTuple):
    id: str
    secret: bytes


def parse_key(text: str) -> bytes:
    """Return a seal key from hexadecimal digits or base64. Raises ValueError."""
    text = text.strip()
    try:
        key = bytes.fromhex(text) if len(text) == 2 * KEY_BYTES else b64decode(text, validate=True)
    except (ValueError, Base64Error) as error:
        raise ValueError(f"a seal key must have {FORM}") from error
    if len(key) != KEY_BYTES:
        raise ValueError(f"a seal key must have {FORM}")
    return key


@lru_cache(maxsize=4)
def make_sealer(texts: tuple[str, ...]) -> "Sealer":
    """Return the sealer with these keys; the first one seals. Raises ValueError."""
    return Sealer([parse_key(text) for text in texts])


class Sealer:
    """Seals and opens values. The first key seals, all open."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = [
            _SealKey(sha256(b"memrelay seal key id" + key).hexdigest()[:16], key) for key in keys
        ]
        self._derive = lru_cache(maxsize=MAX_DERIVED)(_derive)

    @property
    def current_id(self) -> str:
        """The id of the key that seals."""
        return self._keys[0].id

    def seal(self, value: Any, address: SealAddress, idempotency_key: str = "") -> str:
        """Return the sealed text of a value.

        With an idempotency key, the same value at the same address gives the same text, so that a
        retry is recognized. Raises ValueTooLarge.
        """
        first, bound = self._keys[0], address.bound
        derived, plain = self._derive(first.secret, address.derivation), _encode(value)
        nonce = secrets.token_bytes(NONCE_BYTES)
        if idempotency_key:
            nonce = _nonce_of(derived.nonces, (idempotency_key.encode(), bound, plain))
        sealed = derived.cipher.encrypt(nonce, plain, bound)
        return f"{PREFIX}{first.id}.{_to_base64(nonce)}.{_to_base64(sealed)}"

    def open(self, text: str, address: SealAddress) -> Any:
        """Return the value of a sealed text. Raises SealKeyMissing and SealBroken."""
        _, key_id, nonce, sealed = text.split(".")
        seal_key = next((key for key in self._keys if key.id == key_id), None)
        if seal_key is None:
            raise SealKeyMissing(
                f"the value of {address.key!r} is sealed with the key {key_id}, which "
                "memory.seal_keys lacks; add that key after the first one"
            )
        cipher = self._derive(seal_key.secret, address.derivation).cipher
        try:
            plain = cipher.decrypt(_from_base64(nonce), _from_base64(sealed), address.bound)
        except (InvalidTag, ValueError) as error:
            raise SealBroken(
                f"the value of {address.key!r} does not open: it was changed, or sealed for "
                "another pipeline, store, owner, namespace or key; write it again"
            ) from error
        return plain[1:].decode() if plain[:1] == TEXT else orjson.loads(plain[1:])


def _encode(value: Any) -> bytes:
    """Return the plaintext of a value. Raises ValueTooLarge."""
    plain = TEXT + value.encode() if isinstance(value, str) else JSON + orjson.dumps(value)
    if len(plain) > MAX_VALUE_BYTES + 1:
        raise ValueTooLarge(
            f"the value has {len(plain) - 1} bytes, and an internal value has at most "
            f"{MAX_VALUE_BYTES}; store less, or split it over several keys"
        )
    return plain


def _derive(secret: bytes, derivation: bytes) -> _Derived:
    info = b"memrelay seal v1 " + derivation
    both = HKDF(SHA256(), 2 * KEY_BYTES, salt=None, info=info).derive(secret)
    return _Derived(AESGCM(both[:KEY_BYTES]), both[KEY_BYTES:])


def _nonce_of(key: bytes, parts: Sequence[bytes]) -> bytes:
    """Return a nonce that depends on all parts. Each part has its length before it."""
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(key, framed, "sha256")[:NONCE_BYTES]


def _to_base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _from_base64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
