"""The exceptions of the bus and of the embedded server.

BusError
├── MalformedMessage    not an envelope; never retried
│   └── MessageTooLong
├── BadAddress          an invalid bus URL, or an unusable TLS file
├── BusUnavailable      no connection, or it broke and replies may be lost
├── Fenced              another worker took over; nothing more is sent
├── BusBusy             too much waits; nothing was done
├── NoOwner             no worker serves the pipeline; nothing was done
├── CallFailed          the pipeline's owner gave up a call
├── BusRefused          the server answered with an error; `code` is its first word
└── NoAnswer            a request was not answered in time

ServerTooOld            the server is older than version 7

EmbeddedServerError
├── NoServerBinary      no usable server program
├── ServerBinaryTooOld  only server programs older than 7.0
├── AppendOnlyFileLeft  a server would start without acknowledged data
├── ServerDidNotStart   the server did not answer
└── ServerHeldByOther   another process holds the data folder and does not answer
"""


class BusError(Exception):
    """The root of the bus exceptions."""


class MalformedMessage(BusError, ValueError):
    """The data is not an envelope; the text names the rule that it breaks."""


class MessageTooLong(MalformedMessage):
    """The message is longer than allowed."""


class BadAddress(BusError, ValueError):
    """The bus URL is invalid, or a TLS file cannot be used."""


class BusUnavailable(BusError, ConnectionError):
    """The server cannot be reached, or the connection broke.

    Commands under way may have run: the caller must find out.
    """


class Fenced(BusError):
    """Another worker fenced this one, and may own its pipelines."""


class BusBusy(BusError):
    """Too much waits already, so nothing was sent."""


class NoOwner(BusError):
    """No worker listens for calls to the pipeline, so nothing was sent."""


class CallFailed(BusError):
    """The owner could not carry out a call; the dead letters contain it with the reason."""


class BusRefused(BusError):
    """The server answered with an error."""

    @property
    def code(self) -> str:
        """Return the first word of the server's error, such as NOGROUP, OOM or NOAUTH."""
        return str(self).split(" ", 1)[0]


class NoAnswer(BusError, TimeoutError):
    """A request was not answered in time.

    `ident` is the ID of the appended entry. `paused` is the reason if the pipeline is paused.
    """

    def __init__(self, text: str, ident: str = "", paused: str = "") -> None:
        super().__init__(text)
        self.ident, self.paused = ident, paused


class ServerTooOld(Exception):
    """The server lacks commands. It is no BusError: another attempt does not help."""


class EmbeddedServerError(Exception):
    """The root of the exceptions of the embedded server. Messages include the remedy."""


class NoServerBinary(EmbeddedServerError):
    """No usable server program; the message lists the searched places."""


class ServerBinaryTooOld(EmbeddedServerError):
    """All server programs are older than 7.0; the message lists their versions."""


class AppendOnlyFileLeft(EmbeddedServerError):
    """The manifest of the append-only file does not name all files; the message has a repair."""


class ServerDidNotStart(EmbeddedServerError):
    """The server ended, did not answer or could not be spawned; the message ends with its log."""


class ServerHeldByOther(EmbeddedServerError):
    """Another process holds the lock of the data folder, but does not answer on its socket."""
