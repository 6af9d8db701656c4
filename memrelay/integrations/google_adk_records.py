"""The records of `google_adk`: turns for events, and items for the states."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from google.adk.events.event import Event
from google.adk.sessions import Session, State
from pydantic import ValidationError

from memrelay.agents.calls import Calls

Json = dict[str, Any]
KIND = "memory.item"
USER = "user"
# Records of one call.
PAGE = 1000
# A larger value is the text of its record.
MAX_DATA_BYTES = 48 << 10


class Address(NamedTuple):
    """A session."""

    app: str
    user: str
    session: str

    @property
    def thread(self) -> str:
        """The thread of the events, which is also the scope of the state."""
        return path("session", *self)

    @property
    def scopes(self) -> tuple[str, str, str]:
        """The scopes of the states of the app, the user and the session."""
        return path("app", self.app), path(USER, self.app, self.user), self.thread

    @property
    def place(self) -> tuple[str, str]:
        """The scope and the key of the record of the session."""
        return path("sessions", self.app), path(self.user, self.session)

    def place_of(self, key: str) -> tuple[str, str]:
        """Return the scope and the key of the record of a key of the state."""
        app, user, session = self.scopes
        if key.startswith(State.APP_PREFIX):
            return app, key.removeprefix(State.APP_PREFIX)
        if key.startswith(State.USER_PREFIX):
            return user, key.removeprefix(State.USER_PREFIX)
        return session, key


def path(*parts: str) -> str:
    """Join names, so that no two lists of names have the same path."""
    return "/".join(quote(part, safe=" @.:+") for part in parts)


def is_below(*parts: str) -> Json:
    """Return the condition of paths that continue a path. `0` comes after `/`."""
    return {"gte": path(*parts) + "/", "lt": path(*parts) + "0"}


def make_item(place: tuple[str, str], value: Any, **fields: str) -> Json:
    """Return an item of `records.put` with a value as JSON text, and fields for filters."""
    scope, key = place
    text = json.dumps(value)
    if len(text) > MAX_DATA_BYTES:
        return {"scope": scope, "key": key, "data": {"value": fields}, "content": text}
    return {"scope": scope, "key": key, "data": {"value": {"json": text, **fields}}}


def make_state_items(at: Address, state: Mapping[str, Any]) -> list[Json]:
    """Return an item for each key of a state without temporary keys."""
    return [make_item(at.place_of(key), value) for key, value in without_temporary(state).items()]


def without_temporary(state: Mapping[str, Any]) -> Json:
    """Return a state without the keys that last for one invocation."""
    return {key: one for key, one in state.items() if not key.startswith(State.TEMP_PREFIX)}


def read_value(record: Json) -> Any:
    """Return the value of an item."""
    value = record["data"]["value"]
    return json.loads(value["json"] if "json" in value else record["content"])


def make_message(event: Json) -> Json:
    """Return an event, as JSON, as a message of `turns.add`."""
    parts = event.get("content", {}).get("parts") or []
    author = event.get("author", "")
    return {
        "role": USER if author == USER else "assistant",
        "content": "\n".join(part["text"] for part in parts if part.get("text")),
        "name": "" if author == USER else author,
        "id": event["id"],
        "item": event,
        "at": datetime.fromtimestamp(event["timestamp"], UTC).isoformat(),
    }


def make_event(turn: Json) -> Event:
    """Return the event of a turn. Raises ValueError."""
    try:
        return Event.model_validate(turn["item"])
    except ValidationError as error:
        raise ValueError(
            f"the event {turn['id']} (turn {turn['guid']}) is unknown to this version of "
            f"google-adk; install the version that wrote it: {error}"
        ) from error


def make_session(
    at: Address, states: Mapping[str, Json], updated_at: float, events: Sequence[Event] = ()
) -> Session:
    """Return a session with the states of its scopes."""
    app, user, session = (states.get(scope, {}) for scope in at.scopes)
    state = dict(session)
    state |= {State.APP_PREFIX + key: value for key, value in app.items()}
    state |= {State.USER_PREFIX + key: value for key, value in user.items()}
    return Session(
        app_name=at.app,
        user_id=at.user,
        id=at.session,
        state=state,
        events=[*events],
        last_update_time=updated_at,
    )


class Records:
    """Reads and removes the items of `calls`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def list(self, where: Json) -> list[Json]:
        """Return the items that pass a filter."""
        records = []
        cursor: str | None = ""
        while cursor is not None:
            query = {"kind": KIND, "filter": where, "limit": PAGE, "cursor": cursor}
            page = await self._calls.arun("records.list", query)
            records += page["items"]
            cursor = page["next_cursor"]
        return records

    async def states(self, *scopes: Json) -> dict[str, Json]:
        """Return scope -> state, of the scopes that meet one of the conditions."""
        states: dict[str, Json] = {}
        for record in await self.list({"or": [{"scope": scope} for scope in scopes]}):
            states.setdefault(record["scope"], {})[record["key"]] = read_value(record)
        return states

    async def put(self, items: Sequence[Json]) -> None:
        """Write items in one transaction."""
        await self._calls.arun("records.put", {"items": [*items]})

    async def remove(self, scope: str, keys: Sequence[str]) -> None:
        """Remove items."""
        for start in range(0, len(keys), PAGE):
            some = {"scope": scope, "keys": [*keys[start : start + PAGE]]}
            await self._calls.arun("records.remove", some)

    async def update_times(self, *names: str) -> dict[str, float]:
        """Return thread -> the time of its newest event, Unix seconds, of an app, or of a user."""
        times: dict[str, float] = {}
        prefix = path("session", *names) + "/"
        after: str | None = prefix
        while after is not None and after.startswith(prefix):
            page = await self._calls.arun("turns.threads", {"after": after, "limit": PAGE})
            for one in page["items"]:
                times[one["thread"]] = datetime.fromisoformat(one["last_at"]).timestamp()
            after = page["after"]
        return times
