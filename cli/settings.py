"""The settings: read from config.yaml and the environment, checked once, handed on as frozen
values.

This is the only file of the product that reads the environment. Its one error is SettingsError,
which holds every
fault at once: where it is (a file or a variable), which setting it concerns, and the remedy.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ErrorDetails

from memrelay.bus.client import url as address
from memrelay.cli.logs import LogFormat, LogLevel
from memrelay.cli.paths import NotYaml, path_below, read_yaml
from memrelay.memory.retention import HISTORY_DAYS
from memrelay.memory.validation import closest
from memrelay.pipelines.rules import rule_of

PREFIX = "MEMRELAY_"
CONFIG_VARIABLE = "MEMRELAY_CONFIG"
CHECKOUT_FILE = Path(__file__).resolve().parent.parent / "config.yaml"

# What Kubernetes and Docker give each program beside a service that is called memrelay, or
# memrelay-something.
SERVICE_LINK = re.compile(
    r"MEMRELAY_(\w+_)?(SERVICE_(HOST|PORT)\w*=|PORT_\d+_[A-Z]+\w*=|PORT=[a-z]+://).*", re.DOTALL
)

EmbeddingModel = Literal["none", "local", "wordllama", "endpoint"]


class SettingsError(Exception):
    """Settings that cannot be used: `faults` has all that is wrong, one line each."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


