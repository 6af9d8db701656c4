"""Codex: hooks in ~/.codex/hooks.json. Codex runs them after the user has trusted them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from memrelay.capture.tools.hooks_file import HooksFile
from memrelay.capture.tools.tool import SettingsFault

CONFIG = "config.toml"
# The names of the switch, the current one first.
SWITCHES = ("hooks", "codex_hooks")


@dataclass(frozen=True, slots=True)
class _Codex(HooksFile):
    """Hooks next to a configuration in TOML, which can turn them off."""

    def list_notes(self, settings: Path) -> list[str]:
        """Return the next steps, and the switch in config.toml that turns hooks off."""
        config = settings.with_name(CONFIG)
        try:
            text = config.read_text(encoding="utf-8") if config.exists() else ""
            features = tomllib.loads(text).get("features", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsFault(f"{config}: {error}; correct it. Nothing was changed") from error
        is_off = isinstance(features, dict) and any(
            features.get(name) is False for name in SWITCHES
        )
        off = f"{config} has features.hooks = false, so Codex runs no hooks; remove it"
        return [*[off] * is_off, *HooksFile.list_notes(self, settings)]


CODEX = _Codex(
    name="codex",
    title="Codex",
    folder=".codex",
    file="hooks.json",
    variable="CODEX_HOME",
    events={"SessionStart": "", "UserPromptSubmit": "", "PostToolUse": "", "Stop": ""},
    notes=("Codex runs new hooks only after you trust them: start `codex` and enter /hooks",),
)
