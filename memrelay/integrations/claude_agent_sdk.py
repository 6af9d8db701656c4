"""Tools, hooks and sessions for the Claude Agent SDK. They need the extra `claude-agent-sdk`."""

import hashlib
from inspect import getdoc
from typing import Any, Literal

import orjson

from memrelay.agents.calls import make_calls
from memrelay.installation import missing_framework

try:
    from claude_agent_sdk import (
        HookContext,
        HookInput,
        HookJSONOutput,
        HookMatcher,
        McpSdkServerConfig,
        SdkMcpTool,
        ToolAnnotations,
        create_sdk_mcp_server,
    )
except ImportError as error:
    raise ImportError(missing_framework("the Claude Agent SDK", "claude-agent-sdk")) from error

from memrelay.integrations.claude_agent_sdk_sessions import MemrelaySessionStore
from memrelay.integrations.conversation import Conversation, Json
from memrelay.integrations.memory_tools import MemoryTools
from memrelay.integrations.recall import Recall

__all__ = ["MemrelaySessionStore", "memory_hooks", "memory_server"]

SERVER = "memory"
Event = Literal["UserPromptSubmit", "PostToolUse", "Stop"]
# Characters of the input and of the result of a tool.
MAX_RESULT = 2_000


def memory_server(
    call: Any, *, user: str = "", agent: str = "", uid: str = "", store: str = ""
) -> McpSdkServerConfig:
    """Return an MCP server in this process with the tools `remember` and `search`.

    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `user` is the person whose memory it is, by default everyone's. `agent` is the program.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    Pass it as `mcp_servers={"memory": memory_server(...)}`, and allow `mcp__memory__remember` and
    `mcp__memory__search`. Raises TypeError for another `call`.
    """
    memory = MemoryTools(call, user=user, agent=agent, uid=uid, store=store)

    async def remember(arguments: Json) -> Json:
        return _answer(await memory.remember(arguments["fact"]))

    async def search(arguments: Json) -> Json:
        return _answer(await memory.search(arguments["query"]))

    reads = ToolAnnotations(readOnlyHint=True)
    tools = [
        SdkMcpTool("remember", getdoc(memory.remember) or "", {"fact": str}, remember),
        SdkMcpTool("search", getdoc(memory.search) or "", {"query": str}, search, reads),
    ]
    return create_sdk_mcp_server(SERVER, tools=tools)


def _answer(text: str) -> Json:
    content = [{"type": "text", "text": text}]
    return {"content": content, "is_error": text.startswith("Error: ")}


def memory_hooks(
    call: Any,
    *,
    user: str = "",
    agent: str = "claude",
    recall: int = 5,
    tools: bool = False,
    uid: str = "",
    store: str = "",
) -> dict[Event, list[HookMatcher]]:
    """Return hooks that keep prompts and answers, and add memories to prompts.

    - `call`, `user`, `agent`, `uid` and `store` are those of `memory_server`. The thread of the
      turns is the id of the session.
    - `recall` is how many facts and turns of other sessions a prompt gets, 0 for none.
    - `tools` also keeps the calls of tools with the beginnings of their inputs and results.

    Pass them as `hooks=memory_hooks(...)`. Raises TypeError for another `call`.
    """
    hooks = _Hooks(call, user=user, agent=agent, recall=recall, uid=uid, store=store)
    matchers: dict[Event, list[HookMatcher]] = {
        "UserPromptSubmit": [HookMatcher(hooks=[hooks.keep_prompt])],
        "Stop": [HookMatcher(hooks=[hooks.keep_answer])],
    }
    if tools:
        matchers["PostToolUse"] = [HookMatcher(hooks=[hooks.keep_result])]
    return matchers


class _Hooks:
    """The callbacks. A failure ends up in the log of the SDK, and the session goes on."""

    def __init__(self, call: Any, *, recall: int, **where: str) -> None:
        make_calls(call, uid=where["uid"], store=where["store"])
        self._call, self._where = call, where
        recalled = {name: value for name, value in where.items() if name != "agent"}
        self._recall = Recall(call, limit=recall, **recalled) if recall else None

    async def keep_prompt(
        self, event: HookInput, tool_use_id: str | None, context: HookContext
    ) -> HookJSONOutput:
        """Keep a prompt, and return memories that fit to it."""
        session, prompt = event["session_id"], event["prompt"]
        found = ""
        if self._recall is not None:
            found = await self._recall.calls.arun_steps(self._recall.find(prompt, session))
        await self._keep(session, {"content": prompt, "id": event.get("prompt_id", "")})
        if not found:
            return {}
        added = {"hookEventName": "UserPromptSubmit", "additionalContext": found}
        return {"hookSpecificOutput": added}

    async def keep_answer(
        self, event: HookInput, tool_use_id: str | None, context: HookContext
    ) -> HookJSONOutput:
        """Keep the last message of an answer."""
        text = event.get("last_assistant_message", "")
        ident = _make_id(event.get("prompt_id", ""), text)
        await self._keep(event["session_id"], {"role": "assistant", "content": text, "id": ident})
        return {}

    async def keep_result(
        self, event: HookInput, tool_use_id: str | None, context: HookContext
    ) -> HookJSONOutput:
        """Keep a call of a tool."""
        parts = [event["tool_input"], event["tool_response"]]
        texts = [one if isinstance(one, str) else orjson.dumps(one).decode() for one in parts]
        message = {
            "role": "tool",
            "name": event["tool_name"],
            "content": "\n".join(text[:MAX_RESULT] for text in texts),
            "id": event["tool_use_id"],
        }
        await self._keep(event["session_id"], message)
        return {}

    async def _keep(self, session: str, message: Json) -> None:
        if message["content"].strip():
            thread = Conversation(self._call, session, **self._where)
            await thread.calls.arun_steps(thread.add([message]))


def _make_id(prompt: str, text: str) -> str:
    """Return the id of an answer, which is the same for the same prompt and text."""
    return f"{prompt}:{hashlib.sha256(text.encode()).hexdigest()[:16]}" if prompt else ""