def _path(value: object, info: ValidationInfo) -> Path:
    """An absolute path; a relative one starts at the context's `folder`, else at the current
    one."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("must be a path")
    return path_below(info.context["folder"] if info.context else Path.cwd(), value)


def _path_or_none(value: object, info: ValidationInfo) -> Path | None:
    return None if value in ("", None) else _path(value, info)


def _bus_url(url: str) -> str:
    try:
        if url:
            address.parse(url)
    except ValueError as error:  # never repeats the url, which may hold a password
        raise ValueError(
            "must be empty, unix:///path or redis://[user:password@]host:port/db"
        ) from error
    return url


def _endpoint_url(url: str) -> str:
    if url and not _is_endpoint(url):
        raise ValueError(
            "must be empty, or what stands before /embeddings, like https://api.example.com/v1, without a key"
        )
    return url


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port  # which raises where it is none
    except ValueError:
        return False
    told = url.isascii() and url.isprintable() and " " not in url
    return (
        told
        and parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and parts.username is None
        and not parts.query
        and not parts.fragment
    )


def _reference(reference: str) -> str:
    if reference and not reference.startswith(
        ("env:", "file:")
    ):  # never repeats it: it may be the secret itself
        raise ValueError("must be empty, env:NAME or file:PATH: the key itself stands there")
    return reference


def _paths(value: object, info: ValidationInfo) -> tuple[Path, ...]:
    paths = value.split(",") if isinstance(value, str) else value
    if not isinstance(paths, list | tuple):
        raise ValueError("must be a list of paths")
    return tuple(_path(path, info) for path in paths)


FilePath = Annotated[Path, PlainValidator(_path)]
OptionalPath = Annotated[Path | None, PlainValidator(_path_or_none)]
Paths = Annotated[tuple[Path, ...], PlainValidator(_paths)]
EndpointUrl = Annotated[str, AfterValidator(_endpoint_url)]
Reference = Annotated[str, AfterValidator(_reference), Field(repr=False)]
BusUrl = Annotated[str, AfterValidator(_bus_url), Field(repr=False)]
MOST = (
    2**31 - 1
    # as ms it fits into what the server and SQLite count with: beyond it a worker would not get its
    # lease
)
Count = Annotated[int, Field(ge=1, le=MOST)]


class _Section(BaseModel):
    # Strict, so that YAML's yes, 1.0 and "1" are no numbers; what the environment holds is read as
    # text all the same.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)


class MemorySettings(_Section):
    root: FilePath = Path("data/memory")
    threads: Annotated[int, Field(ge=1, le=4)] = 2
    open_files: Count = 256


class BusSettings(_Section):
    url: BusUrl = ""
    ca: OptionalPath = None
    certificate: OptionalPath = None
    key: OptionalPath = None
    data: FilePath = Path("data/bus")
    server: OptionalPath = None
    max_message_bytes: Count = 1_048_576
    max_backlog: Count = 10_000
    max_backlog_bytes: Annotated[int, Field(ge=1, le=2**53)] = 134_217_728
    log_length: Count = 10_000


class WorkerSettings(_Section):
    batch: Count = 256
    max_hops: Count = 32
    max_cascade: Count = 1_000
    producer_id_days: Count = 4
    history_days: Annotated[int, Field(ge=0, le=MOST)] = HISTORY_DAYS
    retries: Annotated[int, Field(ge=0)] = 8
    grace_s: Count = 10
    lease_s: Count = 30


class WebSettings(_Section):
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    hosts: str = ""
    max_wait_s: Count = 60
    call_timeout_s: Count = 10
    read_timeout_s: Count = 10
    max_connections: Count = 2_000
    max_json_depth: Annotated[int, Field(ge=1, le=250)] = 64
    max_json_keys: Count = 10_000
    rate: Annotated[int, Field(ge=0)] = 1_000
    burst: Count = 2_000
    listener_backlog: Count = 1_000


class EmbeddingSettings(_Section):
    model: EmbeddingModel = "local"
    threads: Annotated[int, Field(ge=1, le=64)] = 1
    url: EndpointUrl = ""
    name: str = ""
    key: Reference = ""
    private: bool = False
    timeout_s: Count = 10
    matrix_mib: Count = 256


class BlocksSettings(_Section):
    paths: Paths = ()


class LogSettings(_Section):
    level: LogLevel = "info"
    format: LogFormat = "console"


class Settings(BaseModel):
    """Every setting of Memrelay; config.yaml says what each one is for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory: MemorySettings = Field(default_factory=MemorySettings)
    bus: BusSettings = Field(default_factory=BusSettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    web: WebSettings = Field(default_factory=WebSettings)
    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    blocks: BlocksSettings = Field(default_factory=BlocksSettings)
    log: LogSettings = Field(default_factory=LogSettings)


_SECTIONS: dict[str, Any] = {
    name: field.annotation for name, field in Settings.model_fields.items()
}
_VARIABLES = {
    f"{PREFIX}{section}__{key}".upper(): (section, key)
    for section, model in _SECTIONS.items()
    for key in model.model_fields
}


def default_config_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file that MEMRELAY_CONFIG names, else config.yaml in the current folder, else the
    checkout's own.

    None where there is no checkout either, as of a wheel that was installed: then every setting has
    its default.
    """
    if named := environ.get(CONFIG_VARIABLE):
        return Path(named)
    return next((file for file in (Path("config.yaml"), CHECKOUT_FILE) if file.is_file()), None)


def may_color(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a terminal is to be given colours: not where NO_COLOR is set (no-color.org), nor
    where it knows none."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def read_secret(reference: str, environ: Mapping[str, str] = os.environ) -> str:
    """What `env:NAME` or `file:PATH` stands for; a file's last line break is none of it. Raises
    LookupError."""
    kind, _, name = reference.partition(":")
    if kind == "env" and name in environ:
        return environ[name]
    if kind == "file":
        try:
            return Path(name).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (
            OSError,
            ValueError,
            RuntimeError,
        ) as error:  # no such file, no text, no such home folder
            raise LookupError(f"{reference} cannot be read") from error
    raise LookupError(f"{reference} is not set")


def load_settings(
    config_file: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Settings:
    """The settings of the file (None: the default one), overridden by the environment; raises
    SettingsError."""
    faults: list[str] = []
    from_file = _from_file(config_file or default_config_file(environ), faults)
    from_environment = _from_environment(environ, faults)
    if faults or from_file is None or from_environment is None:
        raise SettingsError(faults)
    return from_file.model_copy(
        update={
            section: getattr(from_file, section).model_copy(update=given)
            for section, given in from_environment.model_dump(exclude_unset=True).items()
        }
    )


def _from_file(file: Path | None, faults: list[str]) -> Settings | None:
    if file is None:
        return Settings.model_validate(_every_section(), context={"folder": Path.cwd()})
    try:
        content = read_yaml(file)
    except (OSError, NotYaml) as error:
        told = (
            f"cannot be read: {error.strerror}; name another in {CONFIG_VARIABLE}"
            if isinstance(error, OSError)
            else error
        )
        faults.append(f"{file}: {told}")
        return None
    if not isinstance(content, dict | None):
        faults.append(
            f"{file}: must hold sections ({', '.join(_SECTIONS)}), each with its settings"
        )
        return None
    given = {
        section: {} if settings is None else settings
        for section, settings in (content or {}).items()
    }
    try:
        return Settings.model_validate(
            _every_section() | given, context={"folder": file.absolute().parent}
        )
    except ValidationError as error:
        faults.extend(
            f"{file}: {'.'.join(map(str, fault['loc']))}: {_why(fault)}" for fault in error.errors()
        )
        return None


def _from_environment(environ: Mapping[str, str], faults: list[str]) -> Settings | None:
    """Only what the environment sets is set in the result."""
    given = _every_section()
    for name in sorted(environ):
        if name in _VARIABLES:
            section, key = _VARIABLES[name]
            given[section][key] = environ[name]
        elif (
            name.startswith(PREFIX)
            and name != CONFIG_VARIABLE
            and not SERVICE_LINK.fullmatch(f"{name}={environ[name]}")
        ):
            faults.append(
                f"{name}: no such setting{_did_you_mean(name, [*_VARIABLES, CONFIG_VARIABLE])}"
            )
    try:
        return Settings.model_validate_strings(given, context={"folder": Path.cwd()})
    except ValidationError as error:
        faults.extend(
            f"{PREFIX}{'__'.join(map(str, fault['loc'])).upper()}: {_why(fault)}"
            for fault in error.errors()
        )
        return None


def _every_section() -> dict[str, dict[str, Any]]:
    return {section: {} for section in _SECTIONS}


def _why(fault: ErrorDetails) -> str:
    """What a fault breaks, without the value at fault, which may be a secret."""
    match fault["type"], fault["loc"]:
        case "extra_forbidden", (section,):
            return f"no such section{_did_you_mean(section, _SECTIONS)}"
        case "extra_forbidden", (section, key):
            return f"no such setting{_did_you_mean(key, _SECTIONS[str(section)].model_fields)}"
        case "model_type", _:
            return "must hold settings, each on a line of its own"
        case _:
            return rule_of(fault)


def _did_you_mean(name: object, known: Iterable[str]) -> str:
    nearest = closest(str(name), known, 0.5)
    return f'; did you mean "{nearest}"?' if nearest else f"; there are {', '.join(known)}"
