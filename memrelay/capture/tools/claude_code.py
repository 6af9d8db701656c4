"""Claude Code: hooks in ~/.claude/settings.json."""

from memrelay.capture.tools.hooks_file import HooksFile

CLAUDE_CODE = HooksFile(
    name="claude-code",
    title="Claude Code",
    folder=".claude",
    file="settings.json",
    variable="CLAUDE_CONFIG_DIR",
    events={
        "SessionStart": "",
        "UserPromptSubmit": "",
        "PostToolUse": "*",
        "PostToolUseFailure": "*",
        "Stop": "",
        "SessionEnd": "",
    },
    switches={("disableAllHooks",): True},
)
