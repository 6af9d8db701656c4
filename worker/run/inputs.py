"""An input: one message that runs through a plan, and where it came from."""

import re

from msgspec import UNSET, Struct
from msgspec.structs import replace

from memrelay.bus.client.resp import Said
from memrelay.bus.codec import decode, encode
from memrelay.bus.errors import MalformedMessage, MessageTooLong
from memrelay.bus.keys import reply_channel
from memrelay.bus.message import PLAIN, Message, new_message
from memrelay.bus.public_swarms import in_public, swarm_and_hop
from memrelay.memory.operation import Operation, all_operations, find_operation
from memrelay.memory.records.ids import time_of
from memrelay.memory.sqlite.inbox import Pending
from memrelay.pipelines.plan import Plan

NOTHING_SAID = Message("", "", "", PLAIN, UNSET, ())  # what a call says
APART = "\x1f"  # stands before a call's key, and in no id of a message
AFTER_CALLS = "\x20"  # where ids of messages begin, by which these stand behind the keys of calls
INPUT_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}(\.[0-9.+]{1,1000})?")
AGAIN = ".again"  # at the end of an input's key: it has left its entry, and waits to be tried again
LONGEST_NAME = 1024  # bytes of every field but `data`
KEPT_OF_TOO_LONG = 65_536  # bytes of a field that is too long, which its dead letter keeps
HEARD, HEARD_IN_PUBLIC = (
    1,
    2,
)  # `heard`: 0 is to be said on its private swarm, and below 0 in public, after -1 - heard hops


class Call(Struct, frozen=True):
    """An operation that is called, in the place of a message."""

    operation: Operation
    data: bytes  # the input as JSON, which is checked where it is carried out
    store: str  # the memory_id; "" for the pipeline's first
    actor: str


class Input(Struct, gc=False):
    """A message on its way in, or a call. Its `id` is made of the entry's, so everything derived is
    the same on a replay."""

    key: str  # its name in stores, which several pipelines may share
    id: str  # the entry's id, or a continuation's
    plan: Plan
    swarm: str
    message: Message
    hop: int = 0
    root: str = ""  # the id of the input that it began with; "" is itself
    began: str = (
        ""  # of what was said in public: the input, by its pipeline and id, with which that began
    )
    reply: str = ""  # the channel that awaits the end of the cascade
    producer_id: str = ""  # the id that its producer gave it
    # HEARD: published on the channel by who said it; HEARD_IN_PUBLIC: said there, log and all
    heard: int = 0
    kept: bool = False  # it has an inbox row, also where it touches no store
    # the alias of the one agent that it is for, said on no swarm: a webhook's, or a continuation
    only: str = ""
    # the place of the first message that its inbox row keeps: what it says itself comes back with
    # it
    kept_from: int = 1
    entry: str = ""  # of a dead letter's replay: the entry that brought it, whose id is not its own
    call: Call | None = None

    @property
    def own(self) -> list[Said]:
        """What is said and not kept."""
        return [(swarm_and_hop(self.swarm)[0], encode(self.message))][: self.kept_from]


class Entry(Struct, frozen=True, gc=False):
    """An entry of a pipeline's input stream, as it came: `fields` has names and values in turn."""

    id: str
    plan: Plan
    fields: list[bytes]
    entry: str = (
        ""  # of a dead letter's replay: the entry's own id; `id` is that of the input that failed
    )

    @property
    def key(self) -> str:
        """Its name in stores."""
        return f"{self.plan.uid}/{self.id}"

    def field(self, name: bytes) -> bytes:
        """The value of a field; b"" where it is not there."""
        return dict(zip(self.fields[::2], self.fields[1::2], strict=True)).get(name, b"")

    @property
    def reply(self) -> str:
        """The channel that awaits the end; "" for one of another pipeline: who may enter here need
        not be let speak there."""
        channel = self.text(b"reply")
        return channel if channel.startswith(reply_channel(self.plan.uid, "")) else ""

    def text(self, name: bytes) -> str:
        """A field that holds a name or an id."""
        return self.field(name).decode(errors="replace")

    def cut(self) -> "Entry":
        """The same with the beginnings of its fields, for the dead letters: else one entry could
        fill the control plane."""
        return replace(self, fields=[field[:KEPT_OF_TOO_LONG] for field in self.fields])


