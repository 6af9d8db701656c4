"""The settings of an agent that also its status needs."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Which turns an agent reads, and its budget for one period."""

    kind: str = "turn"
    roles: Sequence[str] = ("user", "assistant")
    # Names of threads, or beginnings that end with `*`. () for all.
    threads: Sequence[str] = ()
    budget_calls: int = 0
    budget_tokens: int | None = None

    def wants(self, thread: str) -> bool:
        """Return whether the turns of a thread are read. Turns without a thread are not."""
        if not self.threads:
            return bool(thread)
        return any(matches(name, thread) for name in self.threads)


def matches(pattern: str, thread: str) -> bool:
    """Return whether a thread has that name, or begins with what is before its `*`."""
    if pattern.endswith("*"):
        return thread.startswith(pattern[:-1])
    return thread == pattern
