"""`agent_from`: whose messages an agent takes (contracts/kilroy.md A2; lists are ours)."""

from collections.abc import Sequence


def normalised(agent_from: str | Sequence[str]) -> tuple[str, ...]:
    """The names as they are kept: () for everybody, which is what "", "*" and an empty list
    mean."""
    names = (agent_from,) if isinstance(agent_from, str) else tuple(agent_from)
    return () if "" in names or "*" in names else names


def accepts(names: tuple[str, ...], sender: str) -> bool:
    """Is what `sender` says taken? A list of `!name` alone takes all but these; plain names take
    just themselves."""
    if not names or "*" in names:
        return True
    if all(name.startswith("!") for name in names):
        return "!" + sender not in names
    return sender in names and not sender.startswith("!")
