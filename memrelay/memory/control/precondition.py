"""Preconditions of a deploy or removal, checked inside its transaction."""

from typing import NamedTuple


class Precondition(NamedTuple):
    """The bundles that a change may replace, by hash."""

    # None: any bundle.
    hashes: frozenset[str] | None = None
    # Whether the pipeline may also be absent.
    absent: bool = True

    def allows(self, active: str | None) -> bool:
        """Return whether a change may replace the active bundle. None: the pipeline is not
        deployed.
        """
        if active is None:
            return self.absent
        return self.hashes is None or active in self.hashes


ANYTHING = Precondition()
# The pipeline must be new.
NOTHING = Precondition(frozenset())
# The pipeline must be active.
SOMETHING = Precondition(absent=False)


def over(*hashes: str) -> Precondition:
    """Return the precondition that one of these bundles is active."""
    return Precondition(frozenset(hashes), absent=False)
