"""Reasons why a cascade is stopped and its input becomes a dead letter.

BlockFault
CascadeFault
├── TooManyHops
├── TooManyMessages
├── TooManyBytes
├── TooManyKeys
└── AgentRemoved
"""

from collections import deque
from pathlib import Path
from traceback import TracebackException, walk_tb

from memrelay.pipelines.secret_references import NO_SECRETS, SecretResolver

# Characters of an exception's text that are kept.
MAX_CHARACTERS = 10_000
# Frames of a traceback that a dead letter keeps, and the characters of each.
MAX_FRAMES, MAX_FRAME = 3, 120
# The folder of the code that runs the blocks.
WORKER = str(Path(__file__).parent)


class CascadeFault(Exception):
    """A cascade exceeds a limit."""


class TooManyHops(CascadeFault):
    """Messages led to messages beyond the hop limit."""

    def __init__(self, max_hops: int, sender: str) -> None:
        super().__init__(
            f"the message went on over more than {max_hops} hops (worker.max_hops): do agents "
            f"answer each other, or {sender!r} itself? Narrow their agent_from"
        )


class TooManyMessages(CascadeFault):
    """One input led to too many messages."""

    def __init__(self, max_cascade: int) -> None:
        super().__init__(
            f"one input led to more than {max_cascade} messages (worker.max_cascade): do agents "
            "answer each other? Narrow their agent_from"
        )


class TooManyBytes(CascadeFault):
    """The messages of one input are too long for one MULTI."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"one input led to messages of more than {max_bytes} bytes in all: do many agents "
            "repeat a long message? Narrow their agent_from, or shorten their answers"
        )


class TooManyKeys(CascadeFault):
    """An agent has the maximum number of keys, so a message with a further one cannot wait."""

    def __init__(self, alias: str, most: int) -> None:
        super().__init__(
            f"the agent {alias} has {most} keys (wf_flow), and this message has a further one; use "
            "a key with fewer values, or replay the message later"
        )


class AgentRemoved(CascadeFault):
    """A message has waited for an agent that a deploy has removed."""

    def __init__(self, alias: str) -> None:
        super().__init__(
            f"the message waited because of wf_flow, and a deploy has removed its agent {alias!r}; "
            "deploy the agent again, then replay the message"
        )


class BlockFault(Exception):
    """A block raised an error of the system, such as a refused connection."""

    def __init__(self, cause: Exception, secrets: SecretResolver) -> None:
        super().__init__(f"{type(cause).__name__}: {describe_error(cause, secrets)}")


def subscriber_note(alias: str, block: str) -> str:
    """Return the note for an exception of a block, which `find_subscriber` returns."""
    return f"agent {alias}, block {block}"


def find_subscriber(fault: BaseException) -> str:
    """Return the agent and block that raised an exception, "" if it was raised elsewhere."""
    notes: list[str] = getattr(fault, "__notes__", [])
    return notes[-1] if notes else ""


class _Text(Exception):
    """Has the text of another exception, and nothing else that an exception may compute."""

    def __str__(self) -> str:
        return str(self.args[0])


def describe_error(fault: BaseException, secrets: SecretResolver = NO_SECRETS) -> str:
    """Return the text of an exception, even if its own `__str__` fails, as a block's may.

    It has at most MAX_CHARACTERS, no value of `secrets` that a block has read, and no half of a
    surrogate pair, which no store accepts.
    """
    whole = str(TracebackException(_Text, _Text(fault), None))
    text = secrets.redact(whole)[:MAX_CHARACTERS]
    return text.encode(errors="backslashreplace").decode()


def describe_frames(fault: BaseException) -> str:
    """Return the last frames of an exception's traceback, a line each, and the worker's none.

    A line has the file's name without its folder, the line number and the function.
    """
    frames = deque[str](maxlen=MAX_FRAMES)
    for frame, number in walk_tb(fault.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(WORKER):
            frames.append(f"{Path(code.co_filename).name}:{number} in {code.co_name}"[:MAX_FRAME])
    return "".join(f"\n  {frame}" for frame in frames)


def first_cause(error: BaseException) -> BaseException:
    """Return the first exception inside nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
