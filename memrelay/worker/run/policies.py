"""The effects of policies on the rest of an input: answers for stopped writes of blocks, and found
values that are replaced in everything that the input leaves.
"""

from collections.abc import Mapping
from dataclasses import asdict

import orjson
from msgspec.structs import replace

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import make_context
from memrelay.bus.codec import decode_kept, encode_kept
from memrelay.bus.message import Message
from memrelay.memory.admission import settle_write
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import PolicyStop
from memrelay.memory.records.found_values import order_findings
from memrelay.worker.run.inputs import Input, Work
from memrelay.worker.run.outcome import Outcome

DATA = b"data"


def answer_stopped(stop: PolicyStop, call: Call) -> Message:
    """Return the answer of a block whose write was stopped. Raises PolicyStop: it is refused."""
    return call.reply_json(asdict(settle_write(stop, call.tx, make_context(call))))


def redact_input(one: Work, outcome: Outcome, store: Store) -> None:
    """Replace what policies found for an input in its entry, and in all that it leads to."""
    findings = dict(store.records.findings)
    store.records.findings.clear()
    redact_work(one, findings)
    outcome.is_redacted = True
    outcome.messages = [(swarm, redact(data, findings)) for swarm, data in outcome.messages]
    outcome.answer = redact(outcome.answer, findings)
    redacted = tuple(
        pending._replace(
            data=redact(pending.data, findings),
            request=None if pending.request is None else redact(pending.request, findings),
        )
        for pending in outcome.continuations
    )
    store.pending.remove(pending.id for pending in outcome.continuations)
    for pending in redacted:
        store.pending.add(pending)
    outcome.continuations = redacted


def redact_work(one: Work, findings: Mapping[str, str]) -> None:
    """Replace found values in an input, from which its copies are made."""
    if isinstance(one, Input):
        one.message = redact_message(one.message, findings)
        if one.got is not None:
            value = orjson.loads(redact(orjson.dumps(one.got.value), findings))
            one.got = replace(one.got, value=value, error=redact_text(one.got.error, findings))
        return
    fields = one.fields
    for at in range(0, len(fields), 2):
        if fields[at] == DATA:
            fields[at + 1] = redact(fields[at + 1], findings)


def redact_message(message: Message, findings: Mapping[str, str]) -> Message:
    """Return the message with found values replaced."""
    before = encode_kept(message)
    after = redact(before, findings)
    return message if after == before else decode_kept(after)


def redact(data: bytes, findings: Mapping[str, str]) -> bytes:
    """Return JSON of Memrelay with found values replaced, also in JSON that a text holds."""
    return order_findings(findings).replace_data(data) if data else data


def redact_text(text: str, findings: Mapping[str, str]) -> str:
    """Return a text with found values replaced, also in the JSON that it holds."""
    return order_findings(findings).replace_text(text)
