"""The texts of failed tool calls: the rule and the fix, or when to retry."""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from memrelay.bus.errors import BusBusy, BusError, CallFailed, NoAnswer, NoOwner
from memrelay.web.mcp.tool import NotAnswered, ToolError

# Faults of one call that its error lists.
MAX_FAULTS = 20
RETRY_AFTER_S = 1.0
SDK = "mcp"
# Advice that names operations, in the names that a client of MCP knows.
ADVICE = {"records.list or records.search": "memory_read or memory_search"}
NOT_INSTALLED = (
    "the MCP server needs an extra package; install it with `pip install 'memrelay[mcp]'`"
)


def refuse(detail: str, faults: Iterable[str] = ()) -> ToolError:
    """Return the error of a call that broke a rule. `faults` are lines such as `/tags: ...`."""
    for given, shown in ADVICE.items():
        detail = detail.replace(given, shown)
    lines = list(faults)
    more = [f"and {len(lines) - MAX_FAULTS} more"] if len(lines) > MAX_FAULTS else []
    return ToolError("\n".join((detail, *lines[:MAX_FAULTS], *more)))


def retry_later(detail: str, after_s: float = RETRY_AFTER_S) -> ToolError:
    """Return the error of a call that may succeed later."""
    return NotAnswered(f"{detail.rstrip('.')}. Retry in {ceil(after_s)} s")


def bus_failure(error: BusError) -> ToolError:
    """Return the error of a call that the bus or the pipeline's owner did not answer."""
    if isinstance(error, BusBusy | NoOwner | NoAnswer):
        return retry_later(str(error))
    if isinstance(error, CallFailed):
        return refuse(f"the call failed, and would fail again: {error}")
    return retry_later(
        f"the bus does not answer: {error}. A change may have arrived; repeat it with the same "
        "idempotency_key"
    )


def describe_invalid(faults: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one line per fault of a validated input: its pointer, the rule and the fix."""
    return [
        f"{one['pointer']}: {one['rule']}"
        + (f" ({one['suggestion']})" if one.get("suggestion") else "")
        for one in faults
    ]


def describe_faults(faults: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one line per fault of an operation's answer."""
    return [f"{one['path']}: {one['message']}" for one in faults]
