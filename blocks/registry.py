"""The blocks there are: each file of this folder declares the one of its name with `@block`.

A worker loads those that its bundles name: all of them with what they need take 9 MB of its 70.
"""
import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import blocks
from blocks.contract import Block, BlockArgs, Handle

_BLOCKS: dict[str, Block] = {}


def block(name: str, args: type[BlockArgs] = BlockArgs) -> Callable[[Handle], Handle]:
    """Declares the function below as the block `name`, which a bundle names as `wf_diagram_webhook`."""
    def declare(handle: Handle) -> Handle:
        register(Block(name, args, handle))
        return handle
    return declare


def register(declared: Block) -> None:
    """Adds a block; a name used twice is an error."""
    if declared.name in _BLOCKS:
        raise ValueError(f"two blocks are named {declared.name!r}")
    _BLOCKS[declared.name] = declared


def find_block(name: str) -> Block | None:
    """The block of that name, for which its file alone is loaded; None where there is none."""
    if name not in _BLOCKS and name.isidentifier() and find_spec(f"blocks.{name}") is not None:
        importlib.import_module(f"blocks.{name}")
    return _BLOCKS.get(name)


@cache
def all_blocks() -> dict[str, Block]:
    """Every block by its name, in the order of the names."""
    for module in pkgutil.iter_modules(blocks.__path__):
        importlib.import_module(f"blocks.{module.name}")
    return dict(sorted(_BLOCKS.items()))
