"""The outputs of changing operations whose write a policy of the store has stopped."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class ReviewPending:
    """The answer to a write that a policy of the store holds for review (docs/trust.md)."""

    guid: str
    """The guid of the proposal, and of the record if the write creates one."""
    review: Literal["pending"] = "pending"


@dataclass(frozen=True, slots=True)
class Dropped:
    """The answer to a write that a policy of the store drops."""

    dropped: str
    """The name of the policy."""


def read_stopped(output: Any) -> ReviewPending | Dropped | None:
    """Return the output of a changing operation, as JSON values, if a policy stopped the write."""
    match output:
        case {"guid": str(guid), "review": "pending", **rest} if not rest:
            return ReviewPending(guid)
        case {"dropped": str(policy), **rest} if not rest:
            return Dropped(policy)
    return None


def describe_stopped(output: dict[str, str]) -> str:
    """Return what became of a write that a policy has stopped, from the output of its call."""
    if "dropped" in output:
        return f"the policy {output['dropped']!r} drops such writes, and nothing was stored"
    return (
        f"a policy holds the write for review as {output['guid']}, and no read returns it "
        "until a reviewer approves it"
    )
