"""What policies of a store do to the rest of an input: answers for stopped writes of blocks, and
found values that are replaced in everything that the input leaves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from json import dumps as dumps_ascii

import orjson

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import make_context
from memrelay.bus.codec import decode_kept, encode_kept
from memrelay.bus.message import Message
from memrelay.memory.admission import settle_write
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import PolicyStop
from memrelay.worker.run.inputs import Entry, Work
from memrelay.worker.run.outcome import Outcome

DATA = b"data"


def answer_stopped(stop: PolicyStop, call: Call) -> Message:
    """Return the answer of a block whose write was stopped. Raises PolicyStop: it is refused."""
    return call.reply_json(asdict(settle_write(stop, call.tx, make_context(call))))


def redact_input(one: Work, outcome: Outcome, store: Store) -> None:
    """Replace what policies found for an input in its entry, and in all that it leads to."""
    findings = dict(store.records.findings)
    store.records.findings.clear()
    if isinstance(one, Entry):
        redact_entry(one, findings)
    outcome.is_redacted = True
    outcome.messages = [(swarm, redact(data, findings)) for swarm, data in outcome.messages]
    outcome.answer = redact(outcome.answer, findings)
    redacted = tuple(
        one._replace(
            data=redact(one.data, findings),
            request=None if one.request is None else redact(one.request, findings),
        )
        for one in outcome.continuations
    )
    store.pending.remove(one.id for one in outcome.continuations)
    for pending in redacted:
        store.pending.add(pending)
    outcome.continuations = redacted


def redact_entry(entry: Entry, findings: Mapping[str, str]) -> None:
    """Replace found values in the fields of an entry, from which its copies are made."""
    fields = entry.fields
    for at in range(0, len(fields), 2):
        if fields[at] == DATA:
            fields[at + 1] = redact(fields[at + 1], findings)


def redact_message(message: Message, findings: Mapping[str, str]) -> Message:
    """Return the message with found values replaced."""
    before = encode_kept(message)
    after = redact(before, findings)
    return message if after == before else decode_kept(after)


def redact(data: bytes, findings: Mapping[str, str]) -> bytes:
    """Return JSON with found values replaced, also in JSON that a text holds."""
    for value in sorted(findings, key=len, reverse=True):
        replacement = findings[value].encode()
        for form in _forms(value):
            data = data.replace(form, replacement)
    return data


def _forms(value: str) -> Iterator[bytes]:
    """Yield the ways to write a text in JSON, and in JSON in a text of JSON."""
    once = {orjson.dumps(value)[1:-1].decode(), dumps_ascii(value)[1:-1]}
    once |= {one.replace("/", "\\/") for one in once}
    twice = {text for one in once for text in (dumps_ascii(one)[1:-1], _dump(one))}
    yield from (one.encode() for one in sorted(once | twice, key=len, reverse=True))


def _dump(text: str) -> str:
    return orjson.dumps(text)[1:-1].decode()
