"""Why an input is given up.

CascadeFault
├── TooDeep    messages gave rise to messages, further than the hop count allows
├── TooMany    one input gave rise to too many messages
└── TooMuch    they are too long for the server to take them at once
"""

from traceback import TracebackException


class CascadeFault(Exception):
    """An input that leads too far; it goes to the dead letters."""


class TooDeep(CascadeFault):
    """Agents answer each other, or one itself, without an end."""

    def __init__(self, max_hops: int, sender: str) -> None:
        """`sender` said the last message."""
        super().__init__(
            f"the message went on over more than {max_hops} hops (worker.max_hops): do agents answer each other, "
            f"or {sender!r} itself? Narrow their agent_from"
        )


class TooMany(CascadeFault):
    """Each message gives rise to several."""

    def __init__(self, max_cascade: int) -> None:
        """`max_cascade` is how many are allowed."""
        super().__init__(
            f"one input gave rise to more than {max_cascade} messages (worker.max_cascade): do agents answer "
            "each other? Narrow their agent_from"
        )


class TooMuch(CascadeFault):
    """Many agents say a long message on."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes` is how much is allowed."""
        super().__init__(
            f"one input gave rise to messages of more than {most_bytes} bytes in all: do many agents say one long "
            "message on? Narrow their agent_from, or let them say less"
        )


def describe_error(fault: BaseException) -> str:
    """What a fault says, also where it cannot say it: some of what blocks raise fails in its own
    `__str__`."""
    return str(TracebackException(type(fault), fault, None))


def first_of(error: BaseException) -> BaseException:
    """The first reason under nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
