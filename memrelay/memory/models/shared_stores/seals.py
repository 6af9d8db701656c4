"""The seal keys of an interface: seal internal values before a call, and open them afterwards.

This module is light. `memory/sealing.py`, which loads `cryptography`, is imported only if
`memory.seal_keys` is set.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, cast

import orjson

from memrelay.installation import install_extra
from memrelay.memory.engine.models import load
from memrelay.memory.errors import Refused, SealBroken, SealKeyMissing, ValueTooLarge
from memrelay.memory.models.shared_stores import ITEM_KIND
from memrelay.memory.records.ids import UID, replace_uid
from memrelay.memory.seal_keys import Resolver, SealKeys, is_sealed

PREFIX = "v1."
UNUSABLE = (
    "a key of memory.seal_keys cannot be read, so internal values can be neither sealed nor "
    "opened; run `memrelay doctor` on the server to find the reason"
)
INSTALL = f"memory.seal_keys needs cryptography: {install_extra('seal')}"


class SealAddress(NamedTuple):
    """The address at which a sealed value opens."""

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
        """Return the address of an entry, or of the input that writes one."""
        return cls(uid, entry["store"], owner, entry.get("namespace") or "", entry["key"])


class Sealer(Protocol):
    """Seals and opens values."""

    @property
    def current_id(self) -> str:
        """The id of the key that seals."""

    def seal(self, value: Any, address: SealAddress, idempotency_key: str = "") -> str:
        """Return the sealed text of a value. Raises ValueTooLarge."""

    def open(self, text: str, address: SealAddress) -> Any:
        """Return the value of a sealed text. Raises SealKeyMissing and SealBroken."""


class InternalLine(NamedTuple):
    """A line with an internal value that the client did not encrypt."""

    parsed: dict[str, Any]
    # The field of the line that holds the entry: `record`, or `version` for an earlier state.
    sort: str
    # The entry's `data`.
    stored: dict[str, Any]
    address: SealAddress

    @property
    def value(self) -> Any:
        """The value as stored."""
        return self.stored["value"]


def find_internal(uid: str, line: str) -> InternalLine | None:
    """Return a line with an internal value, None for any other line."""
    if ITEM_KIND not in line:
        return None
    try:
        parsed = orjson.loads(line)
        sort = next((name for name in ("record", "version") if parsed.get(name)), "")
        entry = parsed.get(sort) or {}
        stored = orjson.loads(entry.get("data") or "{}")
    except (orjson.JSONDecodeError, AttributeError):
        return None  # the operation reports it
    if entry.get("kind") != ITEM_KIND or entry.get("in_context") or entry.get("encrypted"):
        return None
    if not isinstance(stored, dict) or "value" not in stored:
        return None
    fields = {"store": replace_uid(str(entry.get("scope")), UID, uid), "key": entry.get("key")}
    address = SealAddress.of(uid, stored | fields, entry.get("owner") or "")
    return InternalLine(parsed, sort, stored, address)


def seal_line(sealer: Sealer, uid: str, line: str) -> str:
    """Return a line with its internal value sealed, or the line itself if it has none.

    The same value gives the same text, so that an import can be repeated. Raises ValueTooLarge.
    """
    internal = find_internal(uid, line)
    if internal is None or is_sealed(internal.value):
        return line
    entry = internal.parsed[internal.sort]
    try:
        sealed = sealer.seal(internal.value, internal.address, f"import {entry.get('guid')}")
    except ValueTooLarge as error:
        address = internal.address
        raise ValueTooLarge(f"{address.key!r} in store {address.store!r}: {error}") from error
    data = orjson.dumps(internal.stored | {"value": sealed}).decode()
    return orjson.dumps(internal.parsed | {internal.sort: entry | {"data": data}}).decode()


PUT, GET, IMPORT = "items.put", "items.get", "records.import"


class _Loaded(Protocol):
    make_sealer: Callable[[tuple[str, ...]], Sealer]


def load_sealer(texts: Sequence[str]) -> Sealer:
    """Return the sealer with these keys; the first one seals.

    Raises ValueError. Raises SealKeyMissing: cryptography is not installed.
    """
    try:
        module = load("memrelay.memory.models.shared_stores.sealing")
    except ModuleNotFoundError as error:
        raise SealKeyMissing(INSTALL) from error
    return cast(_Loaded, module).make_sealer(tuple(texts))


class ItemSealKeys(SealKeys):
    """The keys of `memory.seal_keys`. A changed file takes effect within a second.

    Without references, values are neither sealed nor opened.
    """

    def __init__(self, references: Sequence[str] = (), resolver: Resolver | None = None) -> None:
        self._references, self._resolver = tuple(references), resolver

    async def load(self) -> Sealer | None:
        """Return the sealer, None if no key is configured.

        Raises SealKeyMissing: a key cannot be read, is malformed, or cryptography is missing.
        """
        try:
            return await self.read()
        except (LookupError, ValueError) as error:
            raise SealKeyMissing(UNUSABLE) from error

    async def read(self) -> Sealer | None:
        """Return the sealer, None if no key is configured.

        Raises LookupError and ValueError with the fault of a key. Raises SealKeyMissing:
        cryptography is missing.
        """
        if not self._references or self._resolver is None:
            return None
        return load_sealer([await self._resolver.resolve(one) for one in self._references])

    async def load_line_sealer(self, uid: str) -> Callable[[str], str]:
        """Return the function that seals the internal value in a line of an export.

        Raises SealKeyMissing. The function raises ValueTooLarge.
        """
        sealer = await self.load()
        return (lambda line: line) if sealer is None else partial(seal_line, sealer, uid)

    async def seal_input(self, uid: str, op: str, data: bytes, idempotency_key: str = "") -> bytes:
        """Return the input of a call with a sealed value, if it writes an internal one.

        An import writes the internal values in its lines. Raises SealKeyMissing and ValueTooLarge.
        Raises Refused: an import has a value that was sealed for another pipeline.
        """
        if op == IMPORT and ITEM_KIND.encode() in data:
            return await self._seal_import(uid, orjson.loads(data))
        if op != PUT or not self._references:
            return data
        request = orjson.loads(data)
        if request.get("in_context") is not False or request.get("encrypted"):
            return data
        if (sealer := await self.load()) is None:
            return data
        address = SealAddress.of(uid, request, request["agent"])
        sealed = sealer.seal(request["value"], address, idempotency_key)
        return orjson.dumps(request | {"value": sealed})

    async def open_output(self, uid: str, op: str, output: Any) -> Any:
        """Return the output of a call with its value opened.

        Raises SealKeyMissing and SealBroken.
        """
        if op != GET or output["in_context"] or output["encrypted"]:
            return output
        if not is_sealed(output["value"]):
            return output
        address = SealAddress.of(uid, output, output["owner"])
        return output | {"value": (await self._require(address)).open(output["value"], address)}

    async def _require(self, address: SealAddress) -> Sealer:
        sealer = await self.load()
        if sealer is None:
            raise SealKeyMissing(
                f"the value of {address.key!r} is sealed, and memory.seal_keys is empty; set it to "
                "the key that sealed the value"
            )
        return sealer

    async def _seal_import(self, uid: str, request: dict[str, Any]) -> bytes:
        """Return the input of an import with sealed values.

        Raises Refused for a sealed value that does not open in this pipeline.
        """
        lines = request.get("lines", ())
        for line in lines:
            internal = find_internal(uid, line)
            if internal is not None and is_sealed(internal.value):
                await self._check_sealed(internal.value, internal.address)
        if (sealer := await self.load()) is not None:
            request = request | {"lines": [seal_line(sealer, uid, line) for line in lines]}
        return orjson.dumps(request)

    async def _check_sealed(self, text: str, address: SealAddress) -> None:
        """Raise Refused for a value that was sealed for another address."""
        try:
            (await self._require(address)).open(text, address)
        except SealBroken as error:
            raise Refused(
                f"the value of {address.key!r} in store {address.store!r} was sealed for another "
                "pipeline, and opens only there; leave it out, and write it again"
            ) from error
