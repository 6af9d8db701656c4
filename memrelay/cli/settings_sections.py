"""The sections of the settings: their values, defaults and rules."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator
from pydantic_settings import NoDecode

from memrelay.bus.client import url as address
from memrelay.bus.message import IDENTITY_FIELDS
from memrelay.cli.logs import LogFormat, LogLevel
from memrelay.memory.engine.retention import HISTORY_DAYS
from memrelay.pipelines.secret_grants import Grant, parse_grants

EmbeddingModel = Literal["none", "local", "wordllama", "endpoint"]


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


def _validate_paths(value: object) -> tuple[Path, ...]:
    paths = value.split(",") if isinstance(value, str) else value
    if not isinstance(paths, list | tuple):
        raise ValueError("must be a list of paths")
    return tuple(_validate_path(path) for path in paths)


def _validate_bus_url(url: str) -> str:
    try:
        if url:
            address.parse(url)
    except ValueError as error:
        # The message omits the URL, which may hold a password.
        raise ValueError(
            "must be empty, unix:///path, redis://[user:password@]host:port/db, or "
            "sentinel://[user:password@]host:port,host:port/name/db"
        ) from error
    return url


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
    if reference and not reference.startswith(("env:", "file:")):
        # The message omits the value, which may be the secret itself.
        raise ValueError(
            "must be empty, env:NAME or file:PATH: store the key in that variable or file"
        )
    return reference


def _validate_references(value: object) -> tuple[str, ...]:
    """Return references. An environment variable lists them with commas."""
    found = [one.strip() for one in value.split(",")] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        raise ValueError("must be a list of references env:NAME or file:PATH")
    return tuple(_validate_reference(one) for one in found if one)


def _validate_trusted_fields(value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) and value else value or ()
    if not isinstance(names, list | tuple) or not all(name in IDENTITY_FIELDS for name in names):
        raise ValueError(f"must be a list of some of these: {', '.join(IDENTITY_FIELDS)}")
    return tuple(names)


FilePath = Annotated[Path, PlainValidator(_validate_path)]
# NoDecode: an environment variable lists the paths with commas, not as JSON.
Paths = Annotated[tuple[Path, ...], NoDecode, PlainValidator(_validate_paths)]
OptionalPath = Annotated[Path | None, PlainValidator(_validate_optional_path)]
TrustedFields = Annotated[tuple[str, ...], NoDecode, PlainValidator(_validate_trusted_fields)]
Grants = Annotated[tuple[Grant, ...], NoDecode, PlainValidator(parse_grants)]
References = Annotated[
    tuple[str, ...], NoDecode, PlainValidator(_validate_references), Field(repr=False)
]
EndpointUrl = Annotated[str, AfterValidator(_validate_endpoint_url)]
Reference = Annotated[str, AfterValidator(_validate_reference), Field(repr=False)]
BusUrl = Annotated[str, AfterValidator(_validate_bus_url), Field(repr=False)]
# As milliseconds, this still fits the integers of the server and of SQLite.
MAX_COUNT = 2**31 - 1
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]


class _Section(BaseModel):
    # Strict: in the file, the YAML values yes, 1.0 and "1" are not integers.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)


class MemorySettings(_Section):
    root: FilePath = Path("data/memory")
    threads: Annotated[int, Field(ge=1, le=4)] = 2
    open_files: Count | None = None
    search_cache_mib: Count = 64
    seal_keys: References = ()


def _validate_storage_url(url: str) -> str:
    # The message omits the URL, which may hold a password.
    if url and not url.startswith(("postgresql://", "postgres://")):
        raise ValueError("must be empty or postgresql://[user:password@]host:port/database")
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
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    hosts: str = ""
    max_wait_s: Count = 60
    call_timeout_s: Count = 10
    read_timeout_s: Count = 10
    max_connections: Count = 2_000
    caller_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    max_json_depth: Annotated[int, Field(ge=1, le=250)] = 64
    max_json_keys: Count = 10_000
    rate: Annotated[int, Field(ge=0)] = 1_000
    burst: Count = 2_000
    listener_backlog: Count = 1_000
    jwt: Annotated[tuple[JwtSettings, ...], NoDecode, BeforeValidator(_parse_issuers)] = ()


class EmbeddingSettings(_Section):
    model: EmbeddingModel = "local"
    threads: Annotated[int, Field(ge=1, le=64)] = 1
    url: EndpointUrl = ""
    name: str = ""
    key: Reference = ""
    private: bool = False
    timeout_s: Count = 10
    matrix_mib: Count = 256


class SecretsSettings(_Section):
    folder: OptionalPath = None
    env: Grants = ()


class AgentsSettings(_Section):
    secrets: References = ()
    private: bool = False


class BlocksSettings(_Section):
    paths: Paths = ()


class LogSettings(_Section):
    level: LogLevel = "info"
    format: LogFormat = "console"
