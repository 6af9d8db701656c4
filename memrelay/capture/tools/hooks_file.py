"""A file of settings in JSON that lists commands by event, which most tools have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memrelay.capture.tools.json_text import Node, insert, parse, remove
from memrelay.capture.tools.tool import HOOK_PATH, SettingsFault

HOOKS = "hooks"
EMPTY = "{}\n"
# A container and the index of one of its members.
Step = tuple[Node, int]


@dataclass(frozen=True, slots=True)
class HooksFile:
    """A tool with `{"hooks": {EVENT: [ENTRY]}}` in a JSON file of the user."""

    name: str
    title: str
    folder: str
    """The folder of the tool in the user's home: `.claude`."""
    file: str
    """The file in that folder."""
    events: Mapping[str, str]
    """The events, each with the matcher of its entry, "" for none."""
    variable: str = ""
    """The environment variable that names another folder."""
    variable_names_home: bool = False
    """Whether the variable names the parent of the folder."""
    timeout: int = 10
    """The timeout of the hook, in the unit of the tool."""
    grouped: bool = True
    """Whether an entry is a group with a matcher and a list of commands."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More fields of a command."""
    required: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the file must have."""
    lenient: bool = False
    """Whether the tool accepts comments and trailing commas."""
    switches: Mapping[tuple[str, ...], bool] = field(default_factory=dict)
    """Settings that turn hooks off: path to the value that does."""
    notes: tuple[str, ...] = ()
    """The next steps of the user."""

    def find_settings(self, environ: Mapping[str, str], home: Path) -> Path:
        """Return the user's file with the hooks."""
        named = environ.get(self.variable, "") if self.variable else ""
        if not named:
            return home / self.folder / self.file
        return Path(named).joinpath(*[self.folder] * self.variable_names_home, self.file)

    def add(self, text: str, command: str) -> str:
        """Return the settings with one entry per event. Raises SettingsFault."""
        text = text if text.strip() else EMPTY
        for key, value in self.required.items():
            root = self._parse(text)
            if root.find(key) is None:
                text = insert(text, root, value, key)
        for event, matcher in self.events.items():
            text = self._add_entry(text, event, self._make_entry(matcher, command))
        return text

    def remove(self, text: str) -> str:
        """Return the settings without our entries, and without lists that they leave empty."""
        if not text.strip():
            return text
        while True:
            place = self._find_entry(text)
            if place is None:
                return text
            text = remove(text, *place)

    def list_notes(self, settings: Path) -> list[str]:
        """Return the next steps, and which setting turns all hooks off."""
        text = settings.read_text(encoding="utf-8") if settings.exists() else ""
        root = self._parse(text if text.strip() else EMPTY)
        found = [
            f"{settings} has {'.'.join(path)} = {str(off).lower()}, so {self.title} runs no hooks; "
            "change it"
            for path, off in self.switches.items()
            if _read(root.value, path) is off
        ]
        return [*found, *self.notes]

    def _parse(self, text: str) -> Node:
        root = parse(text, lenient=self.lenient)
        hooks = root.find(HOOKS) if isinstance(root.value, dict) else None
        if not isinstance(root.value, dict):
            raise SettingsFault("the file must hold a JSON object; correct it", 1)
        if hooks is None:
            return root
        if not isinstance(hooks.node.value, dict):
            raise _wrong(text, hooks.start, '"hooks" must be an object of events')
        for event in hooks.node.members:
            if event.key in self.events and not isinstance(event.node.value, list):
                raise _wrong(text, event.start, f'"hooks.{event.key}" must be a list')
        return root

    def _make_entry(self, matcher: str, command: str) -> dict[str, Any]:
        if not self.grouped:
            return {"command": command, "timeout": self.timeout, **self.extra}
        hook = {"type": "command", "command": command, "timeout": self.timeout, **self.extra}
        return ({"matcher": matcher} if matcher else {}) | {HOOKS: [hook]}

    def _add_entry(self, text: str, event: str, entry: dict[str, Any]) -> str:
        root = self._parse(text)
        hooks = root.find(HOOKS)
        if hooks is None:
            return insert(text, root, {event: [entry]}, HOOKS)
        listed = hooks.node.find(event)
        if listed is None:
            return insert(text, hooks.node, [entry], event)
        return insert(text, listed.node, entry)

    def _find_entry(self, text: str) -> Step | None:
        """Return the next element to remove: our entry, or the container that it leaves empty."""
        root = self._parse(text)
        hooks = root.find(HOOKS)
        if hooks is None:
            return None
        for place, event in enumerate(hooks.node.members):
            for index, entry in enumerate(event.node.members):
                path = [(root, root.members.index(hooks)), (hooks.node, place), (event.node, index)]
                steps = _find_commands(entry.node)
                if steps is not None:
                    return _find_outermost([*path, *steps])
        return None


def _find_commands(entry: Node) -> list[Step] | None:
    """Return the step from an entry to our command, [] if the entry is it, None without one."""
    if not isinstance(entry.value, dict):
        return None
    if _is_ours(entry.value):
        return []
    group = entry.find(HOOKS)
    commands = group.node.members if group else ()
    ours = [index for index, one in enumerate(commands) if _is_ours(one.node.value)]
    return [(group.node, ours[0])] if group and ours else None


def _find_outermost(path: list[Step]) -> Step:
    """Return the outermost step whose element holds nothing but what the path leads to."""
    for container, index in reversed(path):
        if len(container.members) > 1:
            return container, index
    return path[0]


def _is_ours(command: Any) -> bool:
    return isinstance(command, dict) and HOOK_PATH in str(command.get("command", ""))


def _wrong(text: str, at: int, rule: str) -> SettingsFault:
    return SettingsFault(f"{rule}; correct it", text.count("\n", 0, at) + 1)


def _read(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
