"""The seal keys of an interface: seal internal values before a call, and open them afterwards.

This module is light. `memory/sealing.py`, which loads `cryptography`, is imported only if
`memory.seal_keys` is set.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import orjson

from memrelay.memory.errors import Refused, SealBroken, SealKeyMissing
from memrelay.memory.records.kinds import ITEM_KIND
from memrelay.memory.sealed_import import find_internal, seal_line
from memrelay.memory.sealed_text import Place, Sealer, is_sealed

PUT, GET, IMPORT = "items.put", "items.get", "records.import"
UNUSABLE = (
    "a key of memory.seal_keys cannot be read, so internal values can be neither sealed nor "
    "opened; run `memrelay doctor` on the server to find the reason"
)
INSTALL = "memory.seal_keys needs cryptography: install memrelay[seal]"


class Resolver(Protocol):
    """Resolves `env:` and `file:` references."""

    async def resolve(self, reference: str) -> str:
        """Return the value. Raises LookupError."""


class _Loaded(Protocol):
    make_sealer: Callable[[tuple[str, ...]], Sealer]


def load_sealer(texts: Sequence[str]) -> Sealer:
    """Return the sealer with these keys; the first one seals.

    Raises ValueError. Raises SealKeyMissing: cryptography is not installed.
    """
    try:
        module = importlib.import_module("memrelay.memory.sealing")
    except ModuleNotFoundError as error:
        raise SealKeyMissing(INSTALL) from error
    return cast(_Loaded, module).make_sealer(tuple(texts))


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
            return load_sealer([await self._resolver.resolve(one) for one in self._references])
        except (LookupError, ValueError) as error:
            raise SealKeyMissing(UNUSABLE) from error

    async def seal_input(self, uid: str, op: str, data: bytes, idempotency_key: str = "") -> bytes:
        """Return the input of a call with a sealed value, if it writes an internal one.

        An import writes the internal values in its lines. Raises SealKeyMissing and ValueTooLarge.
        Raises Refused: an import has a value that was sealed for another pipeline.
        """
        if op == IMPORT and ITEM_KIND.encode() in data:
            return await self._seal_import(uid, orjson.loads(data))
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

    async def _seal_import(self, uid: str, given: dict[str, Any]) -> bytes:
        """Return the input of an import with sealed values.

        Raises Refused for a sealed value that does not open in this pipeline.
        """
        lines = given.get("lines", ())
        for line in lines:
            found = find_internal(uid, line)
            if found is not None and is_sealed(found.value):
                await self._check_sealed(found.value, found.place)
        if (sealer := await self.load()) is not None:
            given = given | {"lines": [seal_line(sealer, uid, line) for line in lines]}
        return orjson.dumps(given)

    async def _check_sealed(self, text: str, place: Place) -> None:
        """Raise Refused for a value that was sealed for another place."""
        try:
            (await self._require(place)).open(text, place)
        except SealBroken as error:
            raise Refused(
                f"the value of {place.key!r} in store {place.store!r} was sealed for another "
                "pipeline, and opens only there; leave it out, and write it again"
            ) from error
