"""The registry of blocks: `@block` declares one, `find_block` loads one by its name.

A worker loads only the blocks that its bundles name. All of them, with their libraries, take 9 MB.
"""

import inspect
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, TypeVar

from memrelay.blocks.contract import (
    AsyncBlock,
    Block,
    BlockArgs,
    Call,
    DeferredCall,
    Executor,
    Handle,
)
from memrelay.blocks.errors import BrokenBlock
from memrelay.blocks.sources import (
    FOLDER_MODULE,
    BlockSource,
    all_outside_sources,
    built_in_names,
    built_in_source,
    expected_name,
    outside_sources,
)

Function = TypeVar("Function", bound=Callable[..., Any])
EXECUTOR_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_blocks: dict[str, Block] = {}
_loaded: set[str] = set()  # names whose sources have been checked and loaded


def block(
    name: str,
    args: type[BlockArgs] = BlockArgs,
    *,
    deferred_call: Executor | str | None = None,
    ordered: bool = True,
) -> Callable[[Function], Function]:
    """Declare the decorated function as the block `name`. Raises ValueError.

    A bundle selects the block with `wf_diagram_webhook`. A block that returns a DeferredCall names
    the async function that executes it: `deferred_call="module:function"`, loaded at the first use,
    or the function itself. An `async def` block needs no `deferred_call`. With `ordered=False`,
    calls of it for one agent run at the same time.
    """

    def declare(handle: Function) -> Function:
        _check(name, args, handle)
        if inspect.iscoroutinefunction(handle):
            if deferred_call is not None:
                raise ValueError(
                    "an async block is its own deferred call: remove deferred_call=..."
                )
            register(Block(name, args, _make_front(handle), AsyncBlock(handle, ordered)))
        else:
            _check_executor(deferred_call)
            register(Block(name, args, handle, deferred_call))
        return handle

    return declare


def _make_front(handle: Callable[..., object]) -> Handle:
    """Return the plain function that represents an async block in cascades."""

    @wraps(handle)
    def front(call: Call, args: BlockArgs) -> DeferredCall:
        return DeferredCall(None)

    return front


def register(declared: Block) -> None:
    """Add a block. Raises ValueError if another block has its name."""
    other = _blocks.get(declared.name)
    if other is not None:
        raise ValueError(
            f"two blocks are named {declared.name!r}: {_describe_location(other)} and "
            f"{_describe_location(declared)}; rename one of them"
        )
    _blocks[declared.name] = declared


def find_block(name: str) -> Block | None:
    """Return the block of that name, or None. Raises BrokenBlock.

    Only the file of this block is loaded. A broken file runs again at the next call.
    """
    if name not in _loaded:
        _load(name)
    return _blocks.get(name)


def block_of(function: Callable[..., Any]) -> Block:
    """Return the block that `function` was declared as. Raises ValueError."""
    for declared in _blocks.values():
        if declared.handle is not None and inspect.unwrap(declared.handle) is function:
            return declared
    raise ValueError(f"{function!r} is no block: decorate it with @block(name, arguments)")


def reload_block(name: str) -> None:
    """Load the file of a block in `blocks.paths` again. Raises BrokenBlock: the block then stays
    as it was.
    """
    module, was_loaded = FOLDER_MODULE + name, name in _loaded
    declared, loaded = _blocks.get(name), sys.modules.get(module)
    if declared is not None and _find_module(declared) == module:
        del _blocks[name]
    _loaded.discard(name)
    for source in outside_sources(name):
        source.forget_bytecode()
    try:
        _load(name)
    except BrokenBlock:
        if declared is not None:
            _blocks[name] = declared
        if loaded is not None:
            sys.modules[module] = loaded
        if was_loaded:
            _loaded.add(name)
        raise


@cache
def built_in_blocks() -> dict[str, Block]:
    """Return the built-in blocks by name. Raises BrokenBlock."""
    names = [name for name in built_in_names() if _load_built_in(name) is not None]
    return {name: _blocks[name] for name in sorted(names)}


def loadable_blocks() -> dict[str, Block]:
    """Return all blocks that can be loaded, by name."""
    for name in _all_names():
        with suppress(BrokenBlock):
            find_block(name)
    return dict(sorted(_blocks.items()))


