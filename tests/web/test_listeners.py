"""Many WebSocket listeners: slow ones are dropped, and the others miss nothing."""

import os
import resource
import selectors
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.listener import Listener, split_frame
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S, wait_for

MANY, MESSAGES, BACKLOG = 1000, 200, 40
FILLER = "x" * 6_000  # fills the kernel's buffers of a listener that does not read
BUFFER = 32_768  # of the stalled listener


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with Served(WEB__LISTENER_BACKLOG=str(BACKLOG)) as served:
        yield served
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def listen(served: Served, uid: str, count: int, stack: ExitStack) -> list[Listener]:
    return [stack.enter_context(Listener(served.url, uid)) for _ in range(count)]


def receive_all(listeners: list[Listener], count: int) -> list[list[bytes]]:
    """Return the payloads of the next `count` frames of each listener."""
    received: dict[int, list[bytes]] = {listener.socket.fileno(): [] for listener in listeners}
    left = dict.fromkeys(received, b"")
    with selectors.DefaultSelector() as selector:
        for listener in listeners:
            selector.register(listener.socket, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(timeout=PATIENCE_S)
            assert ready, f"no data; received so far: {sorted(map(len, received.values()))[:5]}"
            for key, _ in ready:
                left[key.fd] = take_frames(left[key.fd] + read(key.fd), received[key.fd])
            for key in [key for key, _ in ready if len(received[key.fd]) >= count]:
                selector.unregister(key.fileobj)
    assert not any(left.values())
    return list(received.values())


def read(handle: int) -> bytes:
    data = os.read(handle, 1 << 18)
    assert data, "the server has closed"
    return data


def take_frames(data: bytes, into: list[bytes]) -> bytes:
    """Append the payloads of complete frames and return the remaining bytes."""
    while (whole := split_frame(data)) is not None:
        into.append(whole[1])
        data = whole[2]
    return data


def handles(served: Served) -> int:
    return len(os.listdir(f"/proc/{served.web.pid}/fd"))


def memory_mb(served: Served) -> float:
    lines = Path(f"/proc/{served.web.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def dropped(served: Served) -> bool:
    return b"memrelay_listeners_dropped_total 1.0" in served.get("/metrics").body


def send_numbered(served: Served, uid: str, start: int, end: int) -> None:
    """Send numbered messages in one batch."""
    served.house.client.enter_together(uid, [f"{number} {FILLER}" for number in range(start, end)])


@pytest.mark.slow
def test_one_stalled_listener_of_a_thousand_is_dropped_alone(served: Served) -> None:
    uid = served.deploy()
    with ExitStack() as stack:
        stopped = stack.enter_context(Listener(served.url, uid, buffer_bytes=BUFFER))
        others = listen(served, uid, MANY - 1, stack)
        received: list[list[bytes]] = [[] for _ in others]
        for start in range(
            0, MESSAGES, BACKLOG // 2
        ):  # a reading listener is never that far behind
            send_numbered(served, uid, start, start + BACKLOG // 2)
            received = [
                one + more
                for one, more in zip(received, receive_all(others, BACKLOG // 2), strict=True)
            ]
        wait_for(lambda: dropped(served), "the stalled listener is dropped")
        closed = stopped.close_frame()

    logged = [
        b'{"cursor":"%s","mid":"%s","message":%s}' % (ident, fields[b"mid"], fields[b"data"])
        for ident, fields in served.house.client.redis.xrange(f"swarm:{{{uid}}}:chat")
    ]
    assert len(logged) == MESSAGES
    assert all(one == logged for one in received)
    assert closed.code == 1013
    assert closed.reason.startswith(
        f"too slow: more than {BACKLOG} messages behind; reconnect with ?after="
    )
    assert served.web.await_event("listener_dropped")["reason"] == "too slow"


@pytest.mark.slow
def test_disconnected_listeners_leave_nothing_behind(served: Served) -> None:
    uid = served.deploy()
    for _ in range(2):  # the first round fills the runtime's caches
        before = handles(served), memory_mb(served)
        with ExitStack() as stack:
            hear = listen(served, uid, MANY, stack)
            served.house.client.enter_together(uid, ["hello"] * 10)
            receive_all(hear, 10)
        wait_for(
            lambda: served.get("/status").json["listeners"] == 0,
            "all listeners are connecteders are gone",
        )

    wait_for(
        lambda: handles(served) <= before[0] + 2,
        f"file descriptors are closed: {before[0]}, and now {handles(served)}",
    )
    assert memory_mb(served) < before[1] + 10


def test_a_dropped_listener_keeps_no_file_descriptor(served: Served) -> None:
    uid = served.deploy()
    with Listener(served.url, uid, buffer_bytes=BUFFER):  # opens the connections to the bus
        send_numbered(served, uid, 0, MESSAGES)
        wait_for(lambda: served.get("/status").json["listeners"] == 0, "it is dropped")
    before = handles(served)

    with Listener(served.url, uid, buffer_bytes=BUFFER):
        send_numbered(served, uid, 0, MESSAGES)
        wait_for(
            lambda: handles(served) <= before,
            "its file descriptor is closed although the client is connected",
        )
    assert served.get("/status").json["listeners"] == 0


@pytest.mark.slow
def test_listeners_stalled_during_catch_up_keep_little_in_memory(served: Served) -> None:
    uid = served.deploy()
    with served.house.client.redis.pipeline() as pipe:
        for number in range(600):  # 10 MB
            pipe.xadd(
                f"swarm:{{{uid}}}:chat",
                {"mid": str(number), "data": b'{"args":[{"text":"%s"}]}' % (b"x" * 16_000)},
            )
        pipe.execute()
    before = memory_mb(served)

    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(Listener(served.url, uid, "?after=0-0", buffer_bytes=BUFFER))
        wait_for(
            lambda: served.get("/status").json["listeners"] == 40, "all listeners are connected"
        )
        time.sleep(2)  # until all buffers are full

        assert memory_mb(served) < before + 100  # 8 MB each would be 320 MB


def test_a_dropped_listener_resumes_from_its_cursor(served: Served) -> None:
    uid = served.deploy()
    with Listener(served.url, uid, buffer_bytes=BUFFER) as slow:
        send_numbered(served, uid, 0, MESSAGES)
        served.house.client.await_quiet(uid)
        first, closed = slow.rest()

    with Listener(served.url, uid, "?after=" + closed.reason.rpartition("=")[2]) as again:
        rest = again.texts(MESSAGES - len(first))

    assert 0 < len(first) < MESSAGES
    assert first + rest == [f"{number} {FILLER}" for number in range(MESSAGES)]


def test_the_web_server_raises_its_file_descriptor_limit(served: Served) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    soft, _ = resource.prlimit(served.web.pid, resource.RLIMIT_NOFILE)

    assert soft == min(hard, 65_536)
