"""Inputs: messages and calls on their way through a plan, decoded from entries or pending rows."""

import re
from enum import IntEnum

from msgspec import UNSET, Struct
from msgspec.structs import replace

from memrelay.blocks.contract import Got
from memrelay.bus.client.resp import SwarmMessage
from memrelay.bus.codec import decode, decode_kept, encode, encode_kept, find_traceparent, find_via
from memrelay.bus.errors import MalformedMessage, MessageTooLong
from memrelay.bus.keys import reply_channel
from memrelay.bus.message import MAX_WEBHOOK_BYTES, PLAIN, Message, new_message
from memrelay.bus.streams.via import NO_VIA, Via, parse_via
from memrelay.memory.engine.idempotency import CALL_KEY_PREFIX
from memrelay.memory.engine.inbox import RETRY_SUFFIX, Pending
from memrelay.memory.operations import Operation, all_operations, find_operation, is_dry_run
from memrelay.memory.records.ids import input_time_ms
from memrelay.pipelines.plan import Plan
from memrelay.worker.deferred_calls.stored import pack_again, parse_result

# The message of a call, which publishes nothing.
NO_MESSAGE = Message("", "", "", PLAIN, UNSET, ())
# Prefix of the idempotency key in the pending row of a cascade's step, and suffix of the key under
# which its results are kept. No id of a message contains it.
STEP_MARK = "\x1e"
INPUT_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}(\.[0-9.+]{1,1000})?")
# Bytes of each field except `data`.
MAX_FIELD_BYTES = 1024
# Bytes of `data` that the dead letter of an oversized entry keeps.
KEPT_FIELD_BYTES = 65_536


class Published(IntEnum):
    """Where the message of an input was published before the input ran.

    Stores keep these numbers. Older rows have -1 - hop for PUBLIC_NEXT.
    """

    # Nowhere, and the worker must publish it on a public swarm.
    PUBLIC_NEXT = -1
    # Nowhere: the worker writes the log entry and sends the live copy.
    NO = 0
    # On the channel, by its producer. The log entry is missing.
    CHANNEL = 1
    # On the channel and in the log of a public swarm.
    CHANNEL_AND_LOG = 2


class Call(Struct, frozen=True):
    """A call of an operation. An input has it instead of a message.

    `data` is the unchecked input as JSON. An empty `store` is the pipeline's first one.
    """

    operation: Operation
    data: bytes
    store: str
    actor: str
    # Whether it only returns what it would do, and leaves no trace in a store.
    is_dry_run: bool = False


class Input(Struct, gc=False):
    """A message or call that runs through a plan.

    Its `id` derives from the ID of the entry, so a replay derives the same ids.
    """

    # The name in stores, which several pipelines may share.
    key: str
    # The ID of the entry or of the continuation.
    id: str
    plan: Plan
    swarm: str
    message: Message
    hop: int = 0
    # The id of the first input of the cascade; "" for this one.
    root: str = ""
    # Pipeline and id of the input that started a chain over public swarms.
    origin: str = ""
    # The channel that receives the report at the end of the cascade.
    reply: str = ""
    producer_id: str = ""
    # For a step of a cascade in another store: the idempotency key of the cascade's first input.
    step_of: str = ""
    published: Published = Published.NO
    # Whether the input gets an inbox row even if it touches no store.
    needs_inbox_row: bool = False
    # The alias of the only agent that receives the message, for webhooks and continuations.
    only_agent: str = ""
    # The number of the first message that the inbox row keeps. With 1, the input's own message
    # is left out, because its entry has it.
    first_kept: int = 1
    # The ID of the entry that replays a dead letter; "" for other inputs.
    replay_entry: str = ""
    call: Call | None = None
    # The result of the deferred call that the block of `only_agent` has asked for.
    got: Got | None = None
    # The key under which it has waited because of `wf_flow`; b"" for none.
    flow: bytes = b""
    # The trace context that its retries and continuations keep; only a worker with tracing sets it.
    traceparent: str = ""
    # How it came in, which its retries and continuations keep.
    via: Via = NO_VIA

    @property
    def texts(self) -> tuple[bytes, ...]:
        """Return everything that may quote a record."""
        return encode(self.message), self.producer_id.encode(), pack_again(self.got) or b""

    @property
    def unkept(self) -> list[SwarmMessage]:
        """The published messages that the inbox row leaves out."""
        own: list[SwarmMessage] = [(self.swarm, encode(self.message))]
        return own[: self.first_kept]


