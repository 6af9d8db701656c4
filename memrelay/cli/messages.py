"""Send messages to a pipeline, and print the report of their results."""

import time
from typing import Any

import orjson

from memrelay.bus.codec import encode
from memrelay.bus.errors import MalformedMessage, NoAnswer
from memrelay.bus.message import JSON, new_message
from memrelay.bus.request import Requester
from memrelay.bus.streams.entry import NewEntry
from memrelay.cli.composition import note
from memrelay.cli.terminal.output import as_it_came, print_json, print_line
from memrelay.cli.terminal.readable import value_lines


def make_envelope(text: str, user: str, max_bytes: int) -> bytes:
    """Return the envelope of a text that `user` sends now.

    Raises MalformedMessage: if the text is not UTF-8 or the envelope is too long.
    """
    message = new_message(user, "cli", text, username=user, now_ms=time.time_ns() // 1_000_000)
    try:
        data = encode(message)
    except UnicodeEncodeError as error:
        raise MalformedMessage("the message must be text in UTF-8") from error
    if len(data) > max_bytes:
        raise MalformedMessage(
            f"the message has {len(data)} bytes, and bus.max_message_bytes allows {max_bytes}; "
            "send it in parts"
        )
    return data


async def send_and_wait(requester: Requester, entry: NewEntry, wait_s: float) -> dict[str, Any]:
    """Send a message and return the report of its cascade.

    Raises NoAnswer: after `wait_s` seconds, with the next step for the user.
    """
    try:
        return await requester.say(entry, wait_s)
    except NoAnswer as error:
        more = (
            f": {error.paused}"
            if error.paused
            else " (check `memrelay status`, or start a worker with `memrelay worker`)"
        )
        raise NoAnswer(f"{error}{more}", error.ident, error.paused) from error


def print_results(report: dict[str, Any], *, whole: bool = False, hint: str = "") -> bool:
    """Print the results as JSON lines: payloads, or whole envelopes. Return whether it worked: the
    message is no dead letter, and no agent answered with an error.

    If no agent handled the message, `hint` tells the user how to correct it.
    """
    for result in report["results"]:
        print_json(result if whole else _payload(result["args"][0]))
    return _print_notes(report, hint)


def print_readably(report: dict[str, Any], *, hint: str = "") -> bool:
    """Print the results as text, with the sender if there are several. Return whether it worked."""
    results = list_values(report)
    for sender, value in results:
        if len(results) > 1:
            print_line(f"{sender}:")
        for line in value_lines(value):
            print_line(line)
    return _print_notes(report, hint)


def list_values(report: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return (sender, value) per result. A value is parsed JSON, or text."""
    return [(result["from"], _value(result["args"][0])) for result in report["results"]]


def _payload(part: dict[str, Any]) -> Any:
    """Return valid JSON unchanged, and everything else as a string."""
    try:
        return as_it_came(part["text"].encode()) if part.get("type") == JSON else part["text"]
    except orjson.JSONDecodeError:
        return part["text"]


def _value(part: dict[str, Any]) -> Any:
    payload = _payload(part)
    return payload if isinstance(payload, str) else orjson.loads(part["text"])


def _print_notes(report: dict[str, Any], hint: str) -> bool:
    for alias in report.get("silent", ()):
        note(f"{alias} ran, but does not publish its results (wf_publish_results)")
    for swarm in dict.fromkeys(report.get("public", ())):
        note(f"sent to the public swarm {swarm}: listeners answer there, not here")
    for alias in report.get("parked", ()):
        note(f"the message waits: {alias} runs it later (wf_flow)")
    for error in report.get("errors", ()):
        note(f"the message is in the dead letters: {error}")
    for result in report["results"]:
        if left_out := result.get("left_out"):
            note(f"{result['from']} left out {left_out} more results; narrow them down")
    if not report["results"] and len(report) == 3:
        note(hint or "no agent handled this message")
    answers_error = any(_is_error(value) for _, value in list_values(report))
    return "errors" not in report and not answers_error


def _is_error(value: Any) -> bool:
    """Return whether an answer is `{"error": ...}`, or has the `is_error` of `memory_tool`."""
    if not isinstance(value, dict):
        return False
    return value.keys() == {"error"} or value.get("is_error") is True
