"""Repeats: a call that comes again under its caller's key gets the first answer; another call under
that key is refused."""

from dataclasses import fields
from hashlib import blake2b

import orjson
from pydantic import ValidationError

from bus.call import KEY_REUSED, error_answer
from memory.sqlite.inbox import Done, Inbox
from worker.inputs import APART, Call, Input
from worker.outcome import asked_of

DIGEST_BYTES = (
    8  # an integer: what was erased is looked for in the texts that are kept, and a digest is none
)


def kept_id(work: Input) -> str:
    """The id that its producer gave it, in stores that several pipelines may share."""
    return f"{work.plan.uid}/{work.producer_id}"


def known_by_id(inbox: Inbox, work: Input) -> Done | None:
    """What an earlier input with its producer's id led to."""
    done = inbox.produced(kept_id(work))
    if (
        done is None and work.call is not None
    ):  # an earlier version kept keys by operation, without a digest
        done = inbox.produced(f"{work.plan.uid}/{work.call.operation.name}{work.producer_id}")
    return done


def digest_of(call: Call) -> int:
    """What is asked for: the operation, the store as it was named, and the input as it was
    understood.

    Fields at their default are left out, so that an operation that learns a further one knows its
    earlier calls again. An
    input that is refused counts as it came.
    """
    try:
        asked = call.operation.adapter.validate_json(call.data, strict=True)
        given = {
            field.name: value
            for field in fields(asked)
            if (value := getattr(asked, field.name)) != field.default
        }
        told = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    except ValidationError:
        told = call.data
    whole = b"\0".join((call.operation.name.encode(), call.store.encode(), told))
    return int.from_bytes(blake2b(whole, digest_size=DIGEST_BYTES).digest())


def refusal(work: Input, done: Done) -> bytes:
    """The answer to a call whose key stands for another one; b"" where it is the same, or nothing
    is known of the first."""
    asked = asked_of(done.outputs) if work.call is not None else 0
    if work.call is None or not asked or asked == digest_of(work.call):
        return b""
    return error_answer(
        KEY_REUSED,
        f"the Idempotency-Key {work.producer_id.removeprefix(APART)!r} was used in this pipeline "
        "for another operation, store or input, and nothing was done; a key stands for one call as long as it "
        "is remembered (worker.producer_id_days): give this one a key of its own",
    )