class Entry(Struct, frozen=True, gc=False):
    """An entry of an input stream as the server returns it.

    `fields` alternates names and values. For a replay, `id` is that of the input that failed, and
    `replay_entry` the ID of the entry itself.
    """

    id: str
    plan: Plan
    fields: list[bytes]
    replay_entry: str = ""

    @property
    def key(self) -> str:
        """The name in stores."""
        return f"{self.plan.uid}/{self.id}"

    def field(self, name: bytes) -> bytes:
        return dict(zip(self.fields[::2], self.fields[1::2], strict=True)).get(name, b"")

    @property
    def reply(self) -> str:
        """The channel for the report; "" if it belongs to another pipeline.

        A client that may write to this input need not be allowed to publish there.
        """
        channel = self.text(b"reply")
        return channel if channel.startswith(reply_channel(self.plan.uid, "")) else ""

    def text(self, name: bytes) -> str:
        """Return a field that holds a name or an id."""
        return self.field(name).decode(errors="replace")

    def shorten(self) -> "Entry":
        """Return a copy with truncated fields, so that one dead letter cannot fill system.db."""
        short = [field[:MAX_FIELD_BYTES] for field in self.fields]
        if data := self.field(b"data"):
            short += b"data", data[:KEPT_FIELD_BYTES]
        return replace(self, fields=short)


Work = Entry | Input


def get_arrival(work: Work) -> tuple[int, int]:
    """Return the order of arrival: Unix ms and number from the ID of the cascade's first entry."""
    return parse_arrival(work.id if isinstance(work, Entry) else work.root or work.id)


def parse_arrival(ident: str) -> tuple[int, int]:
    """Return Unix ms and number from the id of an input."""
    ms, _, rest = ident.partition("-")
    return int(ms), int(rest.partition(".")[0])


def make_replay(ident: str, plan: Plan, fields: list[bytes]) -> Entry:
    """Return an entry with the field `replay_of`, under the id of the input that failed.

    If that id is malformed, the entry keeps its own ID and becomes a dead letter later.
    """
    entry = Entry(ident, plan, fields)
    failed = entry.text(b"replay_of")
    return Entry(failed, plan, fields, ident) if INPUT_ID.fullmatch(failed) else entry


def decode_entry(entry: Entry, max_bytes: int, trusted: tuple[str, ...] = ()) -> Input:
    """Return the input in an entry. `trusted` are the IDENTITY_FIELDS that count in its message.

    Raises MalformedMessage.
    """
    fields, plan = entry.fields, entry.plan
    # Fast path for most entries.
    if len(fields) == 4 and fields[0] == b"swarm" and fields[2] == b"data":
        swarm = plan.private_names.get(fields[1])
        if swarm is not None:
            ident, message = entry.id, decode(fields[3], max_bytes, trusted)
            return Input(f"{plan.uid}/{ident}", ident, plan, swarm, message)
    _check_fields(entry)
    data, hop = entry.field(b"data"), entry.text(b"hop") or "0"
    if not hop.isdecimal():
        raise MalformedMessage(f"the field `hop` must be a number, not {hop[:20]!r}")
    if entry.field(b"op"):
        return _decode_call(entry, data, max_bytes)
    if entry.field(b"agent"):
        work = _decode_for_agent(entry, data, max_bytes)
    else:
        work = _decode_for_swarm(entry, data, max_bytes)
    work.hop, work.reply, work.producer_id = int(hop[:9]), entry.reply, entry.text(b"id")
    work.published = Published.CHANNEL if entry.field(b"published") else Published.NO
    work.replay_entry, work.via = entry.replay_entry, parse_via(entry.text(b"via"))
    work.needs_inbox_row = bool(work.producer_id or work.replay_entry)
    if work.swarm in plan.public and not work.only_agent:
        _mark_public(work, entry)
    elif trusted:
        work.message = replace(work.message, vouched=trusted)
    return work


