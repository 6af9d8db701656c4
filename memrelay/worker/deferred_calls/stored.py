"""The request and the result of a deferred call, as JSON in its pending row."""

from hashlib import sha256
from typing import Any

import msgspec
import orjson
from pydantic_core import to_json

from memrelay.blocks.contract import AsyncBlock, DeferredCall, Got
from memrelay.bus.codec import decode_kept, encode_kept
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.plan import Plan, PlannedAgent

DIGEST_BYTES = 16


class DeferredCallTooLarge(Exception):
    """A request or result has more bytes than a message may have."""


def pack_request(deferred_call: DeferredCall, max_bytes: int) -> bytes:
    """Return the request with its order.

    Raises DeferredCallTooLarge, and TypeError if it is no JSON.
    """
    return _pack(
        {"order": str(deferred_call.order), "request": deferred_call.request}, "request", max_bytes
    )


def pack_result(value: Any, max_bytes: int) -> bytes:
    """Return a successful result. Raises DeferredCallTooLarge, and TypeError if it is no JSON."""
    return _pack({"value": value}, "result", max_bytes)


def pack_error(text: str, code: str = "") -> bytes:
    """Return the result of a failed deferred call. `code` is that of `Got`."""
    return orjson.dumps({"error": text} | ({"code": code} if code else {}))


def has_error(result: bytes) -> bool:
    """Return whether a service was reached in vain, though its executor returned a value.

    A sender returns {"error": ...}, with or without the answer.
    """
    if b'"error"' not in result:
        return False
    value = orjson.loads(result).get("value")
    return isinstance(value, dict) and bool(value.get("error"))


def parse_request(pending: Pending) -> Any:
    return orjson.loads(pending.request or b"{}")["request"]


def parse_order(pending: Pending) -> str:
    """Return the order of a row's deferred call, "" for the default."""
    order: str = orjson.loads(pending.request or b"{}")["order"]
    return order


def name_conversation(pending: Pending, plan: Plan) -> str:
    """Return the name of the conversation of a call, within which calls are in order."""
    subscriber = plan.subscriber(pending.agent)
    executor = subscriber.executor if subscriber is not None else None
    if isinstance(executor, AsyncBlock) and not executor.ordered:
        return pending.id
    return f"{pending.pipeline}/{pending.agent}/{parse_order(pending)}"


def make_request_digest(pending: Pending, subscriber: PlannedAgent) -> bytes:
    """Return the digest of everything that decides the result of a deferred call: its block and
    its request; of an async block, its arguments and its message.

    These have the references of secrets, so no secret is in it. The order of the call does not
    count.
    """
    request = orjson.dumps(parse_request(pending), option=orjson.OPT_SORT_KEYS)
    parts = [subscriber.block.encode(), request]
    if isinstance(subscriber.executor, AsyncBlock):
        message = encode_kept(decode_kept(pending.data))  # without its trace context
        parts += [to_json(subscriber.args, fallback=repr), message]
    return sha256(msgspec.msgpack.encode(parts)).digest()[:DIGEST_BYTES]


def pack_again(got: Got | None) -> bytes | None:
    """Return the result as it was stored."""
    if got is None:
        return None
    return pack_error(got.error, got.code) if got.error else orjson.dumps({"value": got.value})


def parse_result(pending: Pending) -> Got | None:
    """Return the result of a row; None if it has no deferred call, or an open one."""
    if pending.result is None:
        return None
    result = orjson.loads(pending.result)
    error, code = result.get("error", ""), result.get("code", "")
    return Got(pending.deferred_call_id, result.get("value"), error, code)


def _pack(content: dict[str, Any], name: str, max_bytes: int) -> bytes:
    try:
        data = orjson.dumps(content)
    except orjson.JSONEncodeError as error:
        raise TypeError(f"the {name} of a deferred call must be a JSON value: {error}") from error
    if len(data) > max_bytes:
        raise DeferredCallTooLarge(
            f"the {name} of the deferred call has {len(data)} bytes; bus.max_message_bytes allows "
            f"{max_bytes}"
        )
    return data
