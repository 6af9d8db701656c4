"""Import a module that loads many others faster: without the garbage collector."""

import gc
import importlib
import sys
from typing import Any


def load(module: str) -> Any:
    """Import a module and exempt from collection what now exists.

    Imports leave almost no garbage, but the collector takes a seventh of their time.
    """
    if module in sys.modules:
        return sys.modules[module]
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()
