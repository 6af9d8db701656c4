"""opencode: a plugin file, which starts the hook with the events of a session."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memrelay.capture.tools.tool import HOOK_PATH, SettingsFault

PLUGIN = Path(__file__).with_name("opencode_plugin.js")
COMMAND = "COMMAND"
NOTE = (
    "restart opencode: it loads plugins when it starts, and the first start with one waits until "
    "opencode has installed its package for plugins from npm"
)


@dataclass(frozen=True, slots=True)
class _PluginFile:
    """A file that belongs to the hook alone."""

    name: str
    title: str

    def find_settings(self, environ: Mapping[str, str], home: Path) -> Path:
        """Return the plugin in the user's folder of opencode."""
        named = environ.get("OPENCODE_CONFIG_DIR", "")
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        return (Path(named) if named else config / "opencode") / "plugin" / "memrelay.js"

    def add(self, text: str, command: str) -> str:
        """Return the plugin. Raises SettingsFault: another file has its name."""
        if text.strip() and HOOK_PATH not in text:
            raise SettingsFault("this plugin is not that of Memrelay; rename it, then try again")
        return PLUGIN.read_text(encoding="utf-8").replace(f'"{COMMAND}"', json.dumps(command))

    def remove(self, text: str) -> str:
        """Return "": nothing is left of the plugin. Another file stays as it is."""
        return "" if HOOK_PATH in text else text

    def list_notes(self, settings: Path) -> list[str]:
        """Return what happens at the next start."""
        return [NOTE]


OPENCODE = _PluginFile("opencode", "opencode")
