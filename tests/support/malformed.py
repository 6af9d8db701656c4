"""Malformed messages for every channel, stream and shared key of the bus."""

from collections.abc import Callable, Iterator
from random import Random

import redis

from memrelay.bus.keys import (
    CHANGES,
    PUBLIC,
    ask_channel,
    input_key,
    listeners_key,
    owner_key,
    reindex_key,
    stores_key,
    swarm_key,
    timers_key,
    worker_key,
    workers_key,
)

Fields = dict[bytes, bytes]
Send = Callable[[redis.client.Pipeline], object]
HOSTILE = (
    *(b"null", b"true", b"-1", b"0", b"9" * 400, b"-" + b"9" * 400, b"1e308", b"1e999", b"NaN"),
    *(b'"\\ud800"', b'""', b'"\\u0000"', b'"\xff"', b'"' + b"x" * 3000 + b'"'),
    *(b"[]", b"{}", b"[" * 2000, b'{"a":' * 500, b"[[1]]", b'{"output":5}', b"\x00", b""),
)
WORDS = (b"", b"\xff\xfe", b"-1", b"9" * 30, b"a\nb", b"a\n0\nb\nc", b"x" * 2000, b"\x00", b"nan")
ENVELOPE = {b"from": b'"User"', b"id": b'"me"', b"args": b'[{"text":"/read","type":"text/plain"}]'}
REPLY = {b"id": b'"1-0"', b"settled": b"true", b"results": b"[]", b"answer": b'{"output":{}}'}
REPORT = {b"name": b'"w"', b"storage": b'"/"', b"pipelines": b"{}", b"started_at": b"1"}
ENTRY = {b"swarm": b"chat", b"data": b"{}", b"id": b"a", b"hop": b"0", b"reply": b"", b"op": b""}
ENTRY |= {b"agent": b"", b"replay_of": b"", b"origin": b"", b"store": b"", b"published": b""}


class Malformed:
    """Makes messages for one pipeline, with a public swarm and an agent with a timer."""

    def __init__(self, seed: int, uid: str, public: str, timer: str) -> None:
        self._random, self._uid, self._public, self._timer = Random(seed), uid, public, timer
        self._question = {
            b"op": b'"records.list"',
            b"reply": b'"reply:{%s}:x"' % uid.encode(),
            b"input": b"{}",
            b"within_ms": b"1000",
            b"database": b"0",
            b"store": b'""',
            b"actor": b'""',
        }

    def sends(self, count: int) -> Iterator[Send]:
        """Yield commands, in turn for each channel, stream and shared key."""
        makers = [self._channels, self._channels, self._entries, self._logs, self._shared]
        for number in range(count):
            yield makers[number % len(makers)]()

    def reply(self) -> bytes:
        """Return a malformed reply."""
        while (payload := self._json(REPLY)) == join(REPLY):
            pass
        return payload

    def _channels(self) -> Send:
        channel, fields = self._random.choice(
            (
                (ask_channel(self._uid), self._question),
                (ask_channel(self._uid), self._question),
                (CHANGES, ENVELOPE),
                (swarm_key(self._uid, "chat"), ENVELOPE),
                (swarm_key(PUBLIC, self._public), ENVELOPE),
            )
        )
        payload = self._json(fields)
        return lambda pipe: pipe.publish(channel, payload)

    def _entries(self) -> Send:
        random, entry = self._random, dict(ENTRY)
        entry[b"data"] = self._json(random.choice((ENVELOPE, self._question)))
        for name in random.sample(sorted(entry), 2):
            entry[name] = random.choice((*WORDS, *HOSTILE))
        if random.random() < 0.3:
            del entry[random.choice(sorted(entry))]
        return lambda pipe: pipe.xadd(input_key(self._uid), entry)  # type: ignore[arg-type]

    def _logs(self) -> Send:
        entry: Fields = {b"mid": self._random.choice(WORDS), b"data": self._json(ENVELOPE)}
        log = self._random.choice((swarm_key(self._uid, "chat"), swarm_key(PUBLIC, self._public)))
        return lambda pipe: pipe.xadd(log, entry, maxlen=1000)  # type: ignore[arg-type]

    def _shared(self) -> Send:
        random, uid = self._random, self._uid
        word, other = random.choice(WORDS), random.choice(WORDS)
        timer = b"1000 1 " + word
        swarm = self._public.encode()
        member = random.choice((word, swarm + b"\n0\n" + word, swarm + b"\n" + word))
        lease, report = random.choice(("x/1", "../../x/1", "y")), self._json(REPORT)
        return random.choice(
            (
                lambda pipe: pipe.zadd(listeners_key(), {member: 0}),
                lambda pipe: pipe.hset(reindex_key(), word, other),
                lambda pipe: pipe.hset(timers_key(uid), self._timer, timer),
                lambda pipe: pipe.hset(stores_key(uid), word, other),
                lambda pipe: pipe.hset(owner_key(uid), "gaps", other),
                lambda pipe: pipe.set(worker_key(lease), report).zadd(workers_key(), {lease: 1e13}),
            )
        )

    def _json(self, fields: Fields) -> bytes:
        random = self._random
        damaged = dict(fields)
        damaged[random.choice(sorted(fields))] = random.choice(HOSTILE)
        whole = join(damaged)
        cut = random.randrange(len(whole))
        return random.choice(
            (
                whole,
                whole,
                random.choice(HOSTILE),
                whole[:cut],
                whole[:cut] + random.randbytes(3) + whole[cut:],
                b'{"mid":"1-0.0~00000000",' + whole[1:],
                random.randbytes(40),
            )
        )


def join(fields: Fields) -> bytes:
    """Return a JSON object of values that are JSON already."""
    return b"{" + b",".join(b'"%s":%s' % field for field in fields.items()) + b"}"
