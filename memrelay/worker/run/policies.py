"""What policies of a store do to the rest of an input: answers for stopped writes of blocks, and
found values that are replaced in everything that the input leaves.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import orjson
from msgspec.structs import replace

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import make_context
from memrelay.bus.codec import decode_kept, encode_kept
from memrelay.bus.message import Message
from memrelay.memory.admission import settle_write
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import PolicyStop
from memrelay.worker.run.inputs import Input, Work
from memrelay.worker.run.outcome import Outcome

DATA = b"data"
# The name of a field of Memrelay. It stays, also if it contains a found value.
FIELD = re.compile("[a-z_]{1,30}")
# Smaller numbers are not replaced: any count may be equal to them.
LEAST_NUMBER = 100_000
JSON_STARTS = ("{", "[", '"')
# Found values and their replacements.
Ordered = Sequence[tuple[str, str]]


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
    """Return JSON with found values replaced, also in JSON that a text holds.

    It is parsed, because a sender may escape any character, and because a value may also be a part
    of the syntax, such as the name of a field.
    """
    if not data:
        return data
    ordered = _order(findings)
    try:
        value = json.loads(data)
        redacted = _redact_value(value, ordered, keeps_fields=True)
    except (ValueError, RecursionError):
        return _redact_broken(data, ordered)
    return data if redacted == value else _dump(redacted)


def redact_text(text: str, findings: Mapping[str, str]) -> str:
    """Return a text with found values replaced, also in the JSON that it holds."""
    return _redact_text(text, _order(findings))


def _order(findings: Mapping[str, str]) -> Ordered:
    """Return the findings, also as JSON writes them, the longest first: it may contain others."""
    values = sorted(findings.items(), key=lambda one: len(one[0]), reverse=True)
    return [(form, name) for value, name in values for form in (value, *_escape(value))]


def _redact_value(value: Any, findings: Ordered, *, keeps_fields: bool = False) -> Any:
    """Return a JSON value with found values replaced, with `keeps_fields` not in names of FIELD."""
    if isinstance(value, str):
        return _redact_text(value, findings)
    if isinstance(value, list):
        return [_redact_value(one, findings, keeps_fields=keeps_fields) for one in value]
    if isinstance(value, dict):
        redacted = {}
        for key, inner in value.items():
            is_kept = keeps_fields and FIELD.fullmatch(key)
            name = key if is_kept else _redact_text(key, findings)
            redacted[name] = _redact_value(inner, findings, keeps_fields=keeps_fields)
        return redacted
    if isinstance(value, int) and abs(value) >= LEAST_NUMBER:
        return dict(findings).get(str(value), value)
    return value


def _redact_text(text: str, findings: Ordered) -> str:
    if text.lstrip()[:1] in JSON_STARTS:
        with suppress(ValueError):
            value = json.loads(text)
            redacted = _redact_value(value, findings)
            return text if redacted == value else _dump(redacted).decode()
    for value, replacement in findings:
        text = text.replace(value, replacement)
    return text


def _redact_broken(data: bytes, findings: Ordered) -> bytes:
    """Return data that is no JSON with found values replaced."""
    for value, replacement in findings:
        data = data.replace(value.encode(errors="surrogatepass"), replacement.encode())
    return data


def _escape(value: str) -> set[str]:
    """Return the usual ways to write a text in JSON, if they differ from it."""
    escaped = {json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    escaped |= {one.replace("/", "\\/") for one in escaped}
    return escaped - {value}


def _dump(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(value, separators=(",", ":")).encode()
