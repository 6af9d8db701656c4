"""Deliveries to a store file, loaded only if the configuration names one."""

from typing import Any, Self

from memrelay.capture.configuration import Configuration
from memrelay.capture.delivery import Misconfigured, NotDelivered, TurnsRefused
from memrelay.embedded.store import EmbeddedStore, open_store
from memrelay.errors import MemoryFault, NotTheOwner, Refused, StoreBusy


class FileDelivery:
    """Delivers to a store file, which no other program may have open."""

    def __init__(self, configuration: Configuration) -> None:
        self._path = configuration.file
        self._store: EmbeddedStore | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()

    async def add(self, call: dict[str, Any]) -> None:
        """Call turns.add. Raises NotDelivered, TurnsRefused and Misconfigured."""
        try:
            if self._store is None:
                self._store = open_store(self._path, "capture")
            self._store.operate("turns.add", call)
        except (StoreBusy, NotTheOwner) as error:
            raise NotDelivered(str(error)) from error
        except Refused as error:
            raise TurnsRefused(str(error)) from error
        except MemoryFault as error:
            raise Misconfigured(str(error)) from error
