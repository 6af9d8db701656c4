"""The blocks there are: every file of this folder is loaded, and what it declares with `@block` is found by its name."""
import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

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


@cache
def all_blocks() -> dict[str, Block]:
    """Every block by its name, in the order of the names."""
    for module in pkgutil.iter_modules(blocks.__path__):
        importlib.import_module(f"blocks.{module.name}")
    return dict(sorted(_BLOCKS.items()))
