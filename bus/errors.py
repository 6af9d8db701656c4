"""What can go wrong on the bus.

BusError
├── MalformedMessage   bytes that are not an envelope: never retried
│   └── MessageTooLong longer than a message may be
├── BadAddress         a bus url that cannot be understood, or a file for TLS that cannot be used
├── BusUnavailable     no connection, or it broke: an answer may be lost, whoever asked must look
what happened
├── Fenced             another worker has taken this one for dead: nothing of what it sends arrives
├── BusBusy            too much waits already: nothing was done, try again later
├── NoOwner            no worker serves the pipeline now: nothing was done
├── CallFailed         a call was given up by the pipeline's owner
├── BusRefused         the server answered with an error; `code` is its first word (NOGROUP, OOM,
NOAUTH, ...)
└── NoAnswer           a request that nobody answered in time
"""


class BusError(Exception):
    """Anything that the bus could not do."""


class MalformedMessage(BusError, ValueError):
    """What came is not an envelope; the text names the rule that it breaks."""


class MessageTooLong(MalformedMessage):
    """What came is longer than it may be."""


class BadAddress(BusError, ValueError):
    """A bus url that cannot be understood, or a file for TLS that cannot be used."""


class BusUnavailable(BusError, ConnectionError):
    """The server cannot be reached, or the connection broke."""


class Fenced(BusError):
    """Another worker has taken this one for dead, and may own its pipelines."""


class BusBusy(BusError):
    """Too much waits for the server already; nothing was sent."""


class NoOwner(BusError):
    """Nobody hears what is asked of the pipeline; nothing was sent to it."""


class CallFailed(BusError):
    """The owner could not carry out a call; it is in the dead letters, with the reason."""


class BusRefused(BusError):
    """The server's own error."""

    @property
    def code(self) -> str:
        """The first word of the server's error."""
        return str(self).split(" ", 1)[0]


class NoAnswer(BusError, TimeoutError):
    """Nobody answered a request in time; `ident` is the entry that was appended, `paused` why its
    worker waits, if it does."""

    def __init__(self, text: str, ident: str = "", paused: str = "") -> None:
        """`text` says who should have answered."""
        super().__init__(text)
        self.ident, self.paused = ident, paused


# What can go wrong with the embedded server.
#
# EmbeddedServerError
# ├── NoServerBinary        no server program is installed, or the configured one cannot be run
# ├── ServerBinaryTooOld    a server program was found, but none is version 7.0 or newer
# ├── AppendOnlyFileLeft    a server would begin without something that was acknowledged
# ├── ServerDidNotStart     it was launched, or about to be, and never answered
# └── ServerHeldByOther     another process holds the data folder and does not answer
#
# Every message says the rule that was broken and what to do about it.


class EmbeddedServerError(Exception):
    """The root of this tree: catch it to tell the user, in one line, why there is no bus."""


class NoServerBinary(EmbeddedServerError):
    """No usable server program; the message lists where it was looked for."""


class ServerBinaryTooOld(EmbeddedServerError):
    """Only programs older than 7.0 were found; the message names them with their versions."""


class AppendOnlyFileLeft(EmbeddedServerError):
    """Files of the append-only file are there that its manifest does not name; the message has the
    command that names them."""


class ServerDidNotStart(EmbeddedServerError):
    """The server ended, stayed silent or could not be spawned; the message ends with its last log
    lines."""


class ServerHeldByOther(EmbeddedServerError):
    """The data folder's lock is held, but nobody answers on its socket."""
