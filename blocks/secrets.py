"""Secrets for the executors of errands, which get no call."""

from collections.abc import Callable
from contextvars import ContextVar

# Set by the worker while an executor runs.
READER: ContextVar[Callable[[str], str]] = ContextVar("READER")


def read_secret(reference: str) -> str:
    """Return the secret of a reference in the request of the errand that runs.

    The operator must list the reference in `agents.secrets`. Raises LookupError: the text names the
    reference, or states that no errand runs.
    """
    reader = READER.get(None)
    if reader is None:
        raise LookupError(f"{reference} can be read only while an errand runs")
    return reader(reference)
