"""The blocks for editors: their groups, what they do, and the schemas of their arguments."""

import re
from functools import cache
from typing import Any, NamedTuple

from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from memrelay.blocks.contract import AsyncBlock, Block
from memrelay.blocks.reference import describe
from memrelay.blocks.registry import ListedBlock, built_in_blocks, find_block, list_blocks
from memrelay.blocks.sources import list_folders
from memrelay.pipelines.bundle import MEMORY_ID

Schema = dict[str, Any]
OWN = "own"
GROUPS = {
    "relay": "chat_agent viewer_agent regex_filter regex_match json_match",
    "memory": "memory_write memory_append memory_delete memory_entry_write memory_turn memory_tool "
    "remember",
    "recall": "memory_read memory_search knowledge_search recall recipe identify_user",
    "model": "agent extract summarize consolidate",
    "transform": "template json_map add_1",
    "send": "http_request webhook_send",
}
GROUP_NAMES = (*GROUPS, OWN)
_GROUP_OF = {block: group for group, blocks in GROUPS.items() for block in blocks.split()}
# References to documents and to the origin of a rule.
ASIDE = re.compile(r" ?\((?:docs/|seed )[^()]*\)| ?\(\[[^()]*\]\([^()]*\)\)")
SENTENCE = re.compile(r"(.+?[.!?])(?:\s|$)", re.DOTALL)


class CatalogBlock(NamedTuple):
    """A block for the palette of an editor.

    `agent_class` is the class of an agent with the block: `wf_agent`, or the block itself if it
    needs no `wf_diagram_webhook`. `args_schema` is a JSON Schema (draft 2020-12). `is_own` blocks
    do not belong to Memrelay.
    """

    name: str
    group: str
    agent_class: str
    summary: str
    description: str
    args_schema: Schema
    is_async: bool
    is_own: bool
    needs_service: bool


def list_catalog() -> list[CatalogBlock]:
    """Return every block that can be loaded: the built-in ones in the order of GROUPS, then others.

    It runs the files of `blocks.paths`.
    """
    built_in = _list_built_in()
    names = {one.name for one in built_in}
    others = [listed for listed in list_blocks() if listed.name not in names and not listed.fault]
    return [*built_in, *(own for listed in others if (own := _describe_own(listed)) is not None)]


def list_block_folders() -> list[str]:
    """Return the folders of `blocks.paths`."""
    return [str(one.absolute()) for one in list_folders()]


@cache
def _list_built_in() -> tuple[CatalogBlock, ...]:
    blocks = built_in_blocks()
    order = list(_GROUP_OF)
    found = [_describe(block, describe(block)) for block in blocks.values()]
    return tuple(sorted(found, key=lambda one: order.index(one.name)))


def _describe_own(listed: ListedBlock) -> CatalogBlock | None:
    block = find_block(listed.name)
    if block is None:
        return None
    text = " ".join(filter(None, (listed.summary, block.handle and block.handle.__doc__)))
    return _describe(block, text)


def _describe(block: Block, text: str) -> CatalogBlock:
    description = ASIDE.sub("", re.sub(r"\s+", " ", text)).strip()
    sentence = SENTENCE.match(description)
    summary = sentence[1] if sentence else description
    return CatalogBlock(
        name=block.name,
        group=_GROUP_OF.get(block.name, OWN),
        agent_class=block.name if block.handle is None else "wf_agent",
        summary=f"{summary[:1].upper()}{summary[1:]}",
        description=description,
        args_schema=_make_schema(block),
        is_async=isinstance(block.executor, AsyncBlock),
        is_own=block.name not in _GROUP_OF,
        needs_service="url" in block.args.model_fields,
    )


def _make_schema(block: Block) -> Schema:
    """Return the schema of the arguments; that of any object if pydantic cannot make it."""
    try:
        schema = block.args.model_json_schema()
    except (PydanticInvalidForJsonSchema, PydanticUserError):
        return {"type": "object"}
    properties = schema.get("properties", {})
    if "memory_id" in properties:
        properties["memory_id"] |= MEMORY_ID
    return schema
