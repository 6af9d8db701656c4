"""What a change of a pipeline is made on top of: compared with what is in service inside the
transaction that changes it."""

from typing import NamedTuple


class Precondition(NamedTuple):
    """The bundles over which the change may be made, by hash."""

    hashes: frozenset[str] | None = None  # None: whichever
    absent: bool = True  # also where the pipeline is not in service

    def allows(self, active: str | None) -> bool:
        """Whether the change may be made over this bundle; None where the pipeline is not in
        service."""
        if active is None:
            return self.absent
        return self.hashes is None or active in self.hashes


ANYTHING = Precondition()
NOTHING = Precondition(frozenset())  # a new pipeline
SOMETHING = Precondition(absent=False)  # one that is in service


def over(*hashes: str) -> Precondition:
    """One of these bundles, and nothing else."""
    return Precondition(frozenset(hashes), absent=False)