@dataclass(frozen=True, slots=True)
class ListedBlock:
    """A block for people. `fault` is the reason if it cannot be loaded."""

    name: str
    source: str  # "built in", the name of a distribution, or a path
    summary: str
    fault: str = ""


def list_blocks() -> list[ListedBlock]:
    """Return every block by name, with its source, whether it can be loaded or not."""
    return [listed for name in sorted(_all_names()) if (listed := _listed(name)) is not None]


def _listed(name: str) -> ListedBlock | None:
    sources = [built_in_source(name), *outside_sources(name)]
    origins = [source.origin for source in sources if source is not None]
    try:
        found = find_block(name)
    except BrokenBlock as broken:
        return ListedBlock(name, ", ".join(origins), "", f"{broken}; {broken.remedy}")
    return None if found is None else ListedBlock(name, origins[0], _summary(found))


def _summary(listed: Block) -> str:
    first, _, _ = (sys.modules[_find_module(listed)].__doc__ or "").strip().partition("\n")
    if first.startswith(f"{listed.name}: "):
        return first.removeprefix(f"{listed.name}: ")
    return (inspect.getdoc(listed.handle) or "").partition("\n")[0]


def _find_module(declared: Block) -> str:
    return declared.args.__module__ if declared.handle is None else declared.handle.__module__


def _all_names() -> set[str]:
    return {*built_in_names(), *(source.name for source in all_outside_sources())}


def _load(name: str) -> None:
    built_in = _load_built_in(name)
    sources = [*([] if built_in is None else [built_in]), *outside_sources(name)]
    if len(sources) > 1:
        locations = " and ".join(source.place for source in sources)
        raise BrokenBlock(
            f"two blocks are named {name!r}: {locations}", "rename or remove one of them"
        )
    for source in sources:
        _load_source(source)
        if name not in _blocks:
            raise BrokenBlock(
                f"{source.place}: it declares no block {name!r}", f'add @block("{name}")'
            )
        _loaded.add(name)


def _load_built_in(name: str) -> BlockSource | None:
    """Load a built-in block and return its source; None if no block has that name."""
    source = built_in_source(name)
    if source is not None:
        _load_source(source)
        if name in _blocks and _find_module(_blocks[name]) == source.module:
            return source
    return None


def _load_source(source: BlockSource) -> None:
    try:
        source.load()
    except BrokenBlock:
        _blocks.pop(source.name, None)  # it is declared again when the file is corrected
        raise


def _check(name: str, args: type[BlockArgs], handle: Callable[..., object]) -> None:
    """Raise ValueError if the block could never be found or could never run."""
    file = expected_name(handle.__module__)
    if file and file != name:
        raise ValueError(
            f"a block has the name of its file, but {file}.py declares {name!r}: rename one of them"
        )
    if inspect.isgeneratorfunction(handle) or inspect.isasyncgenfunction(handle):
        raise ValueError("a block returns its result: use no yield")
    try:
        inspect.signature(handle).bind(None, None)
    except TypeError as error:
        raise ValueError(
            f"a block takes the call and its arguments ({error}): write def {name}(call, args)"
        ) from error
    if taken := sorted(args.model_fields.keys() & vars(BlockArgs).keys()):
        raise ValueError(
            f"BlockArgs already has the attribute {', '.join(taken)}: rename the argument"
        )


def _check_executor(deferred_call: Executor | str | None) -> None:
    is_place = isinstance(deferred_call, str) and EXECUTOR_PLACE.fullmatch(deferred_call)
    if (
        deferred_call is not None
        and not is_place
        and not inspect.iscoroutinefunction(deferred_call)
    ):
        raise ValueError(
            "deferred_call is an async function (request, deferred_call) or its place, not "
            f'{deferred_call!r}: write deferred_call="module:function"'
        )


def _describe_location(declared: Block) -> str:
    code = getattr(declared.handle and inspect.unwrap(declared.handle), "__code__", None)
    if code is not None:
        return f"{code.co_filename}, line {code.co_firstlineno}"
    return str(sys.modules[_find_module(declared)].__file__)
