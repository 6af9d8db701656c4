"""The address of the Redis or Valkey server, parsed from `bus.url`."""

import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from redis.asyncio.connection import (
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)

from memrelay.bus.errors import BadAddress

SENTINEL_SCHEMES = ("sentinel", "rediss+sentinel")
SENTINEL_PORT = 26379
CLUSTER_SCHEMES = ("cluster", "rediss+cluster")
CLUSTER_PORT = 6379
# Error texts never repeat the URL, which may hold a password, also where it was parsed wrongly.
ENCODE = (
    "percent-encode special characters of a user and password: / is %2F, ? is %3F, # is %23, "
    "@ is %40, % is %25"
)
FORMS = (
    "bus.url must be empty, unix:///path, redis://host:port/database, "
    "sentinel://host:port,host:port/name/database or cluster://host:port,host:port, with "
    "user:password@ before the first host if needed; with TLS the schemes are rediss://, "
    f"rediss+sentinel:// and rediss+cluster://; {ENCODE}"
)
NO_OPTIONS = (
    "bus.url must not contain `?` or `#`: it has no options such as ?ssl_cert_reqs=none. TLS is "
    "rediss:// with bus.ca, bus.certificate and bus.key, and the server's certificate is always "
    f"verified; {ENCODE}"
)
# Parts of the reasons that redis-py, OpenSSL and the system give if only one side speaks TLS.
TLS_FAILED = ("ssl", "timed out", "timeout", "closed", "reset", "eof")
PLAIN_FAILED = ("closed", "reset", "protocol error", "speak resp")


@dataclass(frozen=True, slots=True)
class Address:
    """A server. One of these names it:

    - the `path` of a Unix socket, or `host` and `port`
    - `sentinels` (host and port): the primary of the group `service` that they watch
    - `nodes` of a cluster: the primaries of Memrelay's keys. With a `cell`, only the primary of its
      keys (memrelay/bus/keys.py)

    `min_replicas` replicas must have an entry before it counts as appended.

    `ca`, `certificate` and `key` are PEM files for TLS. Without `ca` the system's authorities
    apply. The certificate is for servers that verify their clients.
    """

    path: str = ""
    host: str = ""
    port: int = 6379
    sentinels: tuple[tuple[str, int], ...] = ()
    service: str = ""
    nodes: tuple[tuple[str, int], ...] = ()
    cell: str = ""
    tls: bool = False
    username: str = ""
    password: str = field(default="", repr=False)
    database: int = 0
    ca: str = ""
    certificate: str = ""
    key: str = ""
    min_replicas: int = 0

    @property
    def may_fail_over(self) -> bool:
        """Whether a replica may take the place of the server."""
        return bool(self.watchers or self.min_replicas)

    @property
    def watchers(self) -> tuple[tuple[str, int], ...]:
        """The servers that know the primary: Sentinels, or nodes of the cluster."""
        return self.sentinels or self.nodes

    def __str__(self) -> str:
        """Without the password, because addresses are logged."""
        if self.path:
            return f"unix://{self.path}"
        if self.sentinels:
            hosts = ",".join(_join(*one) for one in self.sentinels)
            scheme = "rediss+sentinel" if self.tls else "sentinel"
            return f"{scheme}://{hosts}/{quote(self.service, safe='')}/{self.database}"
        if self.nodes:
            scheme = "rediss+cluster" if self.tls else "cluster"
            return f"{scheme}://{','.join(_join(*one) for one in self.nodes)}"
        scheme = "rediss" if self.tls else "redis"
        return f"{scheme}://{_join(self.host, self.port)}/{self.database}"

    def explain_tls(self, reason: str) -> str:
        """Return advice if TLS may be why the first command failed, else ""."""
        text = reason.lower()
        if self.path:
            return ""
        if "certificate verify failed" in text:
            return "; bus.ca must be the PEM file of the authority that signed its certificate"
        if self.tls and any(sign in text for sign in TLS_FAILED):
            return "; if this port does not speak TLS, write redis:// for rediss:// in bus.url"
        if not self.tls and any(sign in text for sign in PLAIN_FAILED):
            return "; if this port speaks TLS, write rediss:// for redis:// in bus.url"
        return ""

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
        kind = SSLConnection if self.tls else Connection
        return options | self.make_tls_options() | {"connection_class": kind}

    def make_tls_options(self) -> dict[str, Any]:
        """Return the TLS arguments of a redis-py connection, none without TLS.

        Raises BadAddress if a TLS file cannot be used.
        """
        if not self.tls:
            return {}
        self.make_tls_context()
        return {
            "ssl_ca_certs": self.ca or None,
            "ssl_certfile": self.certificate or None,
            "ssl_keyfile": self.key or None,
            "ssl_password": "",
        }


