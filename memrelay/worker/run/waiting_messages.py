"""Messages that wait because of their agent's `wf_flow`: when they are due, which may run now."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from memrelay.memory.engine.flow import FlowTable
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.flow import Flow
from memrelay.pipelines.plan import Plan
from memrelay.worker.waiting import system_time_ms

# After a recovery, entries that have arrived meanwhile run before waiting messages. They may belong
# to the same burst.
AFTER_RECOVERY_MS = 500


class WaitingMessages:
    """Knows when the stores of a group have messages to release. The messages stay in the stores.

    `next_ms` is the earliest time, Unix ms, and 0 if no message waits.
    """

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        # Stores that have had waiting messages.
        self._used: set[str] = set()
        self._not_before_ms = 0
        self.next_ms = 0

    def pause(self) -> None:
        """Release nothing for AFTER_RECOVERY_MS."""
        self._not_before_ms = system_time_ms() + AFTER_RECOVERY_MS

    def limit_pause_s(self, pause_s: float | None) -> float:
        """Return the pause, at most until the next message is due. A message must wait."""
        due_s = max(0.0, self.next_ms / 1000 - time.time())
        return due_s if pause_s is None else min(pause_s, due_s)

    def check(self, memory_id: str) -> None:
        """Note that a store has new waiting messages, or that one of them has run."""
        self._used.add(memory_id)
        self.note(memory_id, 1)

    def check_again(self, memory_ids: Iterable[str]) -> None:
        """Note that pending messages of these stores have ended: others with their key may run."""
        for memory_id in self._used.intersection(memory_ids):
            self.note(memory_id, 1)

    def note(self, memory_id: str, due_ms: int) -> None:
        """Note when the next message of a store is due, 0 for none."""
        self._due.pop(memory_id, None)
        if due_ms:
            self._due[memory_id] = due_ms
        self.next_ms = max(min(self._due.values()), self._not_before_ms) if self._due else 0

    def take_due(self) -> list[str]:
        """Return the stores with messages that are due. The caller notes when the next ones are."""
        now_ms = system_time_ms()
        if now_ms < self.next_ms:
            return []
        return [memory_id for memory_id, due_ms in self._due.items() if due_ms <= now_ms]


class Released(NamedTuple):
    """Messages that may run now, and when to look for further ones, Unix ms; 0 if none waits."""

    messages: list[Pending]
    next_ms: int


def release(
    stores: OpenStores,
    memory_id: str,
    plans: Mapping[str, Plan],
    under_way: Collection[str],
    *,
    most: int,
    now_ms: int,
) -> Released:
    """Return the messages of a store that are due at `now_ms` and may run, at most about `most`.

    A key with a message `under_way`, by its id, waits until that has ended. Raises StoreBusy.
    """
    if not stores.exists(memory_id):
        return Released([], 0)
    table = stores.get(memory_id).table(FlowTable)
    next_ms = 0
    messages, empty = list[Pending](), list[bytes]()
    for state in table.list_waiting_keys():
        assert state.due is not None
        if state.due > now_ms:
            next_ms = min(next_ms or state.due, state.due)
            break
        plan = plans.get(state.pipeline)
        flow = _find_flow(plan, state.agent, memory_id) if plan is not None else None
        if plan is None or flow is None:
            continue  # find_stray has them, or the pipeline is not in service
        count = flow.count_free(state.starts, now_ms, most if flow.has_only_rate else 1)
        if not count:
            slot_ms = flow.next_start_ms(state.starts, now_ms)
            next_ms = min(next_ms or slot_ms, slot_ms)
            continue
        waiting = list(table.list_waiting(state.key, count))
        if not waiting:
            empty.append(state.key)
        elif not any(one.id in under_way for one in waiting):
            messages += [one._replace(bundle=plan.hash) for one in waiting]
        if len(messages) >= most:
            break  # the end of these messages is the next occasion
    if empty:
        _note_empty(stores, memory_id, empty, now_ms)
    return Released(messages, next_ms)


def _find_flow(plan: Plan, alias: str, memory_id: str) -> Flow | None:
    """Return `wf_flow` of an agent whose messages wait in this store, None if they do not."""
    subscriber = plan.subscriber(alias)
    return subscriber.flow if subscriber is not None and subscriber.store == memory_id else None


def _note_empty(stores: OpenStores, memory_id: str, keys: Sequence[bytes], now_ms: int) -> None:
    """Note that keys have no waiting message: these became dead letters, or were erased."""
    with stores.get(memory_id).transaction() as store:
        table = store.table(FlowTable)
        for key in keys:
            if (state := table.find(key)) is not None:
                table.put(state._replace(due=None))
        table.forget_free(now_ms)


def find_stray(stores: OpenStores, memory_id: str, plans: Mapping[str, Plan]) -> list[Pending]:
    """Return the waiting messages of a store whose agent no longer waits there: a deploy has
    changed its store or its `wf_flow`, or has removed it.

    They run at once under the present bundle. Only those of a removed agent keep their key.
    """
    found = list[Pending]()
    pending = stores.get(memory_id).pending
    for uid, alias in pending.list_waiting_agents():
        plan = plans.get(uid)
        if plan is None:
            continue
        if _find_flow(plan, alias, memory_id) is None:
            is_removed = plan.subscriber(alias) is None
            found += [
                one._replace(bundle=plan.hash, flow=one.flow if is_removed else None)
                for one in pending.list_waiting(uid, alias)
            ]
    return found
