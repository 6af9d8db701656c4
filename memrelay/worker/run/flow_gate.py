"""The gate of an agent with `wf_flow`: its messages run at once, later, or together.

The plan puts `Flow.hold` in the place of the block, so agents without it cost nothing more.
"""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from memrelay.blocks.contract import Call, DeferredCall, Handle, Transient
from memrelay.blocks.json_values import read_json
from memrelay.bus.codec import decode_kept
from memrelay.bus.message import JSON, Message, new_message
from memrelay.memory.engine.flow import FlowKey, FlowTable
from memrelay.pipelines.expressions import is_json, to_text
from memrelay.pipelines.flow import Flow
from memrelay.worker.errors import TooManyKeys

# Keys of one agent with waiting messages, or with runs that count for its rate.
MAX_KEYS = 10_000


class Parked(NamedTuple):
    """The answer of a gate: the message waits under this key, probably until `due`, Unix ms."""

    key: bytes
    due: int


class FlowGate:
    """Decides when the block of an agent with `wf_flow` is called. `clock` returns Unix ms."""

    def __init__(self, flow: Flow, handle: Handle, clock: Callable[[], int]) -> None:
        self.flow, self.handle, self._clock = flow, handle, clock

    def admit(self, call: Call, args: Any) -> Message | DeferredCall | Parked | None:
        """Call the block if the rate allows it at once. Otherwise let the message wait.

        Raises TooManyKeys, ExpressionFault, and the exceptions of the block.
        """
        table, flow, now_ms = call.tx.table(FlowTable), self.flow, self._clock()
        state = self._find_state(table, call, now_ms)
        if flow.has_only_rate and state.due is None and flow.count_free(state.starts, now_ms, 1):
            table.put(self._add_start(state, now_ms))
            return self.handle(call, args)
        parked, due = self._park(table, state, now_ms)
        table.put(state._replace(due=due))
        return parked

    def release(self, key: bytes, ident: str) -> Handle:
        """Return the function that takes the waiting message `ident` in place of the block."""
        return partial(self._run_released, key, ident)

    def _find_state(self, table: FlowTable, call: Call, now_ms: int) -> FlowKey:
        agent = call.agent
        key = self._make_key(call)
        state = table.find(key)
        if state is not None:
            return state
        if table.count_keys(agent.pipeline, agent.alias) >= MAX_KEYS:
            table.forget_free(now_ms)
            if table.count_keys(agent.pipeline, agent.alias) >= MAX_KEYS:
                raise TooManyKeys(agent.alias, MAX_KEYS)
        return FlowKey(key, agent.pipeline, agent.alias)

    def _make_key(self, call: Call) -> bytes:
        """Return a digest of the agent and of the message's key."""
        value: Any = None
        if self.flow.key is not None:
            value = self.flow.key.evaluate(read_json(call.message), call.limits.message_bytes)
        names = f"{call.agent.pipeline}\x00{call.agent.alias}\x00"
        kind = "" if value is None else "=" if isinstance(value, str) else "json"
        text = "" if value is None else to_text(value)
        return blake2b(f"{names}{kind}\x00{text}".encode(), digest_size=16).digest()

    def _park(self, table: FlowTable, state: FlowKey, now_ms: int) -> tuple[Parked, int]:
        """Return the key and time of a message that waits, and when the key is due.

        A due time without waiting messages does not count: these are gone.
        """
        flow, key = self.flow, state.key
        if flow.debounce_ms:
            table.drop_waiting(key)
            due = now_ms + flow.debounce_ms
            return Parked(key, due), due
        last = table.list_last_dues(key, flow.batch or flow.rate)
        earlier = state.due if last else None
        if flow.batch:
            own = now_ms + flow.within_ms
            due = now_ms if len(last) + 1 >= flow.batch else own
            return Parked(key, own), due if earlier is None else min(due, earlier)
        if len(last) == flow.rate:
            own = max(now_ms, last[-1]) + flow.window_ms
        else:
            own = flow.next_start_ms(state.starts, now_ms, len(last))
        return Parked(key, own), own if earlier is None else earlier

    def _run_released(
        self, key: bytes, ident: str, call: Call, args: Any
    ) -> Message | DeferredCall | None:
        """Call the block with a message that has waited, and with those of its batch."""
        table, flow, now_ms = call.tx.table(FlowTable), self.flow, self._clock()
        if not table.leave(ident):
            return None  # a later message has replaced it, or an erasure has deleted it
        state = table.find(key) or FlowKey(key, call.agent.pipeline, call.agent.alias)
        if not flow.count_free(state.starts, now_ms, 1):
            in_s = (flow.next_start_ms(state.starts, now_ms) - now_ms) / 1000
            raise Transient("the rate of the agent (wf_flow) allows no call", in_s, counts=False)
        if flow.batch:
            call.message = self._collect(table, key, call)
        state = self._add_start(state, now_ms)
        state = state._replace(due=self._find_due(table, state, now_ms))
        if state.due is None and not state.starts:
            table.forget([key])
        else:
            table.put(state)
        return self.handle(call, args)

    def _add_start(self, state: FlowKey, now_ms: int) -> FlowKey:
        if not self.flow.rate:
            return state._replace(starts=())
        starts = (*self.flow.keep_recent(state.starts, now_ms), now_ms)[-self.flow.rate :]
        return state._replace(starts=starts, free_at=now_ms + self.flow.window_ms)

    def _find_due(self, table: FlowTable, state: FlowKey, now_ms: int) -> int | None:
        """Return when the next message of a key is due after a start, None if none waits."""
        flow = self.flow
        waiting = next(table.list_waiting(state.key, 1), None)
        if waiting is None:
            return None
        slot_ms = flow.next_start_ms(state.starts, now_ms)
        if not flow.batch:
            return slot_ms
        is_complete = len(table.list_last_dues(state.key, flow.batch)) >= flow.batch
        return max(slot_ms, now_ms if is_complete else waiting.due)

    def _collect(self, table: FlowTable, key: bytes, call: Call) -> Message:
        """Return the message of a batch, and delete the rows of its other messages.

        It has at most `bus.max_message_bytes`, and those of its first message.
        """
        last = call.message
        texts, size, taken = [_to_json(last.text)], 2 + len(last.text.encode()), list[str]()
        for pending in table.list_waiting(key, self.flow.batch - 1):
            message = decode_kept(pending.data)
            text = _to_json(message.text)
            size += 1 + len(text.encode())
            if size > call.limits.message_bytes:
                break
            texts.append(text)
            taken.append(pending.id)
            last = message
        table.remove(taken)
        return new_message(
            last.sender,
            last.id,
            f"[{','.join(texts)}]",
            username=last.speaker,
            now_ms=call.now_ms,
            kind=JSON,
        )


def _to_json(text: str) -> str:
    """Return a JSON text as it is, and any other text as a JSON string."""
    return text if is_json(text) else orjson.dumps(text).decode()
