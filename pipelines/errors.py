"""What can go wrong with pipelines.

PipelineError
└── BundleRefused   a bundle has faults; `faults` holds all of them
"""

from collections.abc import Sequence

from pipelines.faults import Fault


class PipelineError(Exception):
    """Anything that is wrong with a pipeline."""


class BundleRefused(PipelineError, ValueError):
    """A bundle that was not taken, with every reason."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        """The text holds one fault a line."""
        super().__init__("\n".join(fault.as_line() for fault in faults))
        self.faults = tuple(faults)
