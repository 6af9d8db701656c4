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
  // By id: the context of a session, whether it is a subagent's, its last prompt, and its queue.
  const sessions = new Map()

  const isSubagent = async (id) => {
    try {
      return Boolean((await client.session.get({ path: { id } })).data?.parentID)
    } catch {
      return false
    }
  }
  const open = (id) => {
    if (!sessions.has(id)) {
      const context = run({ hook_event_name: "SessionStart", session_id: id, cwd })
      sessions.set(id, { context, subagent: isSubagent(id), turn: "", queue: context })
    }
    return sessions.get(id)
  }
  // Send an event after the earlier ones of its session. opencode does not wait for it.
  const send = (id, name, read) => {
    const session = open(id)
    const turn = session.turn
    session.queue = session.queue.then(async () => {
      if (await session.subagent) return
      const fields = await read()
      await run({ hook_event_name: name, session_id: id, turn_id: turn, cwd, ...fields })
    })
  }
  const readAnswer = async (id) => {
    try {
      const { data } = await client.session.messages({ path: { id } })
      return { answer: textOf(data.filter((one) => one.info.role === "assistant").at(-1)?.parts) }
    } catch {
      return { answer: "" }
    }
  }

  return {
    "chat.message": async (input, output) => {
      const prompt = textOf(output.parts)
      open(input.sessionID).turn = output.message.id
      send(input.sessionID, "UserPromptSubmit", () => ({ prompt }))
    },
    "experimental.chat.system.transform": async (input, output) => {
      if (!input.sessionID) return
      const session = open(input.sessionID)
      const context = await session.context
      if (context.trim() && !(await session.subagent)) output.system.push(context)
    },
    "tool.execute.after": async (input, output) => {
      const exit = output.metadata?.exit ?? (output.metadata?.error ? 1 : 0)
      const result = {
        tool_name: input.tool,
        tool_use_id: input.callID,
        tool_input: input.args,
        tool_exit: exit,
        tool_output: String(output.output ?? ""),
      }
      send(input.sessionID, "PostToolUse", () => result)
    },
    event: async ({ event }) => {
      const id = event.properties?.sessionID ?? event.properties?.info?.id
      if (!sessions.has(id)) return
      if (event.type === "session.idle") send(id, "Stop", () => readAnswer(id))
      if (event.type === "session.deleted") {
        send(id, "SessionEnd", () => ({}))
        sessions.delete(id)
      }
    },
  }
}