Work = Entry | Input


def place_of(work: Work) -> tuple[int, int]:
    """Where it began in the order of its pipeline's input: (Unix ms, number) of the first entry's
    id."""
    return place_of_id(work.id if isinstance(work, Entry) else work.root or work.id)


def place_of_id(ident: str) -> tuple[int, int]:
    """(Unix ms, number) of the entry with which an input began, by the id of either."""
    ms, _, rest = ident.partition("-")
    return int(ms), int(rest.partition(".")[0])


def as_entry(ident: str, plan: Plan, fields: list[bytes]) -> Entry:
    """An entry that may be a replay: then it goes by the id of the input that failed."""
    entry = Entry(ident, plan, fields)
    again = entry.text(b"replay_of")
    return Entry(again, plan, fields, ident) if INPUT_ID.fullmatch(again) else entry


def from_entry(entry: Entry, max_bytes: int) -> Input:
    """The input in an entry; raises MalformedMessage."""
    fields, plan = entry.fields, entry.plan
    if len(fields) == 4 and fields[0] == b"swarm" and fields[2] == b"data":  # as most come
        swarm = plan.private_names.get(fields[1])
        if swarm is not None:
            ident = entry.id
            return Input(f"{plan.uid}/{ident}", ident, plan, swarm, decode(fields[3], max_bytes))
    _check_names(entry)
    data, hop = entry.field(b"data"), entry.text(b"hop") or "0"
    if not hop.isdecimal():
        raise MalformedMessage(f"the field `hop` must be a number, not {hop[:20]!r}")
    if entry.field(b"replay_of") and not entry.entry:
        raise MalformedMessage(
            f"the field `replay_of` must be the id of a dead letter, not {entry.text(b'replay_of')[:20]!r}"
        )
    if entry.field(b"op"):
        return _to_call(entry, data, max_bytes)
    work = (
        _to_agent(entry, data, max_bytes)
        if entry.field(b"agent")
        else _to_swarm(entry, data, max_bytes)
    )
    work.hop, work.reply, work.producer_id = int(hop[:9]), entry.reply, entry.text(b"id")
    work.heard, work.entry = HEARD if entry.field(b"published") else 0, entry.entry
    work.kept = bool(work.producer_id or work.entry)
    if work.swarm in plan.public and not work.only:
        _to_everyone(work, entry)
    return work


def _to_everyone(work: Input, entry: Entry) -> None:
    """On a public swarm: what has come from there is heard here; anything else is said there, and
    comes from there then.

    It is kept, so that it has been said in public, or not, under one version of the bundle.
    """
    work.kept = True
    if work.heard:
        work.heard, work.began = HEARD_IN_PUBLIC, entry.text(b"origin")
    else:
        work.heard, work.swarm = -1 - work.hop, in_public(work.swarm, work.hop)


def as_it_was(entry: Entry, max_bytes: int) -> Input:
    """The input as another version may have run it, whose swarm or agent this plan lacks: for
    asking inboxes, not for running.

    Raises MalformedMessage.
    """
    only, message = entry.text(b"agent"), decode(entry.field(b"data"), max_bytes)
    return Input(
        entry.key,
        entry.id,
        entry.plan,
        entry.text(b"swarm"),
        message,
        reply=entry.reply,
        producer_id=entry.text(b"id"),
        only=only,
        kept_from=0 if only else 1,
        entry=entry.entry,
    )


