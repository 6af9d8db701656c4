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
from tests.support.waiting import PATIENCE_S, wait_for
from tests.support.web_system import WebSystem

MANY, MESSAGES, BACKLOG = 1000, 200, 40
FILLER = "x" * 6_000  # fills the kernel's buffers of a listener that does not read
BUFFER = 32_768  # of the stalled listener


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with WebSystem(WEB__LISTENER_BACKLOG=str(BACKLOG)) as web_system:
        yield web_system
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def listen(web_system: WebSystem, uid: str, count: int, stack: ExitStack) -> list[Listener]:
    return [stack.enter_context(Listener(web_system.url, uid)) for _ in range(count)]


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


def handles(web_system: WebSystem) -> int:
    return len(os.listdir(f"/proc/{web_system.web.pid}/fd"))


def memory_mb(web_system: WebSystem) -> float:
    lines = Path(f"/proc/{web_system.web.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def dropped(web_system: WebSystem) -> bool:
    return b"memrelay_listeners_dropped_total 1.0" in web_system.get("/metrics").body


def send_numbered(web_system: WebSystem, uid: str, start: int, end: int) -> None:
    """Send numbered messages in one batch."""
    web_system.system.client.enter_together(
        uid, [f"{number} {FILLER}" for number in range(start, end)]
    )


@pytest.mark.slow
def test_one_stalled_listener_of_a_thousand_is_dropped_alone(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    with ExitStack() as stack:
        stopped = stack.enter_context(Listener(web_system.url, uid, buffer_bytes=BUFFER))
        others = listen(web_system, uid, MANY - 1, stack)
        received: list[list[bytes]] = [[] for _ in others]
        for start in range(
            0, MESSAGES, BACKLOG // 2
        ):  # a reading listener is never that far behind
            send_numbered(web_system, uid, start, start + BACKLOG // 2)
            received = [
                one + more
                for one, more in zip(received, receive_all(others, BACKLOG // 2), strict=True)
            ]
        wait_for(lambda: dropped(web_system), "the stalled listener is dropped")
        closed = stopped.close_frame()

    logged = [
        b'{"cursor":"%s","mid":"%s","message":%s}' % (ident, fields[b"mid"], fields[b"data"])
        for ident, fields in web_system.system.client.redis.xrange(f"swarm:{{{uid}}}:chat")
    ]
    assert len(logged) == MESSAGES
    assert all(one == logged for one in received)
    assert closed.code == 1013
    assert closed.reason.startswith(
        f"too slow: more than {BACKLOG} messages behind; reconnect with ?after="
    )
    assert web_system.web.await_event("listener_dropped")["reason"] == "too slow"


@pytest.mark.slow
def test_disconnected_listeners_leave_nothing_behind(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    for _ in range(2):  # the first round fills the runtime's caches
        before = handles(web_system), memory_mb(web_system)
        with ExitStack() as stack:
            hear = listen(web_system, uid, MANY, stack)
            web_system.system.client.enter_together(uid, ["hello"] * 10)
            receive_all(hear, 10)
        wait_for(
            lambda: web_system.get("/status").json["listeners"] == 0,
            "all listeners are connecteders are gone",
        )

    wait_for(
        lambda: handles(web_system) <= before[0] + 2,
        f"file descriptors are closed: {before[0]}, and now {handles(web_system)}",
    )
    assert memory_mb(web_system) < before[1] + 10


def test_a_dropped_listener_keeps_no_file_descriptor(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    with Listener(web_system.url, uid, buffer_bytes=BUFFER):  # opens the connections to the bus
        send_numbered(web_system, uid, 0, MESSAGES)
        wait_for(lambda: web_system.get("/status").json["listeners"] == 0, "it is dropped")
    before = handles(web_system)

    with Listener(web_system.url, uid, buffer_bytes=BUFFER):
        send_numbered(web_system, uid, 0, MESSAGES)
        wait_for(
            lambda: handles(web_system) <= before,
            "its file descriptor is closed although the client is connected",
        )
    assert web_system.get("/status").json["listeners"] == 0


@pytest.mark.slow
def test_listeners_stalled_during_catch_up_keep_little_in_memory(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    with web_system.system.client.redis.pipeline() as pipe:
        for number in range(600):  # 10 MB
            pipe.xadd(
                f"swarm:{{{uid}}}:chat",
                {"mid": str(number), "data": b'{"args":[{"text":"%s"}]}' % (b"x" * 16_000)},
            )
        pipe.execute()
    before = memory_mb(web_system)

    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(Listener(web_system.url, uid, "?after=0-0", buffer_bytes=BUFFER))
        wait_for(
            lambda: web_system.get("/status").json["listeners"] == 40, "all listeners are connected"
        )
        time.sleep(2)  # until all buffers are full

        assert memory_mb(web_system) < before + 100  # 8 MB each would be 320 MB


def test_a_dropped_listener_resumes_from_its_cursor(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    with Listener(web_system.url, uid, buffer_bytes=BUFFER) as slow:
        send_numbered(web_system, uid, 0, MESSAGES)
        web_system.system.client.await_quiet(uid)
        first, closed = slow.rest()

    with Listener(web_system.url, uid, "?after=" + closed.reason.rpartition("=")[2]) as again:
        rest = again.texts(MESSAGES - len(first))

    assert 0 < len(first) < MESSAGES
    assert first + rest == [f"{number} {FILLER}" for number in range(MESSAGES)]


def test_the_web_server_raises_its_file_descriptor_limit(web_system: WebSystem) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    soft, _ = resource.prlimit(web_system.web.pid, resource.RLIMIT_NOFILE)

    assert soft == min(hard, 65_536)
