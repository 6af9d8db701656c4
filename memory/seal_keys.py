"""The seal keys of an interface: seal internal values before a call, and open them afterwards.

This module is light. `memory/sealing.py`, which loads `cryptography`, is imported only if
`memory.seal_keys` is set.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, cast

import orjson

from memrelay.memory.errors import Refused, SealBroken, SealKeyMissing
from memrelay.memory.sealed_text import PREFIX, is_sealed

PUT, GET, IMPORT = "items.put", "items.get", "records.import"
UNUSABLE = (
    "a key of memory.seal_keys cannot be read, so internal values can be neither sealed nor "
    "opened; run `memrelay doctor` on the server to find the reason"
)
INSTALL = "memory.seal_keys needs cryptography: install memrelay[seal]"


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


class Resolver(Protocol):
    """Resolves `env:` and `file:` references."""

    async def resolve(self, reference: str) -> str:
        """Return the value. Raises LookupError."""


class _Loaded(Protocol):
    make_sealer: Callable[[tuple[str, ...]], Sealer]


class SealKeys:
    """The keys of `memory.seal_keys`. A changed file takes effect within a second.

    Without references, values are neither sealed nor opened.
    """

    def __init__(self, references: Sequence[str] = (), resolver: Resolver | None = None) -> None:
        self._references, self._resolver = tuple(references), resolver

    async def load(self) -> Sealer | None:
        """Return the sealer, None if no key is configured.

        Raises SealKeyMissing: a key cannot be read, is malformed, or cryptography is missing.
        """
        if not self._references or self._resolver is None:
            return None
        try:
            texts = [await self._resolver.resolve(one) for one in self._references]
            module = importlib.import_module("memrelay.memory.sealing")
            return cast(_Loaded, module).make_sealer(tuple(texts))
        except (LookupError, ValueError) as error:
            raise SealKeyMissing(UNUSABLE) from error
        except ModuleNotFoundError as error:
            raise SealKeyMissing(INSTALL) from error

    async def seal_input(self, uid: str, op: str, data: bytes, idempotency_key: str = "") -> bytes:
        """Return the input of a call with a sealed value, if it writes an internal one.

        Raises SealKeyMissing and ValueTooLarge. Raises Refused: an import has a value that was
        sealed for another pipeline.
        """
        if op == IMPORT and PREFIX.encode() in data:
            await self._check_import(uid, orjson.loads(data)["lines"])
        if op != PUT or not self._references:
            return data
        given = orjson.loads(data)
        if given.get("in_context") is not False or given.get("encrypted"):
            return data
        if (sealer := await self.load()) is None:
            return data
        place = Place.of(uid, given, given["agent"])
        return orjson.dumps(given | {"value": sealer.seal(given["value"], place, idempotency_key)})

    async def open_output(self, uid: str, op: str, output: Any) -> Any:
        """Return the output of a call with its value opened.

        Raises SealKeyMissing and SealBroken.
        """
        if op != GET or output["in_context"] or output["encrypted"]:
            return output
        if not is_sealed(output["value"]):
            return output
        place = Place.of(uid, output, output["owner"])
        return output | {"value": (await self._require(place)).open(output["value"], place)}

    async def _require(self, place: Place) -> Sealer:
        sealer = await self.load()
        if sealer is None:
            raise SealKeyMissing(
                f"the value of {place.key!r} is sealed, and memory.seal_keys is empty; set it to "
                "the key that sealed the value"
            )
        return sealer

    async def _check_import(self, uid: str, lines: Sequence[str]) -> None:
        """Raise Refused for a sealed value that does not open in this pipeline."""
        for line in lines:
            found = _find_sealed(uid, line) if PREFIX in line else None
            if found is not None:
                await self._check_sealed(*found)

    async def _check_sealed(self, text: str, place: Place) -> None:
        """Raise Refused for a value that was sealed for another place."""
        try:
            (await self._require(place)).open(text, place)
        except SealBroken as error:
            raise Refused(
                f"the value of {place.key!r} in store {place.store!r} was sealed for another "
                "pipeline, and opens only there; leave it out, and write it again"
            ) from error


def _find_sealed(uid: str, line: str) -> tuple[str, Place] | None:
    """Return the sealed value in a line of an export, None if it has none."""
    try:
        parsed = orjson.loads(line)
        record = parsed.get("record") or parsed.get("version") or {}
        stored = orjson.loads(record.get("data") or "{}")
    except (orjson.JSONDecodeError, AttributeError):
        return None  # the operation reports it
    is_internal = not record.get("in_context") and not record.get("encrypted")
    if not is_internal or not isinstance(stored, dict) or not is_sealed(stored.get("value")):
        return None
    entry = {"store": record.get("scope"), "key": record.get("key")} | stored
    return stored["value"], Place.of(uid, entry, record.get("owner") or "")
