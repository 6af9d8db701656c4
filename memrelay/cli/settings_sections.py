"""The sections of the settings: their values, defaults and rules."""

import os
import re
import sys
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    field_validator,
)

from memrelay.bus.client import url as address
from memrelay.bus.keys import UID
from memrelay.bus.message import IDENTITY_FIELDS, MAX_WEBHOOK_BYTES
from memrelay.cli.logs import LogFormat, LogLevel
from memrelay.guarded_http.rules import ListedPurpose
from memrelay.memory.engine.retention import HISTORY_DAYS
from memrelay.memory.engine.time_zones import MaybeZone
from memrelay.pipelines.secret_grants import Grant, parse_grants

BASE_PATH = re.compile(r"(/[A-Za-z0-9_-]+)+")
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
REFERENCES_RULE = "references env:NAME or file:PATH"

EmbeddingModel = Literal["none", "auto", "local", "bge", "wordllama", "endpoint"]


def _validate_path(value: object) -> Path:
    """Return an absolute path. A relative one starts at the current folder."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("must be a path")
    try:
        path = Path.cwd() / Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError(
            "must be a complete path: the user after ~ has no home folder here"
        ) from error
    if "\0" in str(path):
        raise ValueError("must be a path without the character NUL")
    if not _is_same_file_for_sqlite(str(path)):
        raise ValueError(_encoding_rule())
    return path


def _is_same_file_for_sqlite(path: str) -> bool:
    """SQLite encodes file names as UTF-8; Python uses the encoding of the locale."""
    try:
        return os.fsencode(path) == path.encode()
    except UnicodeEncodeError:
        return False


def _encoding_rule() -> str:
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return (
            "must be a path in UTF-8, and the name of a folder in it is not: rename that folder "
            "or use another path"
        )
    return (
        f"must be a path in plain ASCII while the locale is {encoding}: use another path or set "
        "LC_ALL=C.UTF-8"
    )


def _validate_optional_path(value: object) -> Path | None:
    return None if value in ("", None) else _validate_path(value)


def _split_list(value: object, content: str) -> list[Any]:
    """Return a list. A text, as in a variable, separates it by commas or is a JSON list.

    Raises ValueError: it must be a list of `content`.
    """
    rule = f"must be a list of {content}; in a variable, separate them by commas"
    if not isinstance(value, str):
        items = value
    elif value.lstrip().startswith("["):
        try:
            items = orjson.loads(value)
        except ValueError as error:
            raise ValueError(f"{rule} or write a JSON list") from error
    else:
        items = [item.strip() for item in value.split(",") if item.strip()]
    if not isinstance(items, list | tuple):
        raise ValueError(rule)
    return list(items)


def _validate_block_folders(value: object) -> tuple[Path, ...]:
    folders = tuple(_validate_path(path) for path in _split_list(value, "folders"))
    for folder in folders:
        if not folder.is_dir():
            problem = "is not a folder" if folder.exists() else "does not exist"
            raise ValueError(f"must be a list of folders, and {folder} {problem}")
    return folders


def _validate_host(name: object) -> str:
    """Return a host name or address. An IPv6 address may have brackets."""
    text = name.strip() if isinstance(name, str) else ""
    text = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if not HOST_NAME.fullmatch(text) and not _is_address(text):
        raise ValueError(
            "must be host names or addresses without scheme, port, path or wildcard, such as "
            "memrelay.example.com; write each name that clients use, an international one as xn--"
        )
    return text


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _validate_hosts(value: object) -> tuple[str, ...]:
    return tuple(_validate_host(name) for name in _split_list(value, "host names"))


def _validate_bus_url(url: str) -> str:
    try:
        if url:
            address.parse(url)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("bus.url ")) from error
    return url


def _validate_base_path(path: str) -> str:
    """Return the path without a slash at its end. Raises ValueError."""
    text = path.strip().rstrip("/")
    if text and not BASE_PATH.fullmatch(text):
        raise ValueError(
            "must be empty, or a path such as /memrelay, of letters, digits, hyphens, underscores "
            "and slashes"
        )
    return text


def _validate_public_url(url: str) -> str:
    """Return the URL without a slash at its end. Raises ValueError."""
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0 and parts.scheme in ("http", "https")
    except ValueError:
        is_valid = False
    if url and (not is_valid or parts.username or parts.query or parts.fragment):
        raise ValueError(
            "must be the URL of this server as callers see it, such as https://memory.example.com"
        )
    return url.rstrip("/")


def _validate_proxies(value: object) -> tuple[IPv4Network | IPv6Network, ...]:
    rule = "addresses or networks of reverse proxies, such as 127.0.0.1 or 10.0.0.0/8"
    try:
        return tuple(
            ip_network(str(one).strip(), strict=False) for one in _split_list(value or (), rule)
        )
    except ValueError as error:
        raise ValueError(f"must be a list of {rule}") from error


def _validate_endpoint_url(url: str) -> str:
    if url and not _is_endpoint_url(url):
        raise ValueError(
            "must be empty, or the URL without /embeddings, such as https://api.example.com/v1, "
            "without a key"
        )
    return url


def _is_endpoint_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # The property raises ValueError if the port is not a number.
        port = parts.port
    except ValueError:
        return False
    return (
        url.isascii()
        and url.isprintable()
        and " " not in url
        and parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and parts.username is None
        and not parts.query
        and not parts.fragment
    )


def _validate_reference(reference: str) -> str:
    kind, _, name = reference.partition(":")
    if reference and (kind not in ("env", "file") or not name or "\0" in name):
        # The message omits the value, which may be the secret itself.
        raise ValueError(
            "must be empty, env:NAME or file:PATH: store the key in that variable or file"
        )
    if kind == "file":
        _validate_path(name)
    return reference


def _validate_references(value: object) -> tuple[str, ...]:
    found = _split_list(value, REFERENCES_RULE)
    if not all(isinstance(one, str) for one in found):
        raise ValueError(f"must be a list of {REFERENCES_RULE}")
    return tuple(_validate_reference(one) for one in found if one)


def _validate_trusted_fields(value: object) -> tuple[str, ...]:
    rule = f"some of these: {', '.join(IDENTITY_FIELDS)}"
    names = _split_list(value or (), rule)
    if not all(name in IDENTITY_FIELDS for name in names):
        raise ValueError(f"must be a list of {rule}")
    return tuple(names)


def _validate_grants(value: object) -> tuple[Grant, ...]:
    return parse_grants(_split_list(value, "UID:NAME, a pipeline and an environment variable"))


FilePath = Annotated[Path, PlainValidator(_validate_path)]
# An environment variable may list values with commas, not only as JSON.
BlockFolders = Annotated[tuple[Path, ...], PlainValidator(_validate_block_folders)]
Host = Annotated[str, AfterValidator(_validate_host)]
Hosts = Annotated[tuple[str, ...], PlainValidator(_validate_hosts)]
OptionalPath = Annotated[Path | None, PlainValidator(_validate_optional_path)]
TrustedFields = Annotated[tuple[str, ...], PlainValidator(_validate_trusted_fields)]
Grants = Annotated[tuple[Grant, ...], PlainValidator(_validate_grants)]
References = Annotated[tuple[str, ...], PlainValidator(_validate_references), Field(repr=False)]
PublicUrl = Annotated[str, AfterValidator(_validate_public_url)]
BasePath = Annotated[str, AfterValidator(_validate_base_path)]
Proxies = Annotated[tuple[IPv4Network | IPv6Network, ...], PlainValidator(_validate_proxies)]
EndpointUrl = Annotated[str, AfterValidator(_validate_endpoint_url)]
Reference = Annotated[str, AfterValidator(_validate_reference), Field(repr=False)]
BusUrl = Annotated[str, AfterValidator(_validate_bus_url), Field(repr=False)]
# As milliseconds, this still fits the integers of the server and of SQLite.
MAX_COUNT = 2**31 - 1
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]


class _Section(BaseModel):
    # Strict: in the file, the YAML values yes, 1.0 and "1" are not integers.
    # `defer_build`: Settings builds all sections once.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, defer_build=True
    )


class MemorySettings(_Section):
    root: FilePath = Path("data/memory")
    threads: Annotated[int, Field(ge=1, le=4)] = 2
    open_files: Count | None = None
    search_cache_mib: Count = 64
    snapshot_mib: Count = 1024
    seal_keys: References = ()
    timezone: MaybeZone = ""


def _validate_storage_url(url: str) -> str:
    scheme, _, rest = url.partition("://")
    path = rest.partition("?")[0].partition("/")[2]
    # A password with a slash ends the host too early. The message omits the URL.
    if url and (scheme not in ("postgresql", "postgres") or "@" in path):
        raise ValueError(
            "must be empty or postgresql://[user:password@]host:port/database; " + address.ENCODE
        )
    return url


StorageUrl = Annotated[str, AfterValidator(_validate_storage_url), Field(repr=False)]


class StorageSettings(_Section):
    url: StorageUrl = ""
    tables: bool = False


class BusSettings(_Section):
    url: BusUrl = ""
    ca: OptionalPath = None
    certificate: OptionalPath = None
    key: OptionalPath = None
    data: FilePath = Path("data/bus")
    server: OptionalPath = None
    max_message_bytes: Count = 1_048_576
    trusted_fields: TrustedFields = ()
    max_backlog: Count = 10_000
    max_backlog_bytes: Annotated[int, Field(ge=1, le=2**53)] = 134_217_728
    log_length: Count = 10_000
    log_bytes: Annotated[int, Field(ge=65_536, le=2**53)] = 67_108_864
    min_replicas: Annotated[int, Field(ge=0, le=100)] = 0
    cells: Annotated[int, Field(ge=1, le=100)] = 1


class WorkerSettings(_Section):
    batch: Count = 256
    max_hops: Count = 32
    max_cascade: Count = 1_000
    producer_id_days: Count = 4
    dead_letter_bytes: Annotated[int, Field(ge=65_536, le=2**53)] = 67_108_864
    history_days: Annotated[int, Field(ge=0, le=MAX_COUNT)] = HISTORY_DAYS
    retries: Annotated[int, Field(ge=0)] = 8
    deferred_calls: Count = 8
    deferred_call_s: Count = 120
    grace_s: Count = 10
    lease_s: Count = 30


def _validate_jwks(place: str) -> str:
    is_url = _is_endpoint_url(place) and place.startswith("https://")
    if not is_url and not (place.startswith("file:") and place != "file:" and "\0" not in place):
        raise ValueError("must be file:PATH or an https URL")
    return place


def _to_tuple(value: object) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list")
    return tuple(value)


def _parse_issuers(value: object) -> tuple[object, ...]:
    """Return the issuers. An environment variable holds them as JSON."""
    try:
        return _to_tuple(orjson.loads(value or "[]") if isinstance(value, str) else value)
    except ValueError as error:
        raise ValueError("must be a list of issuers, as JSON in a variable") from error


Algorithm = Literal["RS256", "EdDSA", "ES256"]
Text = Annotated[str, Field(min_length=1)]


class JwtSettings(_Section):
    """An issuer of JWTs, and the pipeline that its tokens reach."""

    issuer: Text
    audience: Text
    jwks: Annotated[str, AfterValidator(_validate_jwks)]
    pipeline: Text
    algorithms: Annotated[
        tuple[Algorithm, ...], BeforeValidator(_to_tuple), Field(min_length=1)
    ] = ("RS256", "EdDSA", "ES256")
    agent_claim: Text = "agent_id"
    user_claim: Text = "user_id"
    private: bool = False


class WebSettings(_Section):
    host: Host = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    hosts: Hosts = ()
    base_path: BasePath = ""
    public_url: PublicUrl = ""
    trusted_proxies: Proxies = ()
    max_wait_s: Count = 60
    call_timeout_s: Count = 10
    read_timeout_s: Count = 10
    max_connections: Count = 2_000
    caller_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    webhook_bytes: Annotated[int, Field(ge=0, le=MAX_WEBHOOK_BYTES)] = 0
    max_json_depth: Annotated[int, Field(ge=1, le=250)] = 64
    max_json_keys: Count = 10_000
    rate: Annotated[int, Field(ge=0)] = 1_000
    burst: Count = 2_000
    listener_backlog: Count = 1_000
    jwt: Annotated[tuple[JwtSettings, ...], BeforeValidator(_parse_issuers)] = ()

    @field_validator("public_url")
    @classmethod
    def check_public_path(cls, url: str, info: ValidationInfo) -> str:
        """Return the URL if it contains the base path. Raises ValueError."""
        base_path = info.data.get("base_path", "")
        if url and base_path and urlsplit(url).path != base_path:
            raise ValueError(f"must have the path of web.base_path, {base_path}")
        return url


class EmbeddingSettings(_Section):
    model: EmbeddingModel = "auto"
    threads: Annotated[int, Field(ge=1, le=64)] = 1
    url: EndpointUrl = ""
    name: str = ""
    key: Reference = ""
    private: bool = False
    timeout_s: Count = 10
    matrix_mib: Count = 512


class SecretsSettings(_Section):
    folder: OptionalPath = None
    env: Grants = ()


class AgentsSettings(_Section):
    secrets: References = ()
    private: bool = False


def _parse_objects(value: object) -> tuple[object, ...]:
    """Return a list of objects. An environment variable holds them as JSON."""
    try:
        return _to_tuple(orjson.loads(value or "[]") if isinstance(value, str) else value)
    except ValueError as error:
        raise ValueError("must be a list of objects, as JSON in a variable") from error


def _validate_ports(value: object) -> tuple[int, ...]:
    ports = _split_list(value or (), "ports")
    numbers = [int(one) if isinstance(one, str) and one.isdecimal() else one for one in ports]
    if not all(type(one) is int and 0 < one < 65536 for one in numbers):
        raise ValueError("must be a list of ports, such as 8443")
    return tuple(numbers)


def _check_pipelines(uids: tuple[str, ...]) -> tuple[str, ...]:
    if not all(UID.fullmatch(one) for one in uids):
        raise ValueError("must be a list of the uids of pipelines")
    return uids


Port = Annotated[int, Field(ge=1, le=65535)]
Ports = Annotated[tuple[int, ...], PlainValidator(_validate_ports)]
Pipelines = Annotated[tuple[str, ...], BeforeValidator(_to_tuple), AfterValidator(_check_pipelines)]
SecretHosts = Annotated[tuple[Host, ...], BeforeValidator(_to_tuple), Field(min_length=1)]


class PrivateHostSettings(_Section):
    """A host and port in a private network that requests may reach."""

    host: Host
    port: Port
    purposes: Annotated[
        tuple[ListedPurpose, ...], BeforeValidator(_to_tuple), Field(min_length=1, alias="for")
    ]
    pipelines: Pipelines = ()


class SecretBindingSettings(_Section):
    """The hosts that a secret may be sent to."""

    ref: Annotated[Reference, Field(min_length=1)]
    hosts: SecretHosts
    pipelines: Pipelines = ()


class OutgoingSettings(_Section):
    ports: Ports = ()
    http: bool = False
    private: Annotated[tuple[PrivateHostSettings, ...], BeforeValidator(_parse_objects)] = ()
    secrets: Annotated[tuple[SecretBindingSettings, ...], BeforeValidator(_parse_objects)] = ()


class BlocksSettings(_Section):
    paths: BlockFolders = ()


class LogSettings(_Section):
    level: LogLevel = "info"
    format: LogFormat = "console"
