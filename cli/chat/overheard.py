"""What others say on the swarm meanwhile."""

from collections import deque
from collections.abc import Callable, Container

from bus.codec import decode
from bus.errors import MalformedMessage
from bus.log import Said
from cli.readable import text_lines

MOST = 1000  # own messages that are remembered, and others' that are held back


class Overheard:
    """Shows what people say elsewhere: neither our own, which we know by the ids of its inputs, nor
    what blocks answer."""

    def __init__(self, blocks: Container[str], show: Callable[[str], None]) -> None:
        """`blocks` has the names that blocks say things under; `show` gets a line."""
        self._blocks, self._show = blocks, show
        self._own: deque[str] = deque(maxlen=MOST)
        self._held: deque[Said] = deque(maxlen=MOST)
        self._waiting = False

    def wait(self) -> None:
        """Something of ours is on its way, with an id that is not known yet: what comes is held
        back."""
        self._waiting = True

    def done(self, *idents: str) -> None:
        """Those were its ids."""
        self._own += idents
        self._waiting = False
        self._release()

    def hear(self, said: list[Said]) -> None:
        """New messages of the log."""
        self._held += said
        if not self._waiting:
            self._release()

    def _release(self) -> None:
        while self._held:
            said = self._held.popleft()
            if said.mid.partition(".")[0] not in self._own:
                self._show_one(said)

    def _show_one(self, said: Said) -> None:
        try:
            message = decode(said.data, len(said.data))
        except MalformedMessage:
            return
        if message.sender not in self._blocks:
            for line in text_lines(f"{message.sender}: {message.text}"):
                self._show(line)
