"""consolidate: propose near duplicates, contradictions and stale facts of named memories for review
(docs/consolidation.md)."""

from asyncio import sleep
from dataclasses import asdict, replace
from typing import Annotated, Any

from pydantic import Field

from memrelay.blocks.contract import Call, DeferredCall, RunningCall
from memrelay.blocks.memory_args import NO_MEMORY_ID, NamedMemoryArgs, make_context
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.models.consolidation.consolidating import Budget, Progress, Rules, run_slice
from memrelay.memory.models.consolidation.finding import Sort
from memrelay.memory.models.named_memories.dedup.similarity import DUPLICATE
from memrelay.memory.models.named_memories.memories import find_memory
from memrelay.memory.records.view import Name

# The pause between two slices, in which other messages run.
PAUSE_S = 0.02
SORTS: tuple[Sort, ...] = ("duplicates", "contradictions", "stale")
Sorts = Annotated[tuple[Sort, ...], Field(min_length=1, max_length=len(SORTS))]


class ConsolidateArgs(NamedMemoryArgs):
    """The store holds the pipeline's named memories: `instances/${pipeline_uid}/memories`. Give the
    agent a timer (`wf_cron` or `wf_interval_secs`), or send it a message."""

    memory: Name = ""
    """The memory's id or name; all memories by default. Entries of two memories are never
    compared."""
    find: Sorts = SORTS
    """The sorts of findings to propose: `duplicates`, `contradictions` and `stale`."""
    stale_days: Annotated[int, Field(ge=0, le=36_500)] = 365
    """Days without a write or a confirmation after which an entry is stale. 0: only entries that
    are past their `valid_to`."""
    duplicate_threshold: Annotated[float, Field(ge=0.75, le=1)] = DUPLICATE
    """Similarity from which two entries are near duplicates."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 50
    """The maximum number of proposals of one run."""
    entries: Annotated[int, Field(ge=1, le=100_000)] = 5000
    """The maximum number of entries that one run compares with others. The next run goes on."""


async def pause(request: Any, deferred_call: RunningCall) -> Any:
    """Let other messages run, and return the progress."""
    await sleep(PAUSE_S)
    return request


@block("consolidate", ConsolidateArgs, deferred_call="memrelay.blocks.consolidate:pause")
def consolidate(call: Call, args: ConsolidateArgs) -> Message | DeferredCall:
    """Return {"proposals": count, "found": {sort: count}, "compared": entries}. It changes no
    entry: each finding waits for review as a call of `entries.merge` or `entries.delete`."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if call.got is not None and call.got.error:
        return call.error(call.got.error)
    memory = ""
    if args.memory:
        found = find_memory(call.tx, args.memory)
        if found is None:
            return call.error(f"no memory has the name or id {args.memory!r}; create it first")
        memory = found.id
    progress = Progress() if call.got is None else Progress(**call.got.value)
    rules = Rules(call.agent.alias, memory, args.find, args.stale_days, args.duplicate_threshold)
    origins = call.tx.records.versions.origins
    context = replace(
        make_context(call),
        origin=origins.current,
        input_id=origins.input_id,
        pipeline=call.agent.pipeline,
    )
    if run_slice(call.tx, rules, progress, Budget(args.limit, args.entries), context):
        return DeferredCall(asdict(progress))
    return call.reply_json(
        {
            "proposals": progress.proposals,
            "found": progress.proposed,
            "compared": progress.compared,
        }
    )
