"""The signals that end a process: the first one is heard, and nothing that comes after it cuts the
end short.

SIGHUP comes when a terminal is closed, and is let be where it was ignored from the start, as
`nohup` has it.
"""

import asyncio
import signal
from types import FrameType

ENDING = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


def told_to_end() -> asyncio.Event:
    """An event of the running loop, set by the first of them; from then on all are ignored.

    A loop's own handlers end with the loop, and a second signal would then kill the process while
    it ends its server.
    To be called in the main thread.
    """
    told, loop = asyncio.Event(), asyncio.get_running_loop()

    def tell(number: int, frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        loop.call_soon_threadsafe(told.set)

    for number in ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, tell)
    return told
