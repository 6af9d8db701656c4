"""The records of `google_adk`: turns for events, and items for the states."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from google.adk.events.event import Event
from google.adk.sessions import Session, State
from pydantic import ValidationError

from memrelay.agents.calls import CallSteps
from memrelay.integrations.items import Json, list_items, make_item, path, read_value

USER = "user"
# Threads of one page.
PAGE = 1000
MAX_PATH = 256


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

    def check(self) -> None:
        """Raise ValueError if the names are too long."""
        if len(self.thread) > MAX_PATH:
            raise ValueError(
                f"the app, the user and the session have {len(self.thread)} characters together "
                f"(as {self.thread[:60]!r}...); use shorter names, at most {MAX_PATH} characters"
            )

    def place_of(self, key: str) -> tuple[str, str]:
        """Return the scope and the key of the record of a key of the state."""
        app, user, session = self.scopes
        if key.startswith(State.APP_PREFIX):
            return app, key.removeprefix(State.APP_PREFIX)
        if key.startswith(State.USER_PREFIX):
            return user, key.removeprefix(State.USER_PREFIX)
        return session, key


def make_state_items(at: Address, state: Mapping[str, Any]) -> list[Json]:
    """Return an item for each key of a state without temporary keys."""
    return [make_item(at.place_of(key), value) for key, value in without_temporary(state).items()]


def without_temporary(state: Mapping[str, Any]) -> Json:
    """Return a state without the keys that last for one invocation."""
    return {key: one for key, one in state.items() if not key.startswith(State.TEMP_PREFIX)}


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


def read_states(*scopes: Json) -> CallSteps[dict[str, Json]]:
    """Return scope -> state, of the scopes that meet one of the conditions."""
    states: dict[str, Json] = {}
    for record in (yield from list_items({"or": [{"scope": scope} for scope in scopes]})):
        states.setdefault(record["scope"], {})[record["key"]] = read_value(record)
    return states


def read_update_times(*names: str) -> CallSteps[dict[str, float]]:
    """Return thread -> the time of its newest event, Unix seconds, of an app, or of a user."""
    times: dict[str, float] = {}
    prefix = path("session", *names) + "/"
    after: str | None = prefix
    while after is not None and after.startswith(prefix):
        page = yield "turns.threads", {"after": after, "limit": PAGE}
        for one in page["items"]:
            times[one["thread"]] = datetime.fromisoformat(one["last_at"]).timestamp()
        after = page["after"]
    return times
