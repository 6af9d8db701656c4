"""Where the bus is: a url, taken apart."""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from memrelay.bus.errors import BadAddress


@dataclass(frozen=True, slots=True)
class Address:
    """A server to connect to: a unix socket's `path`, or `host` and `port`."""

    path: str = ""
    host: str = ""
    port: int = 6379
    tls: bool = False
    username: str = ""
    password: str = ""
    database: int = 0
    # with `tls`, files: who vouches for the server, where the system's own list is not asked
    ca: str = ""
    certificate: str = ""  # ours, for a server that wants one
    key: str = ""  # of it, where that is another file

    def __str__(self) -> str:
        """Without the password: this goes to logs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (
            f"unix://{self.path}"
            if self.path
            else f"redis{'s' * self.tls}://{host}:{self.port}/{self.database}"
        )


def parse(url: str) -> Address:
    """`redis://[user:password@]host[:port][/database]`, `rediss://...` (TLS) or
    `unix://[user:password@]/path`."""
    try:
        parts = urlsplit(url)
        port = 6379 if parts.port is None else parts.port
        (parts.hostname or "").encode(
            "idna"
        )  # as the resolver does, which raises what is no error of the network's
    except ValueError as error:
        raise BadAddress(f"bus.url: {error}") from error
    if parts.query or parts.fragment:  # never repeated: other clients take a password there
        raise BadAddress(
            "bus.url takes nothing after a `?` or `#`; write one that belongs to a path or password as %3F or %23"
        )
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if parts.scheme == "unix" and parts.path and not parts.netloc.rpartition("@")[2]:
        return Address(path=unquote(parts.path), username=username, password=password)
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise BadAddress(
            "bus.url must be unix:///path, redis://host:port/database or rediss://..., with a host"
        )
    if not port:
        raise BadAddress("bus.url: the port must be from 1 to 65535")
    return Address(
        host=parts.hostname,
        port=port,
        tls=parts.scheme == "rediss",
        database=_database(parts),
        username=username,
        password=password,
    )


def _database(parts: SplitResult) -> int:
    number = parts.path.strip("/") or "0"
    if not re.fullmatch("[0-9]{1,9}", number):
        raise BadAddress(f"bus.url: the database must be a number, not {number[:100]!r}")
    return int(number)