def parse(url: str) -> Address:
    """Parse a URL such as `redis://[user:password@]host[:port][/database]`.

    `rediss://` turns TLS on. `unix://[user:password@]/path` names a Unix socket.
    `sentinel://[user:password@]host[:port],host[:port].../name[/database]` lists Sentinels;
    `rediss+sentinel://` is the same with TLS. `cluster://[user:password@]host[:port],...` and
    `rediss+cluster://` list nodes of a cluster. Raises BadAddress.
    """
    if "?" in url or "#" in url:
        raise BadAddress(NO_OPTIONS)
    scheme, separator, rest = url.partition("://")
    if separator and scheme in SENTINEL_SCHEMES:
        return _parse_sentinels(rest, tls=scheme != "sentinel")
    if separator and scheme in CLUSTER_SCHEMES:
        return _parse_cluster(rest, tls=scheme != "cluster")
    return _parse_server(url)


def _parse_server(url: str) -> Address:
    """Parse the URL of one server. Raises BadAddress."""
    try:
        parts, options = urlsplit(url), parse_url(url)
        # The resolver would raise UnicodeError instead of a network error.
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise BadAddress(FORMS) from error
    username, password = options.get("username", ""), options.get("password", "")
    if options.get("path") and not parts.hostname:
        return Address(path=options["path"], username=username, password=password)
    if parts.scheme == "unix" or not options.get("host"):
        raise BadAddress(FORMS)
    return Address(
        host=options["host"],
        port=options.get("port", 6379),
        tls=parts.scheme == "rediss",
        database=_check_database(parts.path.strip("/"), options.get("db", -1)),
        username=username,
        password=password,
    )


def _parse_sentinels(rest: str, *, tls: bool) -> Address:
    """Parse what follows `sentinel://`. Raises BadAddress."""
    hosts, _, path = rest.partition("/")
    login, _, hosts = hosts.rpartition("@")
    service, _, database = path.partition("/")
    username, _, password = login.partition(":")
    if not hosts or not service or "@" in path:
        raise BadAddress(
            "bus.url must be sentinel://host:port,host:port/name/database, with the name of the "
            f"group that the Sentinels watch; {ENCODE}"
        )
    return Address(
        sentinels=_parse_hosts(hosts, SENTINEL_PORT),
        service=unquote(service),
        tls=tls,
        database=_check_database(
            database, int(database[:10]) if database.isascii() and database.isdigit() else -1
        ),
        username=unquote(username),
        password=unquote(password),
    )


def _parse_cluster(rest: str, *, tls: bool) -> Address:
    """Parse what follows `cluster://`. Raises BadAddress."""
    hosts, _, path = rest.partition("/")
    login, _, hosts = hosts.rpartition("@")
    username, _, password = login.partition(":")
    if not hosts or path not in ("", "0"):
        raise BadAddress(
            f"bus.url must be cluster://host:port,host:port; a cluster has database 0; {ENCODE}"
        )
    return Address(
        nodes=_parse_hosts(hosts, CLUSTER_PORT),
        tls=tls,
        username=unquote(username),
        password=unquote(password),
    )


def _parse_hosts(hosts: str, port: int) -> tuple[tuple[str, int], ...]:
    """Return host and port of each in a list. Raises BadAddress."""
    parsed = [
        (parse(f"redis://{host}"), ":" in host.rpartition("]")[2]) for host in hosts.split(",")
    ]
    return tuple((one.host, one.port if has_port else port) for one, has_port in parsed)


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_database(text: str, number: int) -> int:
    """Return the database number, 0 by default; redis-py ignores a path that is not a number."""
    if not text:
        return 0
    if not 0 <= number < 1_000_000_000:
        raise BadAddress(
            f"bus.url must have nothing or the number of a database after the host; {ENCODE}"
        )
    return number
