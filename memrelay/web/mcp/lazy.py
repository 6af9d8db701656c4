"""Loading a module at its first use, in a thread: the MCP SDK takes 57 MB and up to a second."""

import asyncio
import importlib
from typing import Any, Generic, TypeVar

Loaded = TypeVar("Loaded")


class Lazy(Generic[Loaded]):
    """An object that the class `name` of a module makes at the first use."""

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        self._module, self._name, self._arguments = module, name, arguments
        self._loading = asyncio.Lock()
        self.loaded: Loaded | None = None

    async def get(self) -> Loaded:
        """Return the object. The module loads in a thread."""
        if self.loaded is None:
            async with self._loading:
                await asyncio.to_thread(self.load)
        return self.load()

    def load(self) -> Loaded:
        """Return the object. The module loads in this thread."""
        if self.loaded is None:
            make = getattr(importlib.import_module(self._module), self._name)
            self.loaded = make(*self._arguments)
        assert self.loaded is not None
        return self.loaded
