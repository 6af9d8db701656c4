"""Own live copies are skipped, and messages of other clients are received once, at any cut."""

import asyncio
from collections.abc import Iterable

from hypothesis import example, given
from hypothesis import strategies as st

from memrelay.bus.client.connection import Connection
from memrelay.bus.client.echo_filter import EchoFilter
from memrelay.bus.client.resp import bulk, pack
from memrelay.bus.codec import encode, is_own_copy
from memrelay.bus.message import new_message
from tests.support.copies import live_copy

CHANNELS = ["swarm:{a}:chat", "swarm:{a}:inner"]
Push = tuple[str, bytes]  # channel, payload


def make_payload(text: str) -> bytes:
    return encode(new_message("User", "me", text, username="User", now_ms=1_700_000_000_000))


def make_copy(text: str) -> bytes:
    return live_copy(b"1700000000000-1", 0, make_payload(text))


texts, channels = st.text(max_size=20), st.sampled_from(CHANNELS)
foreign = st.tuples(channels, texts.map(make_payload)).map(lambda push: [push])
own = st.lists(st.tuples(channels, texts.map(make_copy)), min_size=1, max_size=4)  # one MULTI
events = st.lists(foreign | own, max_size=10)
ONE_OF_EACH: list[list[Push]] = [
    [(CHANNELS[0], make_payload("tea"))],
    [(CHANNELS[0], make_copy("tea"))],
]


async def receive(multis: list[list[Push]], chunks: Iterable[bytes]) -> list[Push]:
    """Return the foreign messages in a stream of chunks, while own MULTIs are under way."""
    echo, received = EchoFilter(), []

    def on_push(channel: bytes, payload: bytes) -> None:
        if is_own_copy(payload):
            echo.passed(channel, payload)
        else:
            received.append((channel.decode(), payload))

    connection = Connection(on_push, echo.skip)
    for multi in multis:
        echo.expect([b"".join(map(bulk, push)) for push in multi])
    for chunk in chunks:
        connection.data_received(chunk)
    assert not connection.closed.done(), "the connection failed"
    return received


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    """Return the stream in pieces, none of them empty."""
    ends = sorted({place % len(stream) for place in places} - {0}) if stream else []
    return [
        stream[start:end]
        for start, end in zip([0, *ends], [*ends, len(stream)], strict=True)
        if stream
    ]


@given(events, st.lists(st.integers(0, 100_000), max_size=12))
@example(ONE_OF_EACH, [20])
@example([*ONE_OF_EACH, *ONE_OF_EACH], [50, 400])
def test_foreign_messages_are_received_once_and_own_copies_are_skipped(
    events: list[list[Push]], places: list[int]
) -> None:
    stream = b"".join(pack("message", *push) for event in events for push in event)
    ours = [event for event in events if is_own_copy(event[0][1])]

    received = asyncio.run(receive(ours, cut(stream, places)))

    assert received == [push for event in events for push in event if not is_own_copy(push[1])]


@given(st.lists(own, min_size=1, max_size=4), st.lists(st.integers(0, 100_000), max_size=12))
def test_own_copies_are_never_parsed_at_any_cut(ours: list[list[Push]], places: list[int]) -> None:
    echo, stream = (
        EchoFilter(),
        b"".join(pack("message", *push) for multi in ours for push in multi),
    )
    for multi in ours:
        echo.expect([b"".join(map(bulk, push)) for push in multi])

    read = [echo.skip(chunk) for chunk in cut(stream, places)]

    assert not any(read)


def test_a_lost_own_copy_does_not_stay_expected() -> None:
    lost, others = [(CHANNELS[0], make_copy("lost"))], [(CHANNELS[0], make_payload("tea"))]
    ours = [[(CHANNELS[0], make_copy(str(number)))] for number in range(3)]
    stream = [pack("message", *push) for push in (*ours[0], *others, *ours[1], *ours[2], *others)]

    received = asyncio.run(receive([lost, *ours], stream))

    assert received == others * 2
