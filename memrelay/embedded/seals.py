"""Sealed values of an embedded store: seal and open them, or refuse the call without a key."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused, SealKeyMissing
from memrelay.memory.models.shared_stores.seals import (
    GET,
    IMPORT,
    PUT,
    SealAddress,
    find_internal,
    load_sealer,
    seal_line,
)
from memrelay.memory.models.shared_stores.table import ItemTable
from memrelay.memory.seal_keys import is_sealed

FIX = "pass the keys of memory.seal_keys to open_store(..., seal_keys=[...])"


class EmbeddedSeals:
    """The seal keys of an embedded store, none by default. The first key seals, all open."""

    def __init__(self, store: Store, keys: Sequence[str]) -> None:
        """Parse the keys, each a text of 32 bytes. Raises Refused and SealKeyMissing."""
        parts = store.memory_id.split("/")
        self._store, self._uid = store, parts[1] if len(parts) > 2 else ""
        try:
            self._sealer = load_sealer(keys) if keys else None
        except ValueError as error:
            raise Refused(f"`seal_keys`: {error}") from error

    def seal(self, name: str, input: Any) -> Any:
        """Return the input of an operation with its internal values sealed.

        Raises Refused: the file has sealed values, and there is no key. Raises ValueTooLarge.
        """
        if name == PUT and input.in_context is False and not input.encrypted:
            if self._sealer is None:
                self._refuse_if_sealed()
                return input
            address = SealAddress(self._uid, input.store, input.agent, input.namespace, input.key)
            return replace(input, value=self._sealer.seal(input.value, address))
        if name == IMPORT and any(find_internal(self._uid, line) for line in input.lines):
            return self._seal_import(input)
        return input

    def _seal_import(self, input: Any) -> Any:
        if self._sealer is None:
            self._refuse_if_sealed()
            return input
        lines = tuple(seal_line(self._sealer, self._uid, line) for line in input.lines)
        return replace(input, lines=lines)

    def _refuse_if_sealed(self) -> None:
        """Raise Refused if other internal values of the file are sealed."""
        if self._store.table(ItemTable).has_sealed():
            raise Refused(
                f"{self._store.path} has sealed values, so another internal value must not be "
                f"stored as it is; {FIX}"
            )

    def open(self, name: str, output: Any) -> Any:
        """Return the output of an operation with its value opened.

        Raises SealKeyMissing and SealBroken.
        """
        if name != GET or output.in_context or output.encrypted or not is_sealed(output.value):
            return output
        if self._sealer is None:
            raise SealKeyMissing(f"the value of {output.key!r} is sealed; {FIX}")
        address = SealAddress(self._uid, output.store, output.owner, output.namespace, output.key)
        return replace(output, value=self._sealer.open(output.value, address))
