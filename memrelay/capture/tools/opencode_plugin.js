// Written by `memrelay capture install opencode`, removed by `memrelay capture uninstall opencode`.
// Sends the prompts, answers and tool results of a session to the hook of Memrelay, and gives a new
// session the context of its project.
import { spawn } from "node:child_process"

// A shell command that ends with memrelay/capture/hook.py opencode.
const HOOK = "COMMAND"
const TIMEOUT_MS = 10_000

// Run the hook with an event, and return what it prints. It never fails.
const run = (event) =>
  new Promise((resolve) => {
    let printed = ""
    const child = spawn("sh", ["-c", HOOK], { stdio: ["pipe", "pipe", "ignore"] })
    const timer = setTimeout(() => child.kill(), TIMEOUT_MS)
    const end = () => {
      clearTimeout(timer)
      resolve(printed)
    }
    child.on("error", end)
    child.on("close", end)
    child.stdin.on("error", () => {})
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => {
      printed += text
    })
    child.stdin.end(JSON.stringify(event))
  })

const textOf = (parts) =>
  (parts ?? [])
    .filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
    .map((part) => part.text)
    .join("\n")

export const Memrelay = async ({ client, directory, worktree }) => {
  const cwd = directory || worktree
  // By session: the context, the id of the last prompt, and whether it belongs to a subagent.
  const sessions = new Map()

  const open = (id) => {
    if (!sessions.has(id)) {
      const context = run({ hook_event_name: "SessionStart", session_id: id, cwd })
      sessions.set(id, { context, turn: "", child: isChild(id) })
    }
    return sessions.get(id)
  }
  const isChild = async (id) => {
    try {
      return Boolean((await client.session.get({ path: { id } })).data?.parentID)
    } catch {
      return false
    }
  }
  const lastAnswer = async (id) => {
    try {
      const { data } = await client.session.messages({ path: { id } })
      return (data ?? []).filter((one) => one.info.role === "assistant").at(-1)
    } catch {
      return undefined
    }
  }

  return {
    "chat.message": async (input, output) => {
      const session = open(input.sessionID)
      if (await session.child) return
      session.turn = output.message.id
      await run({
        hook_event_name: "UserPromptSubmit",
        session_id: input.sessionID,
        turn_id: session.turn,
        cwd,
        prompt: textOf(output.parts),
      })
    },
    "experimental.chat.system.transform": async (input, output) => {
      if (!input.sessionID) return
      const context = await open(input.sessionID).context
      if (context.trim()) output.system.push(context)
    },
    "tool.execute.after": async (input, output) => {
      const session = open(input.sessionID)
      if (await session.child) return
      const failed = output.metadata?.exit ?? output.metadata?.error
      await run({
        hook_event_name: "PostToolUse",
        session_id: input.sessionID,
        turn_id: session.turn,
        cwd,
        tool_name: input.tool,
        tool_input: input.args,
        tool_exit: typeof failed === "number" ? failed : failed ? 1 : 0,
        tool_output: String(output.output ?? ""),
      })
    },
    event: async ({ event }) => {
      const id = event.properties?.sessionID ?? event.properties?.info?.id
      const session = sessions.get(id)
      if (!session) return
      if (event.type === "session.deleted") {
        sessions.delete(id)
        await run({ hook_event_name: "SessionEnd", session_id: id, cwd })
      }
      if (event.type !== "session.idle" || (await session.child)) return
      const answer = await lastAnswer(id)
      await run({
        hook_event_name: "Stop",
        session_id: id,
        turn_id: session.turn,
        cwd,
        answer: textOf(answer?.parts),
      })
    },
  }
}
