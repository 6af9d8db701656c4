"""Agents of the class ai_agent, which call the block `agent` with keys `ai_*` as arguments."""

from dataclasses import replace
from functools import cache

from pydantic import ConfigDict

from memrelay.blocks.contract import Block, BlockArgs
from memrelay.blocks.registry import find_block

BLOCK = "agent"
# Keys with another name than their argument.
KEYS = {"conversation_memory": "ai_use_context"}


def make_bundle_key(argument: str) -> str:
    """Return the key of an argument."""
    return KEYS.get(argument, f"ai_{argument}")


def ai_block() -> Block:
    """Return the block with arguments that have the names of the keys."""
    found = find_block(BLOCK)
    assert found is not None  # it is built in
    return replace(found, args=_with_keys(found.args))


@cache
def _with_keys(args: type[BlockArgs]) -> type[BlockArgs]:
    class AiAgentArgs(args):  # type: ignore[valid-type, misc]
        __doc__ = args.__doc__
        model_config = ConfigDict(alias_generator=make_bundle_key)

    return AiAgentArgs
