"""Why an input is given up.

CascadeFault
├── TooDeep    messages gave rise to messages, further than the hop count allows
└── TooMany    one input gave rise to too many messages
"""
from traceback import TracebackException


class CascadeFault(Exception):
    """An input that leads too far; it goes to the dead letters."""


class TooDeep(CascadeFault):
    """Agents answer each other, or one itself, without an end."""

    def __init__(self, max_hops: int, sender: str) -> None:
        """`sender` said the last message."""
        super().__init__(f"the message went on over more than {max_hops} hops (worker.max_hops): do agents answer each other, "
                         f"or {sender!r} itself? Narrow their agent_from")


class TooMany(CascadeFault):
    """Each message gives rise to several."""

    def __init__(self, max_cascade: int) -> None:
        """`max_cascade` is how many are allowed."""
        super().__init__(f"one input gave rise to more than {max_cascade} messages (worker.max_cascade): do agents answer "
                         "each other? Narrow their agent_from")


def told(fault: BaseException) -> str:
    """What a fault says, also where it cannot say it: some of what blocks raise fails in its own `__str__`."""
    return str(TracebackException(type(fault), fault, None))


def first_of(error: BaseException) -> BaseException:
    """The first reason under nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
