"""What can go wrong with the embedded server.

EmbeddedServerError
├── NoServerBinary        no server program is installed, or the configured one cannot be run
├── ServerBinaryTooOld    a server program was found, but none is version 7.0 or newer
├── AppendOnlyFileLeft    a server would begin without something that was acknowledged
├── ServerDidNotStart     it was launched, or about to be, and never answered
└── ServerHeldByOther     another process holds the data folder and does not answer

Every message says the rule that was broken and what to do about it.
"""


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
