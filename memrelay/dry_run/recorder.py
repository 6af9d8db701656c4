"""Records each call of a block in a try. It stands around the functions of the blocks."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from memrelay.blocks.contract import Call, DeferredCall, Handle
from memrelay.blocks.receipts import NotedReads
from memrelay.bus.message import Message
from memrelay.dry_run.steps import MAX_ITEMS, Step, cut
from memrelay.memory.engine.as_of import TOUCHED
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.records.ids import ID
from memrelay.pipelines.check import CheckedBundle
from memrelay.pipelines.plan import Plan
from memrelay.rehearsal.records import find_birth, find_state

# Messages that a try publishes, and bytes of its messages and records.
MAX_MESSAGES, MAX_BYTES = 100, 8 << 20
# Blocks whose answer says what they did with a record that they did not change.
DECISIONS = ("skipped", "merged")
LISTING_BLOCK = "memory_read"
Stop = Callable[[str], None]


class Recorder:
    """The steps of one try. `stop` ends the process with a reason."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self.steps: list[Step] = []
        self.notes: dict[str, None] = {}
        self.plan: Plan
        # Published messages with their steps, the latest last. They keep their ids alive.
        self._made: list[tuple[Message, Step]] = []
        # By id of the deferred call.
        self._calls: dict[str, Step] = {}
        self._input_key = ""
        self._count = self._messages = self._bytes = 0

    def wrap(self, bundle: CheckedBundle) -> CheckedBundle:
        """Return the bundle with blocks that are recorded."""
        agents = [
            one
            if one.block.handle is None
            else replace(
                one,
                block=replace(
                    one.block, handle=partial(self._call, one.block.name, one.block.handle)
                ),
            )
            for one in bundle.agents
        ]
        return replace(bundle, agents=tuple(agents))

    def begin_input(self, key: str) -> None:
        """Forget the steps of an earlier attempt of an input, which was rolled back."""
        self._input_key = key
        self.steps = [one for one in self.steps if one.input_key != key]

    def note(self, text: str) -> None:
        """Add a sentence for the reader, once."""
        self.notes[text] = None

    def find_call(self, ident: str) -> Step:
        """Return the step that made a deferred call."""
        return self._calls[ident]

    def count_bytes(self, text: str) -> None:
        """Count a text of a message or a record. The try ends if there are too many."""
        self._bytes += len(text)
        if self._bytes > MAX_BYTES:
            self._stop(f"its messages and records have more than {MAX_BYTES >> 20} MiB")

    def _call(self, block: str, handle: Handle, call: Call, args: Any) -> Any:
        step = self._find_step(block, call)
        if call.reads is None and call.tx is not None:
            call.reads = NotedReads()
        first = 0 if call.tx is None else call.tx.records.versions.last_change
        answer: Any = None
        try:
            answer = handle(call, args)
        finally:
            fault = sys.exception()
            if fault is not None:
                self._note_fault(step, call, fault)
        self._note_answer(step, call, answer)
        if call.tx is not None:
            self._note_changes(step, call.tx, first, answer)
            step.found += self._list_found(step, handle, call, args, answer)
        return answer

    def _find_step(self, block: str, call: Call) -> Step:
        """Return a new step, or the one whose deferred call has ended."""
        if call.got is not None and call.deferred_call_id in self._calls:
            return self._calls[call.deferred_call_id]
        self._count += 1
        message, agent = call.message, call.agent
        parent = self._find_maker(message)
        step = Step(
            self._count,
            None if parent is None else parent.id,
            agent.alias,
            block,
            agent.swarm,
            message.sender,
            message.text,
            self._input_key,
        )
        self.steps.append(step)
        self.count_bytes(message.text)
        return step

    def _find_maker(self, message: Message) -> Step | None:
        """Return the step that published a message. A message that has waited is another object."""
        for made, step in reversed(self._made):
            if made is message:
                return step
        for made, step in reversed(self._made):
            if (made.sender, made.text) == (message.sender, message.text):
                return step
        return None

    def _note_fault(self, step: Step, call: Call, fault: BaseException) -> None:
        if isinstance(fault, Refused):
            # The worker publishes the refusal as the answer.
            step.fault = str(fault)
            self._publish(step, call, call.error(str(fault)))
            return
        step.fault = f"{type(fault).__name__}: {fault}"

    def _note_answer(self, step: Step, call: Call, answer: object) -> None:
        if isinstance(answer, Message):
            self._publish(step, call, answer)
        elif isinstance(answer, DeferredCall):
            self._calls[call.ids.next_deferred_call_id()] = step

    def _publish(self, step: Step, call: Call, message: Message) -> None:
        subscriber = self.plan.subscriber(call.agent.alias)
        swarm = "" if subscriber is None else subscriber.send_swarm or subscriber.public_swarm
        if not swarm:
            return
        self._messages += 1
        self.count_bytes(message.text)
        if self._messages > MAX_MESSAGES:
            self._stop(f"it published more than {MAX_MESSAGES} messages: look for a loop")
        self._made.append((message, step))
        step.output.append({"swarm": swarm, "from": message.sender, "text": message.text})
        if subscriber is not None and subscriber.public_swarm:
            step.sends.append({"what": "public swarm", "target": swarm, "body": message.text})

    def _note_changes(self, step: Step, tx: Store, first: int, answer: object) -> None:
        """Add the records that changed since the change `first`."""
        decision = _read_decision(answer)
        if tx.records.versions.last_change != first:
            tx.records.flush()
            tx.records.versions.flush()
            guids = [str(guid) for (guid,) in tx.connection.execute(TOUCHED, (first,))]
            for guid in guids[:MAX_ITEMS]:
                stored = _describe_change(tx, guid, first)
                if stored["action"] == "updated" and decision.get("action") == "merged":
                    stored["action"] = "merged"
                step.stored.append(stored)
                self.count_bytes(stored["content"])
        elif decision.get("action") in DECISIONS:
            guid = _find_guid(str(decision.get("id") or decision.get("guid") or ""))
            state = find_state(tx, guid)
            step.stored.append(
                {
                    "store": tx.memory_id,
                    "guid": guid,
                    "kind": "" if state is None else state.kind,
                    "action": str(decision["action"]),
                    "content": "" if state is None else state.content,
                    "key": "" if state is None else state.key or "",
                }
            )

    def _list_found(
        self, step: Step, handle: Handle, call: Call, args: Any, answer: object
    ) -> list[dict[str, str]]:
        tx, reads = call.tx, call.reads or ()
        idents = [str(ident) for read in reads for ident, *_ in read.found]
        if step.block == LISTING_BLOCK and isinstance(answer, Message):
            idents += self._list_again(handle, call, args, answer)
        found = []
        for ident in dict.fromkeys(idents[:MAX_ITEMS]):
            state = find_state(tx, _find_guid(ident))
            if state is not None:
                content = cut(state.content)
                found.append({"store": tx.memory_id, "guid": state.guid, "content": content})
                self.count_bytes(content)
        return found

    def _list_again(self, handle: Handle, call: Call, args: Any, answer: Message) -> list[str]:
        """Return the guids of listed records. A text of a template has none, so list them again."""
        if args.output_template:
            given = args.model_dump(exclude_unset=True) | {"output_template": ""}
            listed = handle(call, type(args).model_validate(given))
            answer = listed if isinstance(listed, Message) else answer
        parsed = _parse(answer.text)
        records = parsed if isinstance(parsed, list) else []
        return [str(one["guid"]) for one in records if isinstance(one, dict) and "guid" in one]


def _describe_change(tx: Store, guid: str, first: int) -> dict[str, str]:
    state = find_state(tx, guid)
    is_new = find_birth(tx, guid, state) > first
    action = "created" if is_new else "updated"
    if state is None:
        action = "deleted"
        latest = next(tx.records.versions.of(guid), None)
        state = None if latest is None else latest.state
    return {
        "store": tx.memory_id,
        "guid": guid,
        "kind": "" if state is None else state.kind,
        "action": action,
        "content": "" if state is None else state.content,
        "key": "" if state is None else state.key or "",
    }


def _read_decision(answer: object) -> dict[str, Any]:
    parsed = _parse(answer.text) if isinstance(answer, Message) else None
    return parsed if isinstance(parsed, dict) else {}


def _parse(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _find_guid(ident: str) -> str:
    """Return the guid in an id with a prefix, or the id itself."""
    match = ID.fullmatch(ident)
    return ident if match is None else "-".join(match.groups()[2:])
