"""Sessions and memory of Google's Agent Development Kit. They need the extra `google-adk`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pydantic_core import to_jsonable_python

from memrelay.agents.calls import CallSteps, Result, make_calls
from memrelay.installation import missing_framework

try:
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.sessions import BaseSessionService, Session
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
except ImportError as error:
    raise ImportError(missing_framework("Google ADK", "google-adk")) from error

from memrelay.integrations.conversation import Conversation
from memrelay.integrations.google_adk_memory import MemrelayMemoryService
from memrelay.integrations.google_adk_records import (
    USER,
    Address,
    make_event,
    make_message,
    make_session,
    make_state_items,
    read_states,
    read_update_times,
    without_temporary,
)
from memrelay.integrations.items import (
    Json,
    is_below,
    list_items,
    make_item,
    path,
    read_value,
    remove_items,
)

__all__ = ["MemrelayMemoryService", "MemrelaySessionService"]

# Ends the key of the newest event that changes the state, next to the key of its session.
PENDING = "/pending"


class MemrelaySessionService(BaseSessionService):
    """Sessions with their events and states, in a store of Memrelay.

    - `call` executes operations: a store from `open_store`, or a client from `connect` or
      `connect_sync`.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id; an
      embedded store ignores it.

    After a crash, an event and its changes of the state are there, or both are missing.
    """

    def __init__(self, call: Any, *, uid: str = "", store: str = "memories") -> None:
        self._calls = make_calls(call, uid=uid, store=store)
        self._where = {"call": call, "uid": uid, "store": store}

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: Json | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. Raises AlreadyExistsError, or ValueError if its names are too long."""
        at = Address(app_name, user_id, (session_id or "").strip() or str(uuid4()))
        at.check()
        if await self._find(at):
            raise AlreadyExistsError(f"The session {at.session!r} of {user_id!r} already exists.")
        created_at = datetime.now(UTC).timestamp()
        head = make_item(at.place, {"session": at.session, "at": created_at}, user=user_id)
        delta = to_jsonable_python(state or {}, serialize_unknown=True)
        await self._put([*make_state_items(at, delta), head])
        states = await self._run(read_states({"in": [*at.scopes]}))
        return make_session(at, states, created_at)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its events, oldest first, or None."""
        at = Address(app_name, user_id, session_id.strip())
        if not (found := await self._find(at)):
            return None
        await self._complete(at, found)
        config = config or GetSessionConfig()
        events = await self._events(at, config.num_recent_events)
        newest = events or await self._events(at, 1)
        updated_at = newest[-1].timestamp if newest else found[""]["at"]
        if (since := config.after_timestamp) is not None:
            old = [n for n, event in enumerate(events) if event.timestamp < since]
            events = events[old[-1] + 1 :] if old else events
        states = await self._run(read_states({"in": [*at.scopes]}))
        return make_session(at, states, updated_at, events)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of an app, or of one user, without events. The newest is the last."""
        names = (app_name,) if user_id is None else (app_name, user_id)
        user = {"exists": True} if user_id is None else {"eq": user_id}
        where = {"scope": {"eq": path("sessions", app_name)}, "data.value.user": user}
        heads = await self._run(list_items(where))
        users = is_below(path(USER, app_name)) if user_id is None else {"eq": path(USER, *names)}
        scopes = ({"eq": path("app", app_name)}, users, is_below(path("session", *names)))
        states = await self._run(read_states(*scopes))
        times = await self._run(read_update_times(*names))
        sessions = []
        for record in heads:
            head = read_value(record)
            at = Address(app_name, record["data"]["value"]["user"], head["session"])
            sessions.append(make_session(at, states, times.get(at.thread, head["at"])))
        sessions.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events and its state. Other states stay."""
        at = Address(app_name, user_id, session_id.strip())
        scope, key = at.place
        await self._run(remove_items(scope, [key + PENDING]))
        await self._run(self._thread(at).clear())
        state = await self._run(list_items({"scope": {"eq": at.thread}}))
        await self._run(remove_items(at.thread, [record["key"] for record in state]))
        await self._run(remove_items(scope, [key]))

    async def get_user_state(self, *, app_name: str, user_id: str) -> Json:
        """Return the state of a user, without the prefix `user:`."""
        scope = path(USER, app_name, user_id)
        return (await self._run(read_states({"eq": scope}))).get(scope, {})

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event and its changes of the state. An event that is there is not added again.

        Raises SessionNotFoundError.
        """
        if event.partial:
            return event
        at = Address(session.app_name, session.user_id, session.id)
        if not (found := await self._find(at)):
            raise SessionNotFoundError(f"The session {at.session!r} of {at.user!r} does not exist.")
        known = {one.id for one in session.events}
        if event.id in known:
            return event
        if PENDING in found and found[PENDING]["id"] not in known:
            await self._complete(at, found)
        stored = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        delta = to_jsonable_python(event.actions.state_delta, serialize_unknown=True)
        stored["actions"]["stateDelta"] = delta = without_temporary(delta)
        if delta:
            scope, key = at.place
            pending = make_item((scope, key + PENDING), stored)
            await self._put([*make_state_items(at, delta), pending])
        await self._run(self._thread(at).add([make_message(stored)]))
        event = await super().append_event(session, event)
        session.last_update_time = event.timestamp
        return event

    async def _find(self, at: Address) -> dict[str, Json]:
        """Return the head of a session as "", and its newest event with changes as PENDING."""
        scope, key = at.place
        places = {"scope": scope, "keys": [key, key + PENDING]}
        found = await self._calls.arun("records.find", places)
        values = {one["key"].removeprefix(key): read_value(one) for one in found["items"]}
        return values if "" in values else {}

    async def _complete(self, at: Address, found: Mapping[str, Json]) -> None:
        """Add the event of an interrupted call, whose changes of the state are stored."""
        if (event := found.get(PENDING)) is None:
            return
        same = {"thread": {"eq": at.thread}, "key": {"eq": event["id"]}}
        page = await self._calls.arun("records.list", {"filter": same, "limit": 1})
        if not page["items"]:
            await self._run(self._thread(at).add([make_message(event)]))

    async def _events(self, at: Address, limit: int | None) -> list[Event]:
        turns = await self._run(self._thread(at).list(limit))
        return [make_event(turn) for turn in turns]

    async def _put(self, items: Sequence[Json]) -> None:
        """Write items in one transaction."""
        await self._calls.arun("records.put", {"items": [*items]})

    async def _run(self, steps: CallSteps[Result]) -> Result:
        return await self._calls.arun_steps(steps)

    def _thread(self, at: Address) -> Conversation:
        return Conversation(thread=at.thread, user=at.user, agent=at.app, **self._where)
