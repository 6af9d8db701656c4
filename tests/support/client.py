"""A client on redis-py that knows the wire format but uses none of Memrelay's code."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import orjson
import redis

from tests.support.waiting import PATIENCE_S, wait_for

PAGE = 5000


class SwarmMessage(NamedTuple):
    """One message of a swarm's log or channel."""

    mid: str
    sender: str
    text: str
    envelope: dict[str, Any]

    @property
    def input(self) -> str:
        """Return the ID of the input entry that caused the message."""
        return self.mid.partition(".")[0]


def make_envelope(text: str, sender: str = "User", **keys: Any) -> bytes:
    """Return an envelope as JSON."""
    return orjson.dumps(
        {
            "from": sender,
            "id": "me",
            "args": [{"text": text, "username": sender, "type": "text/plain"}],
        }
        | keys
    )


class Client:
    """Sends messages to pipelines and reads their swarms. Use it as a context."""

    def __init__(self, socket: Path) -> None:
        """Open no connection before it is needed. The password, if any, is next to the socket."""
        self.socket, file = socket, socket.with_name("password")
        self.password = file.read_text().strip() if file.exists() else ""
        self.redis = redis.Redis(unix_socket_path=str(socket), password=self.password or None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.redis.close()

    def enter(
        self, uid: str, text: str, *, swarm: str = "chat", sender: str = "User", **fields: str
    ) -> str:
        """Append a message to a pipeline's input and return its ID."""
        return self.enter_raw(uid, make_envelope(text, sender), swarm=swarm, **fields)

    def enter_raw(
        self, uid: str, data: bytes, *, swarm: str = "chat", ident: str = "*", **fields: str
    ) -> str:
        """Append any fields to a pipeline's input and return the ID."""
        return self.redis.xadd(
            input_of(uid), {"swarm": swarm, "data": data, **fields}, id=ident
        ).decode()

    def enter_together(self, uid: str, texts: Iterable[str], swarm: str = "chat") -> list[str]:
        """Append messages in one MULTI, so that one batch contains them all; return their IDs."""
        with self.redis.pipeline(transaction=True) as pipe:
            for text in texts:
                pipe.xadd(input_of(uid), {"swarm": swarm, "data": make_envelope(text)})
            return [ident.decode() for ident in pipe.execute()]

    def ask(
        self, uid: str, text: str, *, within_s: float = PATIENCE_S, **how: str
    ) -> list[SwarmMessage]:
        """Send a message and return all messages of its cascade, beginning with itself."""
        ident = self.enter(uid, text, **how)
        self.await_done(uid, ident, within_s)
        return [said for said in self.log(uid, how.get("swarm", "chat")) if said.input == ident]

    def answer(self, uid: str, text: str, **how: Any) -> Any:
        """Return the text of the cascade's last message, parsed as JSON."""
        return orjson.loads(self.ask(uid, text, **how)[-1].text)

    def await_done(self, uid: str, ident: str, within_s: float = PATIENCE_S) -> None:
        """Wait until an entry is acknowledged. Its results have left then, since one transaction
        sends both.
        """
        wait_for(
            lambda: not self.redis.xrange(input_of(uid), ident, ident),
            f"{ident} of {uid} is done",
            within_s,
        )

    def await_quiet(self, uid: str, within_s: float = PATIENCE_S) -> None:
        """Wait until the input is empty."""
        wait_for(
            lambda: not self.redis.xlen(input_of(uid)),
            f"the input of {uid} is worked off",
            within_s,
        )

    def unacknowledged(self, uid: str) -> int:
        """Return the number of entries that were delivered and not acknowledged."""
        last = [
            group["last-delivered-id"]
            for group in self.redis.xinfo_groups(input_of(uid))
            if group["name"] == b"owner"
        ]
        return len(self.redis.xrange(input_of(uid), max=last[0]))

    def log(self, uid: str, swarm: str = "chat") -> list[SwarmMessage]:
        """Return a swarm's log, oldest message first."""
        found: list[SwarmMessage] = []
        after = "-"
        while entries := self.redis.xrange(swarm_of(uid, swarm), after, count=PAGE):
            found += [parse_message(fields[b"mid"], fields[b"data"]) for _, fields in entries]
            after = "(" + entries[-1][0].decode()
        return found

    def publish(self, uid: str, data: bytes, swarm: str = "chat") -> None:
        """Publish on a swarm's channel."""
        self.redis.publish(swarm_of(uid, swarm), data)

    def await_served(self, uid: str, within_s: float = PATIENCE_S) -> None:
        """Wait until the owner of a pipeline has created its consumer group; then it also
        listens on the channels.
        """
        wait_for(lambda: self._has_group(input_of(uid)), f"{uid} is served", within_s)

    def _has_group(self, key: str) -> bool:
        return bool(self.redis.exists(key)) and any(
            group["name"] == b"owner" for group in self.redis.xinfo_groups(key)
        )


class Subscriber:
    """Subscribes to a swarm's channel. Use it as a context."""

    def __init__(self, client: Client, uid: str, swarm: str = "chat") -> None:
        self._subscribed, self._channel = client.redis.pubsub(), swarm_of(uid, swarm)

    def __enter__(self) -> Self:
        self._subscribed.subscribe(self._channel)
        assert self._subscribed.get_message(timeout=PATIENCE_S)["type"] == "subscribe"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._subscribed.close()

    def until(self, wanted: Callable[[bytes], bool], within_s: float = PATIENCE_S) -> list[bytes]:
        """Return all messages up to the first one that matches."""
        heard: list[bytes] = []
        deadline = time.monotonic() + within_s
        while not heard or not wanted(heard[-1]):
            left_s = deadline - time.monotonic()
            assert left_s > 0, (
                f"waited {within_s:g} s in vain on {self._channel}; heard {heard!r:.2000}"
            )
            message = self._subscribed.get_message(timeout=left_s)
            heard += [message["data"]] if message else []
        return heard


def input_of(uid: str) -> str:
    """Return the key of a pipeline's input stream."""
    return f"pipeline:{{{uid}}}:in"


def swarm_of(uid: str, swarm: str) -> str:
    """Return the key of a swarm's log and channel."""
    return f"swarm:{{{uid}}}:{swarm}"


def parse_message(mid: bytes, data: bytes) -> SwarmMessage:
    """Return a message with its ID."""
    envelope = orjson.loads(data)
    return SwarmMessage(mid.decode(), envelope["from"], envelope["args"][0]["text"], envelope)
