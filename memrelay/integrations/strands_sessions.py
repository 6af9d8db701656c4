"""The session repository of memrelay.integrations.strands."""

from typing import Any

from strands.multiagent import MultiAgentBase
from strands.session import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from memrelay.agents.calls import make_calls
from memrelay.errors import Refused
from memrelay.integrations.conversation import Conversation, Json
from memrelay.integrations.documents import Documents

# Between a session and an agent in the name of a thread. Strands' own managers refuse it in ids.
SEPARATOR = "/"
SESSION, AGENT, MULTI_AGENT = "session", "agent", "multi_agent"
NUMBER = "message_id"


class MemrelaySessionRepository(SessionRepository):
    """Sessions: the messages of each agent as turns, and states as documents.

    - `call` is a store of `open_store`, or a client of `connect_sync`.
    - `user` is the person whose memory it is: sessions of other users with the same id are others.
    - `uid` is the pipeline of a client, by default its only one. `store` has the messages.

    The thread of the turns is `SESSION/AGENT`. The methods raise ValueError for an id with a slash.
    Raises TypeError for another `call`.
    """

    def __init__(self, call: Any, *, user: str = "", uid: str = "", store: str = "") -> None:
        self._call, self._user, self._uid, self._store = call, user, uid, store
        self._calls = make_calls(call, uid=uid, store=store)
        self._run = self._calls.run_steps

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Keep a new session. Raises SessionException if it exists."""
        if self.read_session(session.session_id) is not None:
            raise SessionException(f"the session {session.session_id} exists; read it")
        self._write(session.session_id, SESSION, session.to_dict())
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session, or None."""
        found = self._read(session_id, SESSION)
        return None if found is None else Session.from_dict(found)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Delete a session with its agents and messages. Raises SessionException if there is none.

        A deletion that was interrupted can be repeated.
        """
        documents = self._documents(session_id)
        keys = [*documents.calls.run_steps(documents.list())]
        if not keys:
            raise SessionException(f"there is no session {session_id}")
        for key in keys:
            kind, _, agent_id = key.partition(SEPARATOR)
            if kind == AGENT:
                self._run(self._turns(session_id, agent_id).clear())
        documents.calls.run_steps(documents.delete(keys))

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Keep an agent of a session."""
        self._write(session_id, _key(AGENT, session_agent.agent_id), session_agent.to_dict())

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return an agent of a session, or None."""
        found = self._read(session_id, _key(AGENT, agent_id))
        return None if found is None else SessionAgent.from_dict(found)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Write the state of an agent. Raises SessionException if there is none."""
        before = self.read_agent(session_id, session_agent.agent_id)
        if before is None:
            raise SessionException(f"{session_id} has no agent {session_agent.agent_id}")
        session_agent.created_at = before.created_at
        self.create_agent(session_id, session_agent)

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Add a message to the conversation of an agent."""
        self._run(self._turns(session_id, agent_id).add([_make_turn(session_message)]))

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Return a message by its number, or None."""
        turn = self._read_turns(session_id, agent_id).get(message_id)
        return None if turn is None else _read_message(turn)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Write a redacted message in place of another. Raises SessionException if there is none.

        The new one is added before the old one is deleted: a crash between them leaves both, and
        the new one counts.
        """
        old = self._read_turns(session_id, agent_id).get(session_message.message_id)
        if old is None:
            raise SessionException(f"there is no message {session_message.message_id}")
        session_message.created_at = _read_message(old).created_at
        self.create_message(session_id, agent_id, session_message)
        self._calls.run("records.delete", {"guid": old["guid"]})

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Return messages by their numbers: at most `limit`, without the first `offset`."""
        turns = self._read_turns(session_id, agent_id)
        numbers = sorted(turns)[offset : None if limit is None else offset + limit]
        return [_read_message(turns[number]) for number in numbers]

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Keep the state of a graph or swarm of agents."""
        self._write(session_id, _key(MULTI_AGENT, multi_agent.id), multi_agent.serialize_state())

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> Any:
        """Return the state of a graph or swarm of agents, or None."""
        return self._read(session_id, _key(MULTI_AGENT, multi_agent_id))

    def update_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Write the state of a graph or swarm. Raises SessionException if there is none."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(f"{session_id} has no multi-agent {multi_agent.id}")
        self.create_multi_agent(session_id, multi_agent)

    def _turns(self, session_id: str, agent_id: str) -> Conversation:
        thread = f"{_checked(session_id)}{SEPARATOR}{_checked(agent_id)}"
        where = {"user": self._user, "uid": self._uid, "store": self._store}
        return Conversation(self._call, thread, agent=agent_id, **where)

    def _read_turns(self, session_id: str, agent_id: str) -> dict[int, Json]:
        """Return the turns by the numbers of their messages. Of two, the newer one counts."""
        turns = self._run(self._turns(session_id, agent_id).list())
        return {_number(turn): turn for turn in turns}

    def _documents(self, session_id: str) -> Documents:
        scope = SEPARATOR.join(("strands", _checked(session_id), self._user))
        return Documents(self._call, scope, uid=self._uid)

    def _read(self, session_id: str, key: str) -> Any:
        documents = self._documents(session_id)
        return documents.calls.run_steps(documents.get(key))

    def _write(self, session_id: str, key: str, document: Json) -> None:
        documents = self._documents(session_id)
        documents.calls.run_steps(documents.put(key, document))


def _checked(identifier: str) -> str:
    """Return an id. Raises ValueError."""
    if SEPARATOR in identifier:
        raise ValueError(f"the id {identifier!r} has a slash; use another character")
    return identifier


def _key(kind: str, identifier: str) -> str:
    return f"{kind}{SEPARATOR}{_checked(identifier)}"


def _make_turn(session_message: SessionMessage) -> Json:
    """Return a message as `turns.add` takes it. The text is that of a redacted message."""
    message = session_message.to_message()
    content = [{"text": part["text"]} for part in message["content"] if "text" in part]
    return {"role": message["role"], "content": content, "item": session_message.to_dict()}


def _number(turn: Json) -> int:
    """Return the number of a message. Raises Refused."""
    item = turn["item"]
    if not isinstance(item, dict) or not isinstance(item.get(NUMBER), int):
        raise Refused(
            f"the turn {turn['guid']} is no message of Strands; use another session, or remove the "
            "turn with records.delete"
        )
    number: int = item[NUMBER]
    return number


def _read_message(turn: Json) -> SessionMessage:
    """Return the message of a turn. Raises Refused."""
    try:
        return SessionMessage.from_dict(turn["item"])
    except TypeError as error:
        raise Refused(
            f"this version of Strands cannot read the message in the turn {turn['guid']}; update it"
        ) from error
