"""The configuration of capture, and the files that the hook and the sender share.

The hook (hook.py) reads the same files without importing Memrelay.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from memrelay.capture.secret_patterns import list_patterns
from memrelay.installation import PROGRAM

TOOLS = ("claude-code", "codex", "gemini-cli", "cursor", "opencode")
# Copied next to the hook: the checks of found values, which need only the standard library.
CHECKS = Path(__file__).parent.parent / "memory/models/policies/patterns/checks.py"
HOOK = Path(__file__).parent / "hook.py"
# The tools start this. Python keeps the compiled form of a module, but not of a script, and
# compiling the hook takes longer than all that it does.
START = """\
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from memrelay_hook import main

main()
"""
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


class BadConfiguration(ValueError):
    """The configuration is missing or invalid. The text has the fix."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The two folders of capture: `config` has the settings and the hook, `state` the spool."""

    config: Path
    state: Path

    @property
    def configuration(self) -> Path:
        """The settings, as JSON."""
        return self.config / "config.json"

    @property
    def key(self) -> Path:
        """The API key."""
        return self.config / "key"

    @property
    def hook(self) -> Path:
        """The script that the tools start."""
        return self.config / "hook.py"

    @property
    def hook_module(self) -> Path:
        """The copy of the hook that the script loads."""
        return self.config / "memrelay_hook.py"

    @property
    def patterns(self) -> Path:
        """The patterns of secrets, as JSON."""
        return self.config / "patterns.json"

    @property
    def checks(self) -> Path:
        """The copy of the checks of found secrets."""
        return self.config / "checks.py"

    @property
    def spool(self) -> Path:
        """The folder with the events that are not delivered yet."""
        return self.state / "spool"

    @property
    def log(self) -> Path:
        """The log of the hook and the sender."""
        return self.state / "capture.log"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of capture. Either `url` or `file` is given."""

    url: str = ""
    """The address of a server, such as http://127.0.0.1:8765."""
    file: str = ""
    """The absolute path of a store file."""
    pipeline: str = ""
    """The uid of the pipeline, with `url`."""
    store: str = ""
    """The alias of the store; by default that of the pipeline."""
    user: str = ""
    """The user whose memory it is."""
    ignore: tuple[str, ...] = ()
    """Patterns of folders and files that are never captured, as in .gitignore."""
    tool_results: bool = False
    """Whether whole results of tools are captured, not only their first 200 characters."""
    python: str = ""
    """The absolute path of an interpreter that can import memrelay."""


def find_paths(environ: Mapping[str, str], home: Path) -> Paths:
    """Return the folders of capture by the variables XDG_CONFIG_HOME and XDG_STATE_HOME.

    Relative ones are ignored, as their specification demands.
    """
    config, state = (
        given if (given := Path(environ.get(name, ""))).is_absolute() else home / default
        for name, default in (("XDG_CONFIG_HOME", ".config"), ("XDG_STATE_HOME", ".local/state"))
    )
    return Paths(config / "memrelay/capture", state / "memrelay/capture")


def load(paths: Paths) -> Configuration:
    """Return the saved configuration. Raises BadConfiguration."""
    try:
        values = json.loads(paths.configuration.read_bytes())
    except FileNotFoundError as error:
        raise BadConfiguration(
            f"{paths.configuration} does not exist; run `{PROGRAM} capture install TOOL`"
        ) from error
    except (OSError, ValueError) as error:
        raise BadConfiguration(f"{paths.configuration} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise BadConfiguration(f"{paths.configuration} must be a JSON object")
    return check(values, str(paths.configuration))


def check(values: Mapping[str, Any], name: str) -> Configuration:
    """Return the configuration in a JSON object. Raises BadConfiguration."""
    known = {field.name for field in fields(Configuration)}
    if unknown := sorted(values.keys() - known):
        raise BadConfiguration(
            f"{name}: unknown key {unknown[0]!r}; known keys: {', '.join(sorted(known))}"
        )
    ignore = values.get("ignore", ())
    if not isinstance(ignore, list | tuple) or not all(isinstance(one, str) for one in ignore):
        raise BadConfiguration(f"{name}: `ignore` must be a list of patterns")
    if not isinstance(values.get("tool_results", False), bool):
        raise BadConfiguration(f"{name}: `tool_results` must be true or false")
    for key in known - {"ignore", "tool_results"}:
        if not isinstance(values.get(key, ""), str):
            raise BadConfiguration(f"{name}: `{key}` must be a text")
    made = Configuration(**{**values, "ignore": tuple(ignore)})
    if bool(made.url) == bool(made.file):
        raise BadConfiguration(f"{name}: give either `url` or `file`")
    if made.url and (not made.url.startswith(("http://", "https://")) or not made.pipeline):
        raise BadConfiguration(
            f"{name}: `url` must be like http://127.0.0.1:8765, and `pipeline` the uid of its "
            "pipeline"
        )
    return made


def save(paths: Paths, configuration: Configuration, key: str | None = None) -> None:
    """Write the configuration, and the key if one is given. Only the user can read both."""
    check(asdict(configuration), "the configuration")
    values = {name: value for name, value in asdict(configuration).items() if value}
    make_private_folder(paths.config)
    write_private(paths.configuration, json.dumps(values, indent=2).encode() + b"\n")
    if key is not None:
        write_private(paths.key, key.encode() + b"\n")


def read_key(paths: Paths) -> str:
    """Return the API key, "" if there is none."""
    try:
        return paths.key.read_text().strip()
    except FileNotFoundError:
        return ""


def copy_hook(paths: Paths) -> Path:
    """Copy the hook, the patterns of secrets and their checks to the folder of the configuration.

    Return the path of the hook. Without the patterns, the hook captures nothing.
    """
    make_private_folder(paths.config)
    write_private(paths.patterns, json.dumps(list_patterns()).encode() + b"\n")
    write_private(paths.checks, CHECKS.read_bytes())
    write_private(paths.hook_module, HOOK.read_bytes())
    write_private(paths.hook, START.encode())
    return paths.hook


def remove_hook(paths: Paths) -> None:
    """Delete what `copy_hook` has written, and the compiled form of the hook."""
    for path in (paths.hook, paths.hook_module, paths.patterns, paths.checks):
        path.unlink(missing_ok=True)
    shutil.rmtree(paths.config / "__pycache__", ignore_errors=True)


def make_private_folder(folder: Path) -> None:
    """Make a folder that only the user can enter."""
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    folder.chmod(PRIVATE_FOLDER)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step. Only the user can read it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
