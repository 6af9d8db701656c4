"""The session store of `claude_agent_sdk`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
)

from memrelay.agents.calls import make_calls
from memrelay.integrations.conversation import TRANSCRIPT, Conversation, Json

# Threads of one page.
PAGE = 1000
SEPARATOR = "/"


class MemrelaySessionStore(SessionStore):
    """The transcripts of sessions, to resume them on another machine.

    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `user` is the person whose sessions they are.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    An entry is a turn of kind `transcript`. Pass it as `session_store=MemrelaySessionStore(...)`.
    """

    def __init__(self, call: Any, *, user: str = "", uid: str = "", store: str = "") -> None:
        self._calls = make_calls(call, uid=uid, store=store)
        self._call, self._where = call, {"uid": uid, "store": store}
        self._of_user = {"user": user, "kind": TRANSCRIPT}

    async def append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        """Add entries. An entry whose `uuid` is there is skipped."""
        thread = self._thread(_path(**key))
        await self._calls.arun_steps(thread.add([_make_message(entry) for entry in entries]))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript, or None if there are none."""
        turns = await self._calls.arun_steps(self._thread(_path(**key)).list())
        return [turn["item"] for turn in turns] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project with the times of their newest entries, Unix ms."""
        found = await self._threads(_path(project_key, ""))
        return [
            {"session_id": unquote(name), "mtime": at}
            for name, at in found
            if SEPARATOR not in name
        ]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the transcripts below that of a session, such as those of subagents."""
        return [name for name, _ in await self._threads(_path(**key, subpath=""))]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript, and all below it."""
        path = _path(**key)
        below = await self._threads(path + SEPARATOR) if "subpath" not in key else []
        for name in (*(path + SEPARATOR + name for name, _ in below), path):
            await self._calls.arun_steps(self._thread(name).clear())

    def _thread(self, path: str) -> Conversation:
        return Conversation(self._call, path, **self._of_user, **self._where)

    async def _threads(self, prefix: str) -> list[tuple[str, int]]:
        """Return the threads with a prefix: the rests of their names, and their times, Unix ms."""
        found: list[tuple[str, int]] = []
        after: str | None = prefix
        while after is not None and after.startswith(prefix):
            query = {**self._of_user, "after": after, "limit": PAGE}
            page = await self._calls.arun("turns.threads", query)
            for one in page["items"]:
                if one["thread"].startswith(prefix):
                    at = datetime.fromisoformat(one["last_at"]).timestamp()
                    found.append((one["thread"].removeprefix(prefix), round(at * 1000)))
            after = page["after"]
        return found


def _path(project_key: str, session_id: str, subpath: str | None = None) -> str:
    """Return the thread of a transcript."""
    names = [quote(project_key, safe=""), quote(session_id, safe="")]
    return SEPARATOR.join(names if subpath is None else [*names, subpath])


def _make_message(entry: SessionStoreEntry) -> Json:
    message = entry.get("message")
    return {
        "role": entry["type"],
        "content": message.get("content") if isinstance(message, dict) else "",
        "id": entry.get("uuid", ""),
        "item": entry,
    }
