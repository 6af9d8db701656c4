"""The plugin for opencode, run by Node: which events reach the hook."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from memrelay.capture.tools import TOOLS
from tests.support.npm import NODE

# A hook that notes its events, and has a context for each session.
HOOK = """
import sys
event = sys.stdin.read()
open({log!r}, "a").write(event + "\\n")
print("the context" * ("SessionStart" in event), end="")
# memrelay/capture/hook.py
"""
DRIVER = """
const { Memrelay } = await import(process.argv[1])
const parts = [{ type: "text", text: "I like tea" }, { type: "text", text: "x", synthetic: true }]
const answers = [{ info: { role: "assistant" }, parts: [{ type: "text", text: "noted" }] }]
const client = { session: {
  get: async ({ path }) => ({ data: path.id === "sub" ? { parentID: "main" } : {} }),
  messages: async () => ({ data: answers }),
} }
const hooks = await Memrelay({ client, directory: "/project" })
for (const sessionID of ["main", "sub"]) {
  await hooks["chat.message"]({ sessionID }, { message: { id: "m1" }, parts })
  const system = []
  await hooks["experimental.chat.system.transform"]({ sessionID }, { system })
  console.log(JSON.stringify(system))
  await hooks["tool.execute.after"](
    { sessionID, tool: "bash", callID: "c1", args: { command: "ls" } },
    { output: "a file", metadata: { exit: 2 } },
  )
  await hooks.event({ event: { type: "session.idle", properties: { sessionID } } })
  await hooks.event({ event: { type: "session.deleted", properties: { info: { id: sessionID } } } })
}
"""


def test_events_reach_the_hook_in_order_and_those_of_subagents_do_not(tmp_path: Path) -> None:
    log, hook, plugin = tmp_path / "log", tmp_path / "hook.py", tmp_path / "memrelay.mjs"
    hook.write_text(HOOK.format(log=str(log)))
    command = shlex.join([sys.executable, "-I", "-S", str(hook)])
    plugin.write_text(TOOLS["opencode"].add("", command))

    ended = subprocess.run(
        [NODE, "--input-type=module", "-e", DRIVER, str(plugin)],
        capture_output=True,
        check=True,
        timeout=60,
    )

    assert ended.stdout.decode().splitlines() == ['["the context"]', "[]"], ended.stderr
    events: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    main = [one for one in events if one["session_id"] == "main"]
    assert [one["hook_event_name"] for one in main] == [
        *("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd")
    ]
    assert {one["cwd"] for one in main} == {"/project"}
    assert (main[1]["prompt"], main[1]["turn_id"], main[3]["answer"]) == (
        "I like tea",
        "m1",
        "noted",
    )
    assert (main[2]["tool_name"], main[2]["tool_exit"], main[2]["tool_output"]) == (
        "bash",
        2,
        "a file",
    )
    assert {one["hook_event_name"] for one in events if one["session_id"] == "sub"} == {
        "SessionStart"
    }
