"""The report of a cascade, printed: the results as JSON lines, or as a person reads them; what went
wrong to stderr."""

from typing import Any

import orjson

from memrelay.bus.message import JSON
from memrelay.cli.composition import note
from memrelay.cli.terminal.output import as_it_came, print_json, print_line
from memrelay.cli.terminal.readable import value_lines


def print_results(report: dict[str, Any], *, whole: bool = False) -> bool:
    """The results as JSON lines, and whether the message went through."""
    for result in report["results"]:
        print_json(result if whole else _payload(result["args"][0]))
    return _explain(report)


def print_readably(report: dict[str, Any]) -> bool:
    """The results as lines of text, with who says them where several do, and whether the message
    went through."""
    results = values_of(report)
    for speaker, value in results:
        if len(results) > 1:
            print_line(f"{speaker}:")
        for line in value_lines(value):
            print_line(line)
    return _explain(report)


def values_of(report: dict[str, Any]) -> list[tuple[str, Any]]:
    """(who says it, what is said: JSON, or text as a string) of each result."""
    return [(result["from"], _value(result["args"][0])) for result in report["results"]]


def _payload(part: dict[str, Any]) -> Any:
    """What a result says: JSON as it is, text, and what only says that it is JSON, as a JSON
    string."""
    try:
        return as_it_came(part["text"].encode()) if part.get("type") == JSON else part["text"]
    except orjson.JSONDecodeError:
        return part["text"]


def _value(part: dict[str, Any]) -> Any:
    """The same, to be read."""
    payload = _payload(part)
    return payload if isinstance(payload, str) else orjson.loads(part["text"])


def _explain(report: dict[str, Any]) -> bool:
    for alias in report.get("silent", ()):
        note(f"{alias} ran, but does not publish (wf_publish_results)")
    for swarm in dict.fromkeys(report.get("public", ())):
        note(f"said on the public swarm {swarm}: who listens there answers there, if at all")
    for error in report.get("errors", ()):
        note(f"the message is in the dead letters: {error}")
    if not report["results"] and len(report) == 3:
        note("no results: nothing in the pipeline answers to this")
    return "errors" not in report
