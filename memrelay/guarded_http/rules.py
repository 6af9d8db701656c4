"""The rules for outgoing requests (docs/configuration.md), and the guard that applies them."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

import orjson

from memrelay.guarded_http.addresses import (
    is_forbidden,
    is_ip_address,
    is_local,
    is_public,
    normalize_address,
)

# The purposes that `outgoing.private` may name.
ListedPurpose = Literal["models", "embedding", "import", "http", "endpoints", "oauth"]
Purpose = ListedPurpose | Literal["jwks", "sns", "capture"]
LOCALHOST = "localhost"
HOP_HEADER = "Memrelay-Hop"
DEFAULT_PORTS = {"http": 80, "https": 443}
# The switches of URLs that only the operator writes.
SWITCHES = {
    "embedding": "set `embedding.private` to true",
    "jwks": "set `web.jwt.private` to true",
}


class OutgoingRefused(Exception):
    """The rules do not allow a request. The text names the rule and the fix.

    `example` shows how an operator writes the setting that allows it, "" if no setting does.
    """

    def __init__(self, text: str, example: str = "") -> None:
        super().__init__(text)
        self.example = example


def show_setting(name: str, value: Any) -> str:
    """Return how a setting of `outgoing` is written, in the file and as a variable."""
    text = orjson.dumps(value).decode()
    return (
        f"write `{name}: {text}` below `outgoing:` in config.yaml, or set the variable "
        f"`MEMRELAY_OUTGOING__{name.upper()}='{text}'`, and restart the server"
    )


@dataclass(frozen=True, slots=True)
class PrivateHost:
    """A host and port in a private network that requests may reach.

    `host` is as URLs write it, in lower case. Without `pipelines`, all of them may.
    """

    host: str
    port: int
    purposes: frozenset[str]
    pipelines: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SecretBinding:
    """The hosts that a secret may be sent to. Without `pipelines`, all of them may send it."""

    reference: str
    hosts: frozenset[str]
    pipelines: frozenset[str] = frozenset()

    def admits(self, host: str, pipeline: str) -> bool:
        """Return whether a pipeline may send the secret to a host. "" stands for any host."""
        is_bound = not host or host.lower() in self.hosts
        return is_bound and (not self.pipelines or pipeline in self.pipelines)


@dataclass(frozen=True, slots=True)
class OutgoingRules:
    """The settings for outgoing requests.

    `any_port` allows any port and scheme, and `open_for` are purposes that may also reach any
    private address. `own` has the hosts and ports of our web server, bus and storage, which no
    request may reach. Only the webhooks of our web server, whose port is `web_port`, admit a
    request that counts its hops, `max_hops` of them.
    """

    ports: frozenset[int] = frozenset()
    http: bool = False
    any_port: bool = False
    private: tuple[PrivateHost, ...] = ()
    open_for: frozenset[str] = frozenset()
    own: tuple[tuple[str, int], ...] = ()
    web_port: int = 0
    max_hops: int = 32
    webhook_path: str = "/webhooks/"
    secrets: tuple[SecretBinding, ...] = ()

    def binds(self, reference: str) -> bool:
        """Return whether a secret may be sent to certain hosts only."""
        return any(one.reference == reference for one in self.secrets)

    def may_send(self, reference: str, host: str, pipeline: str) -> bool:
        """Return whether a pipeline may send a secret to a host. "" stands for any host."""
        return any(
            one.reference == reference and one.admits(host, pipeline) for one in self.secrets
        )


PUBLIC_ONLY = OutgoingRules()


def operator_rules(purpose: Purpose, private: bool) -> OutgoingRules:
    """Return the rules for a URL that only the operator writes: any scheme and port, and a private
    address if a setting allows it.
    """
    return OutgoingRules(any_port=True, open_for=frozenset((purpose,) if private else ()))


class Guard:
    """Applies the rules to the requests of one purpose and pipeline ("" for none)."""

    def __init__(self, rules: OutgoingRules, purpose: Purpose, pipeline: str = "") -> None:
        self.rules, self._purpose, self._pipeline = rules, purpose, pipeline
        self._is_open = purpose in rules.open_for
        self._takes_any_port = self._is_open or rules.any_port

    def check_url(self, url: str) -> SplitResult:
        """Return the parts of a URL that may be requested, as far as its text tells.

        Raises OutgoingRefused.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise OutgoingRefused(f"the URL is malformed: {error}") from error
        if parts.scheme not in DEFAULT_PORTS or not host or port == 0 or not url.isprintable():
            raise OutgoingRefused("the URL must be absolute, like https://api.example.com/v1")
        if not host.isascii():
            raise OutgoingRefused("the host of the URL is not ASCII: write it as xn--")
        if parts.username is not None or parts.password is not None:
            raise OutgoingRefused(
                "the URL has a user or password: send it in a header, from a secret"
            )
        # Before scheme and port, because a private host is allowed with its port.
        if is_ip_address(host) or host == LOCALHOST:
            self.check_address(host, find_port(parts), "127.0.0.1" if host == LOCALHOST else host)
        if not self._takes_any_port and not self.is_listed(host, find_port(parts)):
            self._check_port(parts, host)
        return parts

    def _check_port(self, parts: SplitResult, host: str) -> None:
        port = find_port(parts)
        if parts.scheme == "http" and not self.rules.http:
            raise OutgoingRefused(
                f"{host}: the URL is not https: use https, or let the operator set `outgoing.http`",
                show_setting("http", True),
            )
        if port != DEFAULT_PORTS[parts.scheme] and port not in self.rules.ports:
            raise OutgoingRefused(
                f"{host}: port {port} is not allowed: the operator can add it to `outgoing.ports`",
                show_setting("ports", [port]),
            )

    def is_listed(self, host: str, port: int) -> bool:
        """Return whether the operator has listed a private host for this purpose and pipeline."""
        return any(
            one.host == host.lower()
            and one.port == port
            and self._purpose in one.purposes
            and (not one.pipelines or self._pipeline in one.pipelines)
            for one in self.rules.private
        )

    def check_address(self, host: str, port: int, address: str) -> None:
        """Check an address of a host. Raises OutgoingRefused."""
        if is_forbidden(address):
            raise OutgoingRefused(
                f"{host} is {address}, a link-local, metadata or reserved address; no setting "
                "allows it"
            )
        if not (is_public(address) or self._is_open or self.is_listed(host, port)):
            remedy = SWITCHES.get(
                self._purpose,
                f"list {host}, port {port} in `outgoing.private` for {self._purpose}, and restart",
            )
            raise OutgoingRefused(
                f"{host} is {address}, which is not public: {remedy} if this is intended",
                show_setting("private", [{"host": host, "port": port, "for": [self._purpose]}]),
            )

    def check_hop(self, hop: int | None) -> None:
        """Check the number of messages that led to a request. Raises OutgoingRefused."""
        if hop is not None and hop > self.rules.max_hops:
            raise OutgoingRefused(
                f"the request follows {hop} messages, and worker.max_hops is "
                f"{self.rules.max_hops}: look for a loop through a webhook"
            )

    def own_hosts(self, port: int, path: str, hop: int | None) -> list[str]:
        """Return our own hosts on a port that a request may not reach.

        A loop through our webhooks is possible, because its hops are counted.
        """
        if (
            hop is not None
            and port == self.rules.web_port
            and path.startswith(self.rules.webhook_path)
        ):
            return []
        return [host for host, own_port in self.rules.own if own_port == port]


def check_not_own(host: str, address: str, own_addresses: list[str]) -> None:
    """Raise OutgoingRefused if an address is one of our own web server, bus or storage.

    Any address of this machine counts, because a server may listen on all of them.
    """
    own = {normalize_address(one) for one in own_addresses}
    if normalize_address(address) in own or is_local(address):
        raise OutgoingRefused(
            f"{host} is an address of Memrelay's own web server, bus or storage; no setting "
            "allows it"
        )


def find_port(parts: SplitResult) -> int:
    """Return the port of a checked URL."""
    return parts.port or DEFAULT_PORTS[parts.scheme]


def shorten_url(url: str) -> str:
    """Return a URL for display: its path, which may be a secret, is only a digest."""
    try:
        parts = urlsplit(url)
        place = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    except ValueError:
        return "a malformed URL"
    rest = parts._replace(scheme="", netloc="").geturl()
    if rest in ("", "/"):
        return f"{parts.scheme}://{place}/"
    return f"{parts.scheme}://{place}/…#{sha256(rest.encode(errors='replace')).hexdigest()[:4]}"
