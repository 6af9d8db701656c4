"""The blocks there are: each file of this folder declares the one of its name with `@block`.

A worker loads those that its bundles name: all of them with what they need take 9 MB of its 70.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

from memrelay import blocks
from memrelay.blocks.contract import Block, BlockArgs, Handle
from memrelay.blocks.errors import BrokenBlock

# What running a file that somebody is still writing raises.
FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    SystemExit,
)
_BLOCKS: dict[str, Block] = {}


def block(name: str, args: type[BlockArgs] = BlockArgs) -> Callable[[Handle], Handle]:
    """Declares the function below as the block `name`, which a bundle names as
    `wf_diagram_webhook`."""

    def declare(handle: Handle) -> Handle:
        _check(name, args, handle)
        register(Block(name, args, handle))
        return handle

    return declare


def register(declared: Block) -> None:
    """Adds a block; a name used twice is an error."""
    if declared.name in _BLOCKS:
        raise ValueError(f"two blocks are named {declared.name!r}")
    _BLOCKS[declared.name] = declared


def find_block(name: str) -> Block | None:
    """The block of that name, for which its file alone is loaded; None where there is none. Raises
    BrokenBlock."""
    if (
        name not in _BLOCKS
        and name.isidentifier()
        and find_spec(f"memrelay.blocks.{name}") is not None
    ):
        _load(name)
    return _BLOCKS.get(name)


@cache
def all_blocks() -> dict[str, Block]:
    """Every block by its name, in the order of the names. Raises BrokenBlock."""
    return _loaded()


@cache
def sound_blocks() -> dict[str, Block]:
    """The same without those whose files cannot be loaded."""
    return _loaded(BrokenBlock)


def _loaded(*borne: type[BrokenBlock]) -> dict[str, Block]:
    """All, but for those whose loading raises what is borne."""
    for module in pkgutil.iter_modules(blocks.__path__):
        with suppress(*borne):
            _load(module.name)
    return dict(sorted(_BLOCKS.items()))


def _load(name: str) -> None:
    """Runs a file of this folder. What it declared before it failed is forgotten: it is run anew
    when it is corrected."""
    try:
        importlib.import_module(f"memrelay.blocks.{name}")
    except FAULTS as fault:  # others write blocks: one that fails fails its own pipelines alone
        _BLOCKS.pop(name, None)
        raise BrokenBlock(name, fault) from fault


def _check(name: str, args: type[BlockArgs], handle: Handle) -> None:
    """Raises ValueError where a block would never be found, or could never work."""
    room, _, file = handle.__module__.rpartition(".")
    if room == "blocks" and file != name:
        raise ValueError(
            f"a block has the name of its file, and this one is named {name!r}: rename one of them"
        )
    if any(
        is_other(handle)
        for is_other in (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        )
    ):
        raise ValueError(
            "a block is a plain function that returns its answer: write no async, await or yield"
        )
    try:
        inspect.signature(handle).bind(None, None)
    except TypeError as error:
        raise ValueError(
            f"a block takes the call and its arguments ({error}): write def {name}(call, args)"
        ) from error
    if taken := sorted(args.model_fields.keys() & vars(BlockArgs).keys()):
        raise ValueError(
            f"an argument may not be named {', '.join(taken)}, as BlockArgs has that already: choose another name"
        )
