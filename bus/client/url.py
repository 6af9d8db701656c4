"""The address of the Redis or Valkey server, parsed from `bus.url`."""

import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from redis.asyncio.connection import (
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)

from memrelay.bus.errors import BadAddress


@dataclass(frozen=True, slots=True)
class Address:
    """A server: either the `path` of a Unix socket, or `host` and `port`.

    `ca`, `certificate` and `key` are PEM files for TLS. Without `ca` the system's authorities
    apply. The certificate is for servers that verify their clients.
    """

    path: str = ""
    host: str = ""
    port: int = 6379
    tls: bool = False
    username: str = ""
    password: str = field(default="", repr=False)
    database: int = 0
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def __str__(self) -> str:
        """Without the password, because addresses are logged."""
        if self.path:
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis{'s' if self.tls else ''}://{host}:{self.port}/{self.database}"

    def make_url(self) -> str:
        """Return the URL with the password; never log it."""
        user = ":".join(quote(word, safe="") for word in (self.username, self.password))
        kind, _, rest = str(self).partition("://")
        rest = quote(self.path) if self.path else rest
        return f"{kind}://{user}@{rest}" if user != ":" else f"{kind}://{rest}"

    def make_tls_context(self) -> ssl.SSLContext:
        """Read the TLS files. Raises BadAddress if one cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.certificate or self.key:
                # Without a passphrase OpenSSL would prompt on the terminal.
                context.load_cert_chain(self.certificate, self.key or None, password="")
        except (OSError, ValueError) as error:
            files = ", ".join(filter(None, (self.ca, self.certificate, self.key)))
            raise BadAddress(
                f"bus.ca, bus.certificate or bus.key cannot be used ({files}): {error}; "
                "use PEM files that this user can read, and a key without a passphrase"
            ) from error
        return context

    def make_redis_options(self) -> dict[str, Any]:
        """Return the arguments of a redis-py connection pool.

        Raises BadAddress if a TLS file cannot be used.
        """
        options: dict[str, Any] = {
            "username": self.username or None,
            "password": self.password or None,
            "db": self.database,
        }
        if self.path:
            return options | {"connection_class": UnixDomainSocketConnection, "path": self.path}
        options |= {"host": self.host, "port": self.port}
        if not self.tls:
            return options | {"connection_class": Connection}
        self.make_tls_context()
        return options | {
            "connection_class": SSLConnection,
            "ssl_ca_certs": self.ca or None,
            "ssl_certfile": self.certificate or None,
            "ssl_keyfile": self.key or None,
            "ssl_password": "",
        }


def parse(url: str) -> Address:
    """Parse a URL such as `redis://[user:password@]host[:port][/database]`.

    `rediss://` turns TLS on. `unix://[user:password@]/path` names a Unix socket. Raises BadAddress.
    """
    if "?" in url or "#" in url:
        # The message never repeats the URL: some clients accept a password there.
        raise BadAddress(
            "bus.url must not contain `?` or `#`; in a path or password write %3F or %23"
        )
    try:
        parts, options = urlsplit(url), parse_url(url)
        # The resolver would raise UnicodeError instead of a network error.
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise BadAddress(f"bus.url: {error}") from error
    username, password = options.get("username", ""), options.get("password", "")
    if options.get("path") and not parts.hostname:
        return Address(path=options["path"], username=username, password=password)
    if parts.scheme == "unix" or not options.get("host"):
        raise BadAddress(
            "bus.url must be unix:///path, redis://host:port/database or rediss://..., with a host"
        )
    return Address(
        host=options["host"],
        port=options.get("port", 6379),
        tls=parts.scheme == "rediss",
        database=_check_database(parts.path.strip("/"), options.get("db", -1)),
        username=username,
        password=password,
    )


def _check_database(text: str, number: int) -> int:
    """Return the database number, 0 by default; redis-py ignores a path that is not a number."""
    if not text:
        return 0
    if not 0 <= number < 1_000_000_000:
        raise BadAddress(f"bus.url: the database must be a number, not {text[:100]!r}")
    return number