def _check_names(entry: Entry) -> None:
    """What names something is kept, logged and compared, and so has to be short. Raises
    MessageTooLong."""
    for name, value in zip(entry.fields[::2], entry.fields[1::2], strict=True):
        if name != b"data" and len(value) > LONGEST_NAME:
            raise MessageTooLong(
                f"the field {name[:20]!r} of the entry has {len(value)} bytes; at most {LONGEST_NAME} may be"
            )


def _to_swarm(entry: Entry, data: bytes, max_bytes: int) -> Input:
    """What is said on a swarm."""
    plan, swarm = entry.plan, entry.text(b"swarm")
    if not data or not swarm:
        raise MalformedMessage(
            "an entry of the input needs the fields `data`, and `swarm`, `agent` or `op`"
        )
    if swarm not in plan.swarms:
        raise MalformedMessage(_unknown(swarm, plan))
    return Input(entry.key, entry.id, plan, swarm, decode(data, max_bytes))


def _to_agent(entry: Entry, data: bytes, max_bytes: int) -> Input:
    """What is handed to one agent, whatever its `agent_from`; a chat says it as its user would."""
    plan, alias, message = entry.plan, entry.text(b"agent"), decode(data, max_bytes)
    voice = plan.voice(alias)
    if voice is not None:
        agent = voice.agent
        message = new_message(
            agent.name,
            alias,
            message.text,
            username=agent.username,
            now_ms=time_of(entry.id),
            kind=message.type,
        )
        return Input(entry.key, entry.id, plan, voice.send_swarm, message, kept_from=0)
    if plan.station(alias) is None:
        raise MalformedMessage(
            f"pipeline {plan.name} has no agent {alias[:100]!r} that takes messages"
        )
    return Input(entry.key, entry.id, plan, plan.hears(alias), message, only=alias, kept_from=0)


def _to_call(entry: Entry, data: bytes, max_bytes: int) -> Input:
    """An operation. The keys that callers give are kept apart from the ids of messages."""
    name, ident = entry.text(b"op"), entry.text(b"id")
    operation = find_operation(name)
    if operation is None or not operation.mutates:
        known = ", ".join(name for name, one in all_operations().items() if one.mutates)
        raise MalformedMessage(
            f"no operation {name[:100]!r} can be an entry of the input; those that can are {known}"
        )
    if len(data) > max_bytes:
        raise MessageTooLong(
            f"the input of {name} has {len(data)} bytes; bus.max_message_bytes allows {max_bytes}"
        )
    call = Call(operation, data, entry.text(b"store"), entry.text(b"actor"))
    return Input(
        entry.key,
        entry.id,
        entry.plan,
        "",
        NOTHING_SAID,
        reply=entry.reply,
        producer_id=f"{APART}{ident}" if ident else "",
        kept_from=0,
        entry=entry.entry,
        call=call,
    )


def _unknown(swarm: str, plan: Plan) -> str:
    return f"pipeline {plan.name} has no swarm {swarm[:100]!r}; it has {', '.join(plan.swarms) or 'none'}"


def from_pending(pending: Pending, plan: Plan) -> Input:
    """The input that is kept: a continuation, or one that was put off, which keeps the id of its
    entry."""
    ident = pending.id.partition("/")[2].removesuffix(AGAIN)
    message = decode(pending.data, len(pending.data))  # its length was looked at when it came
    return Input(
        pending.id,
        ident,
        plan,
        pending.swarm,
        message,
        pending.hop,
        pending.root,
        reply=pending.reply,
        producer_id=pending.producer,
        heard=pending.heard,
        kept=bool(pending.producer),
        only=pending.agent,
        kept_from=0 if pending.agent else 1,
    )


def as_pending(work: Input, due: int) -> Pending:
    """An input, to be kept until `due` (Unix ms). It gets a name of its own in stores, since its
    entry has come to its end."""
    return Pending(
        work.key + AGAIN,
        work.plan.uid,
        work.plan.hash,
        work.only,
        work.swarm,
        work.hop,
        encode(work.message),
        work.root or work.id,
        work.reply,
        due,
        1,
        work.producer_id,
        work.heard,
    )
