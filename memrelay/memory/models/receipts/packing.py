"""How the receipts of a commit become the bytes of one row, and back."""

import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace

# The version of the code that decides the order and the scores. Raise it with each change of them:
# then `memrelay receipt --verify` gives it as the reason of a difference.
RANKING = 1
# Records that a receipt names, at most.
MAX_FOUND = 100
DIGEST_BYTES = 16


class Fingerprint(Struct, frozen=True, array_like=True):
    """Conditions of the order and the scores, besides the records and the question."""

    ranking: int
    embedder: str
    language: str
    mode: str

    def view(self) -> dict[str, Any]:
        """Return it as operations show it."""
        return {
            "ranking": self.ranking,
            "embedder": self.embedder,
            "language": self.language,
            "settings": {"mode": self.mode},
        }


class Receipt(Struct, frozen=True, array_like=True):
    """One read, and what it has found.

    `question` is the input of the operation, None after an erasure. `found` has (guid, number of
    the version, score) of each record, best first; `left_out` counts those that it does not have.
    Without a number, the version is that of the time of `change`, which the history knows.
    """

    id: str
    change: int
    pipeline: str
    operation: str
    question: dict[str, Any] | None
    actor: str
    agent: str
    input: str
    thread: str
    found: list[tuple[str, int | None, float | None]]
    left_out: int
    fingerprint: Fingerprint

    def without_question(self) -> "Receipt":
        """Return the receipt with a digest in place of the question."""
        return replace(self, question=digest_question(self.question))

    def view(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self) | {"fingerprint": self.fingerprint.view()}


# The same values in the same order as a tuple, which is made faster.
ReceiptValues = tuple[Any, ...]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Receipt]).decode


def digest_question(question: Any) -> dict[str, str]:
    """Return what stands for a question of which only a digest is kept."""
    return {"digest": blake2b(orjson.dumps(question), digest_size=DIGEST_BYTES).hexdigest()}


def pack(receipts: Sequence[Receipt | ReceiptValues]) -> bytes:
    """Compress receipts in their order."""
    return zlib.compress(_encode(receipts), 1)


def unpack(data: bytes) -> list[Receipt]:
    """Return the receipts of a row."""
    return _decode(zlib.decompress(data))