def _mark_public(work: Input, entry: Entry) -> None:
    """Decide whether a message on a public swarm is to be published there or came from there.

    Its inbox row makes it run under one version of the bundle.
    """
    work.needs_inbox_row = True
    if work.published:
        work.published, work.origin = Published.CHANNEL_AND_LOG, entry.text(b"origin")
    else:
        work.published = Published.PUBLIC_NEXT


def decode_unrouted(entry: Entry, max_bytes: int) -> Input:
    """Return the input for a look into inboxes when this plan lacks its swarm or agent.

    Raises MalformedMessage.
    """
    only_agent = entry.text(b"agent")
    message = decode(
        entry.field(b"data"), max(max_bytes, MAX_WEBHOOK_BYTES) if only_agent else max_bytes
    )
    hop = entry.text(b"hop")
    return Input(
        entry.key,
        entry.id,
        entry.plan,
        entry.text(b"swarm"),
        message,
        int(hop[:9]) if hop.isdecimal() else 0,
        reply=entry.reply,
        producer_id="" if _is_reserved(ident := entry.text(b"id")) else ident,
        only_agent=only_agent,
        first_kept=0 if only_agent else 1,
        replay_entry=entry.replay_entry,
    )


def _is_reserved(ident: str) -> bool:
    """Return whether an idempotency key looks like that of a call or of a step."""
    return ident.startswith(CALL_KEY_PREFIX) or STEP_MARK in ident


def _check_fields(entry: Entry) -> None:
    """Raises MessageTooLong for a long field other than `data`, and MalformedMessage."""
    for name, value in zip(entry.fields[::2], entry.fields[1::2], strict=True):
        if name != b"data" and len(value) > MAX_FIELD_BYTES:
            raise MessageTooLong(
                f"the field {name[:20]!r} has {len(value)} bytes; at most {MAX_FIELD_BYTES} are "
                "allowed"
            )
    if _is_reserved(entry.text(b"id")):
        raise MalformedMessage("the field `id` must not contain control characters")
    if entry.field(b"replay_of") and not entry.replay_entry:
        raise MalformedMessage(
            "the field `replay_of` must be the id of a dead letter, not "
            f"{entry.text(b'replay_of')[:20]!r}"
        )


def _decode_for_swarm(entry: Entry, data: bytes, max_bytes: int) -> Input:
    plan, swarm = entry.plan, entry.text(b"swarm")
    if not data or not swarm:
        raise MalformedMessage(
            "an input entry needs the fields `data`, and `swarm`, `agent` or `op`"
        )
    if swarm not in plan.swarms:
        raise MalformedMessage(
            f"pipeline {plan.name} has no swarm {swarm[:100]!r}; it has "
            f"{', '.join(plan.swarms) or 'none'}"
        )
    return Input(entry.key, entry.id, plan, swarm, decode(data, max_bytes))


def _decode_for_agent(entry: Entry, data: bytes, max_bytes: int) -> Input:
    """Return the input for one agent, which receives it whatever its `agent_from` accepts.

    A chat agent publishes the message in the name of its user.
    """
    # A web server has checked it against the limit of the agent's webhook.
    message = decode(data, max(max_bytes, MAX_WEBHOOK_BYTES))
    plan, alias = entry.plan, entry.text(b"agent")
    publisher = plan.publisher(alias)
    if publisher is not None:
        agent = publisher.agent
        message = new_message(
            agent.name,
            alias,
            message.text,
            username=agent.username,
            now_ms=input_time_ms(entry.id),
            kind=message.type,
        )
        return Input(entry.key, entry.id, plan, publisher.send_swarm, message, first_kept=0)
    if plan.subscriber(alias) is None:
        raise MalformedMessage(
            f"pipeline {plan.name} has no agent {alias[:100]!r} that takes messages"
        )
    return Input(
        entry.key, entry.id, plan, plan.input_swarm(alias), message, only_agent=alias, first_kept=0
    )


