"""Settings from config.yaml and the environment, validated once and frozen.

This is the only module that reads the environment. SettingsError lists every fault at once: the
file or variable, the setting, and a fix.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, get_args

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from memrelay.cli.settings_sections import (
    AgentsSettings,
    BlocksSettings,
    BusSettings,
    EmbeddingSettings,
    LogSettings,
    MemorySettings,
    OutgoingSettings,
    SecretsSettings,
    StorageSettings,
    WebSettings,
    WorkerSettings,
)
from memrelay.memory.validation import find_closest
from memrelay.pipelines.rules import describe_rule

PREFIX = "MEMRELAY_"
CONFIG_VARIABLE = "MEMRELAY_CONFIG"
CHECKOUT = Path(__file__).resolve().parents[2]
CURRENT_FILE, CHECKOUT_FILE = Path("config.yaml"), CHECKOUT / "config.yaml"

# Kubernetes and Docker set these variables next to a service named memrelay or memrelay-NAME.
SERVICE_LINK = re.compile(
    r"MEMRELAY_(?=\w*=)(\w+_)?(SERVICE_(HOST|PORT)\w*=|PORT_\d+_[A-Z]+\w*=|PORT=[a-z]+://).*",
    re.DOTALL,
)
# Settings with a new name, which the error for the old one states.
RENAMED = {"errands": "deferred_calls", "errand_s": "deferred_call_s"}
# Examples of settings that are lists of objects: YAML in the file, and JSON in a variable.
SHAPES: dict[tuple[int | str, ...], str] = {
    ("outgoing", "private"): '[{"host": "127.0.0.1", "port": 8977, "for": ["http"]}]',
    ("outgoing", "secrets"): '[{"ref": "env:NAME", "hosts": ["api.example.com"]}]',
}
_environ: ContextVar[Mapping[str, str]] = ContextVar("environ", default=os.environ)


class SettingsError(Exception):
    """Invalid settings. `faults` has one line per fault."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


class Settings(BaseModel):
    """All settings of Memrelay. config.yaml describes each one."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    memory: MemorySettings = Field(default_factory=MemorySettings)
    storage: StorageSettings = Field(default_factory=StorageSettings)
    bus: BusSettings = Field(default_factory=BusSettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    web: WebSettings = Field(default_factory=WebSettings)
    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    secrets: SecretsSettings = Field(default_factory=SecretsSettings)
    agents: AgentsSettings = Field(default_factory=AgentsSettings)
    outgoing: OutgoingSettings = Field(default_factory=OutgoingSettings)
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
_PATH_DEFAULTS: dict[tuple[str, str], Any] = {
    (section, key): field.default
    for section, model in _SECTIONS.items()
    for key, field in model.model_fields.items()
    if Path in (field.annotation, *get_args(field.annotation))
}


class _DuplicateKey(yaml.constructor.ConstructorError):
    pass


class _UniqueKeyLoader(yaml.SafeLoader):
    """Reject a key that occurs twice in a mapping. Plain YAML silently keeps the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        marks: dict[str, yaml.Mark] = {}
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            first = marks.setdefault(key.value, key.start_mark)
            if first is not key.start_mark:
                problem = (
                    f'duplicate key "{key.value}" (first in line {first.line + 1}): merge them'
                )
                raise _DuplicateKey(None, None, problem, key.start_mark)
        return super().construct_mapping(node, deep)


