"""MemrelaySaver: the checkpoints of LangGraph threads, kept in a store of Memrelay."""

import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from memrelay.agents.calls import make_calls
from memrelay.agents.saver_values import (
    KnownParts,
    Steps,
    get_steps,
    make_layout,
    put_steps,
    restore_values,
    without_values,
    write_steps,
)

# Checkpoints that one call lists.
PAGE = 100


class MemrelaySaver(BaseCheckpointSaver[int]):
    """A LangGraph checkpoint saver, sync and async.

    - `call` executes operations: a store from `open_store`, a client from `connect` or
      `connect_sync`, or the call of an `async def` block. The sync methods need a store or a
      client from `connect_sync`.
    - `agent` keeps the threads of several agents apart.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id, by
      default the built-in store `memories` of the pipeline; an embedded store ignores it.
    - `serde` serializes the values, by default LangGraph's JsonPlusSerializer.

    Checkpoints of a thread share the items of lists that did not change, such as messages.
    """

    def __init__(
        self,
        call: Any,
        agent: str = "",
        *,
        uid: str = "",
        store: str = "",
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self.agent = agent
        self._calls = make_calls(call, uid=uid, store=store)
        self._known = KnownParts()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of its thread."""
        stored: CheckpointTuple | None = self._run(self._get(config))
        return stored

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of its thread."""
        stored: CheckpointTuple | None = await self._arun(self._get(config))
        return stored

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first. `filter` has values of their metadata."""
        for one in self._run(self._list(config, filter, before, limit)):
            if (stored := self.get_tuple(one)) is not None:
                yield stored

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the newest first. `filter` has values of their metadata."""
        for one in await self._arun(self._list(config, filter, before, limit)):
            if (stored := await self.aget_tuple(one)) is not None:
                yield stored

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint and return its config."""
        stored: RunnableConfig = self._run(self._put(config, checkpoint, metadata))
        return stored

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint and return its config."""
        stored: RunnableConfig = await self._arun(self._put(config, checkpoint, metadata))
        return stored

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task that follow a checkpoint."""
        self._run(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task that follow a checkpoint."""
        await self._arun(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        self._run(_one("checkpoints.delete", self._threads([thread_id])))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        await self._arun(_one("checkpoints.delete", self._threads([thread_id])))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs. Over HTTP this needs a key with the scope admin."""
        self._run(self._forget_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs. Over HTTP this needs a key with the scope admin."""
        await self._arun(self._forget_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread into another thread."""
        self._run(_one("checkpoints.copy", self._copied(source_thread_id, target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread into another thread."""
        copied = self._copied(source_thread_id, target_thread_id)
        await self._arun(_one("checkpoints.copy", copied))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete old checkpoints: `keep_latest` keeps the newest one of each namespace, and those
        from which a DeltaChannel is rebuilt; `delete` keeps none.
        """
        self._run(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete old checkpoints, as `prune`."""
        await self._arun(self._prune(thread_ids, strategy))

    def _run(self, steps: Steps) -> Any:
        return self._calls.run_steps(steps, _new_key)

    async def _arun(self, steps: Steps) -> Any:
        return await self._calls.arun_steps(steps, _new_key)

    def _get(self, config: RunnableConfig) -> Steps:
        thread = _get_thread(config)
        query = self._at(thread) | {"id": get_checkpoint_id(config) or "latest"}
        stored = yield from get_steps(query, self._known.get(thread))
        if stored is None:
            return None
        self._known.note(thread, stored["mark"], stored["parts"])
        checkpoint = self.serde.loads_typed((stored["type"], stored["checkpoint"]))
        checkpoint["channel_values"] = restore_values(
            stored["channels"], stored["parts"], self.serde
        )
        return CheckpointTuple(
            _make_config(thread, stored["id"]),
            checkpoint,
            stored["metadata"],
            _make_config(thread, stored["parent"]) if stored["parent"] else None,
            [
                (one["task"], one["channel"], self.serde.loads_typed((one["type"], value)))
                for one, value in zip(stored["writes"], stored["values"], strict=True)
            ],
        )

    def _list(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Steps:
        """Return the configs of the checkpoints."""
        named = {} if config is None else config["configurable"]
        if ident := named.get("checkpoint_id"):
            configs = yield from self._pages(named, filter, before, None)
            return [one for one in configs if one["configurable"]["checkpoint_id"] == ident][:limit]
        return (yield from self._pages(named, filter, before, limit))

    def _pages(
        self,
        named: dict[str, Any],
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Steps:
        query: dict[str, Any] = {"agent": self.agent, "metadata": filter or {}}
        query |= {} if "thread_id" not in named else {"thread": str(named["thread_id"])}
        query |= {} if named.get("checkpoint_ns") is None else {"ns": named["checkpoint_ns"]}
        query |= {} if before is None else {"before": get_checkpoint_id(before) or ""}
        configs: Any = []  # of configs; the class has a method `list`
        while limit is None or len(configs) < limit:
            most = PAGE if limit is None else min(limit - len(configs), PAGE)
            page = yield "checkpoints.list", query | {"limit": most, "offset": len(configs)}
            configs += [
                _make_config((one["thread"], one["ns"]), one["id"]) for one in page["items"]
            ]
            if len(configs) >= page["total"] or not page["items"]:
                break
        return configs

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> Steps:
        thread = _get_thread(config)
        channels, parts = make_layout(checkpoint["channel_values"], self.serde)
        type_, skeleton = self.serde.dumps_typed(without_values(checkpoint))
        arguments = self._at(thread) | {
            "id": checkpoint["id"],
            "parent": get_checkpoint_id(config) or "",
            "type": type_,
            "metadata": get_serializable_checkpoint_metadata(config, metadata),
            "channels": channels,
        }
        mark = yield from put_steps(arguments, skeleton, parts, self._known.get(thread))
        self._known.note(thread, mark, parts)
        return _make_config(thread, checkpoint["id"])

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> Steps:
        typed = [(channel, *self.serde.dumps_typed(value)) for channel, value in writes]
        arguments = self._at(_get_thread(config)) | {
            "id": str(config["configurable"]["checkpoint_id"]),
            "task": task,
            "path": path,
            "writes": [
                {"idx": WRITES_IDX_MAP.get(channel, index), "channel": channel, "type": type_}
                for index, (channel, type_, _) in enumerate(typed)
            ],
        }
        yield from write_steps(arguments, [value for *_, value in typed])

    def _prune(self, thread_ids: Sequence[str], strategy: str) -> Steps:
        if thread_ids:
            arguments = {"threads": [*thread_ids], "agent": self.agent, "strategy": strategy}
            yield "checkpoints.prune", arguments

    def _forget_runs(self, run_ids: Sequence[str]) -> Steps:
        if run_ids:
            yield "checkpoints.forget_runs", {"runs": [*run_ids], "agent": self.agent}

    def _copied(self, source: str, target: str) -> dict[str, Any]:
        return {"source": source, "target": target, "agent": self.agent}

    def _threads(self, threads: Sequence[str]) -> dict[str, Any]:
        return {"threads": [*threads], "agent": self.agent}

    def _at(self, thread: tuple[str, str]) -> dict[str, Any]:
        return {"agent": self.agent, "thread": thread[0], "ns": thread[1]}


def _one(name: str, arguments: dict[str, Any]) -> Steps:
    return (yield name, arguments)


def _new_key() -> str:
    """Return an idempotency key. A checkpoint that is stored again must be written again."""
    return secrets.token_hex(16)


def _get_thread(config: RunnableConfig) -> tuple[str, str]:
    named = config["configurable"]
    return str(named["thread_id"]), named.get("checkpoint_ns") or ""


def _make_config(thread: tuple[str, str], ident: str) -> RunnableConfig:
    return {
        "configurable": {"thread_id": thread[0], "checkpoint_ns": thread[1], "checkpoint_id": ident}
    }