def _decode_call(entry: Entry, data: bytes, max_bytes: int) -> Input:
    """Return the call of an operation. A prefix separates its idempotency key from message ids."""
    name, ident = entry.text(b"op"), entry.text(b"id")
    operation = find_operation(name)
    if operation is None or not operation.mutates:
        known = ", ".join(name for name, one in all_operations().items() if one.mutates)
        raise MalformedMessage(
            f"no operation {name[:100]!r} can be called by an input entry; these can: {known}"
        )
    if len(data) > max_bytes:
        raise MessageTooLong(
            f"the input of {name} has {len(data)} bytes; bus.max_message_bytes allows {max_bytes}"
        )
    is_dry = is_dry_run(operation, data)
    call = Call(operation, data, entry.text(b"store"), entry.text(b"actor"), is_dry)
    return Input(
        entry.key,
        entry.id,
        entry.plan,
        "",
        NO_MESSAGE,
        reply=entry.reply,
        producer_id=f"{CALL_KEY_PREFIX}{ident}" if ident and not is_dry else "",
        first_kept=0,
        replay_entry=entry.replay_entry,
        call=call,
        via=parse_via(entry.text(b"via")),
    )


def from_pending(pending: Pending, plan: Plan) -> Input:
    """Return the input in a pending row: a continuation, or an entry that waits for a retry."""
    ident = pending.id.partition("/")[2].removesuffix(RETRY_SUFFIX)
    message = decode_kept(pending.data)
    published, swarm = Published.PUBLIC_NEXT, pending.swarm
    is_step, got = pending.producer.startswith(STEP_MARK), parse_result(pending)
    producer_id = "" if is_step else pending.producer
    if pending.published >= 0:
        published = Published(pending.published)
    elif swarm.startswith("{"):  # rows of earlier versions have the hop count in front: {3}news
        swarm = swarm.partition("}")[2]
    return Input(
        pending.id,
        ident,
        plan,
        swarm,
        message,
        pending.hop,
        pending.root,
        reply=pending.reply,
        producer_id=producer_id,
        step_of=pending.producer.removeprefix(STEP_MARK) if is_step else "",
        published=published,
        # The inbox keeps the results of a step.
        needs_inbox_row=bool(producer_id) or (is_step and got is not None),
        only_agent=pending.agent,
        first_kept=0 if pending.agent else 1,
        got=got,
        flow=pending.flow or b"",
        traceparent=find_traceparent(pending.data),
        via=find_via(pending.data),
    )


def add_parked_fields(work: Input, parked: Pending) -> None:
    """Give a replay what its dead letter lacks: the result of its deferred call, and the vouched
    fields.

    The fields count only in the message for which they were vouched: the entry of a replay comes
    from outside.
    """
    work.got = parse_result(parked) or work.got
    if work.via is NO_VIA:
        work.via = find_via(parked.data)
    message, parked_message = work.message, decode_kept(parked.data)
    if parked.agent == work.only_agent and encode(message) == encode(parked_message):
        vouched = dict.fromkeys((*message.vouched, *parked_message.vouched))
        work.message = replace(message, vouched=tuple(vouched))


def to_pending(work: Input, due: int) -> Pending:
    """Return the row that keeps an input until `due` (Unix ms).

    The row has its own key, because the entry of the input is acknowledged.
    """
    return Pending(
        work.key + RETRY_SUFFIX,
        work.plan.uid,
        work.plan.hash,
        work.only_agent,
        work.swarm,
        work.hop,
        encode_kept(work.message, work.traceparent, work.via),
        work.root or work.id,
        work.reply,
        due,
        1,
        work.producer_id,
        int(work.published),
        result=pack_again(work.got),
    )