@contextmanager
def use_environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Read these variables instead of the process environment while the context is open."""
    token = _environ.set(environ)
    try:
        yield
    finally:
        _environ.reset(token)


def default_config_file(
    environ: Mapping[str, str] | None = None, *, in_any_folder: bool = False
) -> Path | None:
    """Return the config file: MEMRELAY_CONFIG, else ./config.yaml, else the one of the checkout.

    Return None for an installed wheel without a file. All settings then have their defaults.
    `in_any_folder` skips ./config.yaml, for a program that others start in folders of theirs.
    """
    if named := _or_current(environ).get(CONFIG_VARIABLE):
        return Path(named)
    is_checkout = (CHECKOUT / "pyproject.toml").is_file()
    files = [CURRENT_FILE] * (not in_any_folder) + [CHECKOUT_FILE] * is_checkout
    return next((file for file in files if file.is_file()), None)


def process_environment() -> Mapping[str, str]:
    """Return the environment variables of this process."""
    return _environ.get()


def may_color() -> bool:
    """Return whether a terminal may get colors: NO_COLOR is not set and TERM is not `dumb`."""
    environ = process_environment()
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def load_settings(
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    in_any_folder: bool = False,
) -> Settings:
    """Return the settings of the file (None: the default one), overridden by the environment.

    `in_any_folder` is that of `default_config_file`.

    Raises SettingsError: with all faults of both.
    """
    environ = _or_current(environ)
    file = config_file or default_config_file(environ, in_any_folder=in_any_folder)
    faults: list[str] = []
    values = _read_config_file(file, faults)
    faults += _unknown_variables(environ)
    for variable, (section, key) in _VARIABLES.items():
        # A section that is not a dictionary is a fault.
        if variable in environ and isinstance(values[section], dict):
            values[section][key] = _read_variable(section, key, environ[variable])
    try:
        settings = Settings(**values)
    except ValidationError as error:
        faults += [
            f"{_place(fault, file, environ)}: {_rule(fault)}{_show_shape(fault)}"
            for fault in error.errors()
        ]
    if faults:
        raise SettingsError(faults)
    return settings


def _or_current(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return _environ.get() if environ is None else environ


def _read_config_file(file: Path | None, faults: list[str]) -> dict[str, Any]:
    """Return all sections of the file. Append what is wrong with the file to `faults`."""
    values: dict[str, Any] = {}
    try:
        values = {} if file is None else _read_sections(file)
    except (OSError, SettingsError, UnicodeError, yaml.YAMLError) as error:
        faults.append(f"{file}: {_file_problem(error)}")
    unknown = values.keys() - _SECTIONS.keys()
    faults += [f"{file}: {name}: unknown section{_suggestion(name, _SECTIONS)}" for name in unknown]
    return {name: values.get(name, {}) for name in _SECTIONS}


def _read_sections(file: Path) -> dict[str, Any]:
    """Return the values of a YAML file. Relative and default paths start at its folder.

    Raises SettingsError, and what reading and parsing raise.
    """
    folder = file.absolute().parent
    sections = yaml.load(file.read_text(encoding="utf-8"), _UniqueKeyLoader) or {}
    if not isinstance(sections, dict):
        raise SettingsError(
            [f"must hold sections ({', '.join(_SECTIONS)}), each with its settings"]
        )
    values = {str(name): {} if values is None else values for name, values in sections.items()}
    for (section, key), default in _PATH_DEFAULTS.items():
        settings = values.setdefault(section, {})
        path = settings.get(key, default) if isinstance(settings, dict) else None
        if isinstance(path, list):
            settings[key] = [_start_at(folder, one) for one in path]
        elif not isinstance(default, tuple) and path:
            settings[key] = _start_at(folder, path)
    return values


def _start_at(folder: Path, path: object) -> object:
    is_path = isinstance(path, str | Path) and str(path) and not str(path).startswith("~")
    return Path(folder, str(path)) if is_path else path


def _read_variable(section: str, key: str, text: str) -> object:
    """Return the value of a variable: a number, flag or list in it, else the text.

    The validators of paths take texts, and so do those of lists with commas. Relative paths start
    at the current folder.
    """
    if (section, key) in _PATH_DEFAULTS:
        return text
    adapter = TypeAdapter[object](_SECTIONS[section].model_fields[key].annotation)
    try:
        return adapter.validate_python(text)
    except ValidationError:
        pass
    try:
        return adapter.validate_python(orjson.loads(text))
    except (ValidationError, orjson.JSONDecodeError):
        return text


def _file_problem(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}; set {CONFIG_VARIABLE} to another file"
    if isinstance(error, SettingsError):
        return str(error)
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem_mark:
        return "must be YAML in UTF-8"
    problem = str(error.problem)
    if not isinstance(error, _DuplicateKey):
        problem = f"invalid YAML: {problem}"
    return f"line {error.problem_mark.line + 1}: {problem}"


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    known = [*_VARIABLES, CONFIG_VARIABLE]
    return [
        f"{name}: unknown setting{_suggestion(name, known)}"
        for name in sorted(environ)
        if name.startswith(PREFIX)
        and name not in known
        and not SERVICE_LINK.fullmatch(f"{name}={environ[name]}")
    ]


def _place(fault: ErrorDetails, file: Path | None, environ: Mapping[str, str]) -> str:
    setting = ".".join(map(str, fault["loc"]))
    variable = f"{PREFIX}{'__'.join(map(str, fault['loc'][:2]))}".upper()
    if variable not in environ:
        return f"{file or 'defaults'}: {setting}"
    inner = ".".join(map(str, fault["loc"][2:]))
    return f"{variable}: {inner}" if inner else variable


def _show_shape(fault: ErrorDetails) -> str:
    """Return an example of a setting that is a list of objects."""
    shape = SHAPES.get(fault["loc"][:2])
    return f"; for example '{shape}'" if shape else ""


def _rule(fault: ErrorDetails) -> str:
    """Return the broken rule without the invalid value, which may be a secret."""
    match fault["type"], fault["loc"]:
        case "extra_forbidden", (section, key):
            return f"unknown setting{_suggestion(key, _SECTIONS[str(section)].model_fields)}"
        case "model_type", _:
            return "must hold settings, one per line"
        case _:
            return describe_rule(fault)


def _suggestion(name: object, known: Iterable[str]) -> str:
    prefix, separator, key = str(name).rpartition("__")
    if key.lower() in RENAMED:
        new_key = RENAMED[key.lower()]
        return f' (now "{prefix + separator + (new_key.upper() if separator else new_key)}")'
    nearest = find_closest(str(name), known, 0.5)
    return f' (did you mean "{nearest}"?)' if nearest else f" (there are {', '.join(known)})"
