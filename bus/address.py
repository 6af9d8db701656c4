"""Where the bus is: a url, taken apart."""
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from bus.errors import BadAddress


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

    def __str__(self) -> str:
        """Without the password: this goes to logs."""
        return f"unix://{self.path}" if self.path else f"redis{'s' * self.tls}://{self.host}:{self.port}/{self.database}"


def parse(url: str) -> Address:
    """`unix:///path`, `redis://[user:password@]host[:port][/database]` or `rediss://...` (TLS)."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadAddress(f"bus.url: {error}") from error
    if parts.query or parts.fragment:   # never repeated: other clients take a password there
        raise BadAddress("bus.url takes nothing after a `?` or `#`; write one that belongs to a path or password as %3F or %23")
    if parts.scheme == "unix" and parts.path:
        return Address(path=unquote(parts.path))
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise BadAddress("bus.url must be unix:///path, redis://host:port/database or rediss://..., with a host")
    database = parts.path.strip("/") or "0"
    try:
        port = parts.port or 6379
    except ValueError as error:
        raise BadAddress(f"bus.url: {error}") from error
    if not (database.isascii() and database.isdecimal()):
        raise BadAddress(f"bus.url: the database must be a number, not {database!r}")
    return Address(host=parts.hostname, port=port, tls=parts.scheme == "rediss", database=int(database),
                   username=unquote(parts.username or ""), password=unquote(parts.password or ""))
