"""Cursor: hooks in ~/.cursor/hooks.json, a list of commands per event."""

from memrelay.capture.tools.hooks_file import HooksFile

CURSOR = HooksFile(
    name="cursor",
    title="Cursor",
    folder=".cursor",
    file="hooks.json",
    events={
        "sessionStart": "",
        "beforeSubmitPrompt": "",
        "postToolUse": "",
        "postToolUseFailure": "",
        "afterAgentResponse": "",
        "sessionEnd": "",
    },
    grouped=False,
    required={"version": 1},
    lenient=True,
    notes=("restart Cursor: it reads its hooks when it starts",),
)
