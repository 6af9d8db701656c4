"""Gemini CLI: hooks in ~/.gemini/settings.json. Its timeouts are milliseconds."""

from memrelay.capture.tools.hooks_file import HooksFile

GEMINI_CLI = HooksFile(
    name="gemini-cli",
    title="Gemini CLI",
    folder=".gemini",
    file="settings.json",
    variable="GEMINI_CLI_HOME",
    variable_names_home=True,
    events={
        "SessionStart": "",
        "BeforeAgent": "",
        "AfterTool": "",
        "AfterAgent": "",
        "SessionEnd": "",
    },
    timeout=10_000,
    extra={"name": "memrelay"},
    lenient=True,
    switches={("hooksConfig", "enabled"): False},
)
