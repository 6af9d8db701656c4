"""Reading the log of a swarm by cursor, with foreign entries in it."""

import pytest

from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.streams.log import (
    MOST_BYTES,
    may_continue,
    parse_cursor,
    parse_log_entries,
    read_log,
    read_log_backward,
)
from tests.support.client import Client, swarm_of
from tests.support.connections import run_on_connection


def fill(server: EmbeddedServer, uid: str, *kinds: str) -> list[str]:
    """Add an entry for each kind, `ours` or `foreign`, and return their cursors."""
    fields = {"ours": {"mid": "m", "data": "{}"}, "foreign": {"note": "x"}}
    with Client(server.socket_path) as client:
        return [client.redis.xadd(swarm_of(uid, "chat"), fields[kind]).decode() for kind in kinds]


def cursors(
    server: EmbeddedServer, uid: str, limit: int, *, after: str = "", before: str | None = None
) -> list[str]:
    """Return the cursors of a page; backwards if `before` is given."""
    if before is not None:
        page = run_on_connection(
            server,
            lambda client: read_log_backward(client, uid, "chat", before=before, limit=limit),
        )
    else:
        page = run_on_connection(
            server, lambda client: read_log(client, uid, "chat", after=after, limit=limit)
        )
    return [one.cursor for one in page]


def test_a_missing_log_is_empty(server: EmbeddedServer) -> None:
    assert cursors(server, "nobody", 10) == []
    assert cursors(server, "nobody", 10, before="") == []


def test_forward_pages_contain_the_whole_log(server: EmbeddedServer) -> None:
    written = fill(server, "forwards", *["ours"] * 7)

    first = cursors(server, "forwards", 3)

    assert first == written[:3]
    assert cursors(server, "forwards", 10, after=first[-1]) == written[3:]
    assert cursors(server, "forwards", 10, after=written[-1]) == []


def test_backward_pages_contain_the_whole_log(server: EmbeddedServer) -> None:
    written = fill(server, "backwards", *["ours"] * 7)

    first = cursors(server, "backwards", 3, before="")

    assert first == written[:3:-1]
    assert cursors(server, "backwards", 10, before=first[-1]) == written[3::-1]
    assert cursors(server, "backwards", 10, before=written[0]) == []


@pytest.mark.parametrize("limit", range(1, 8))
def test_foreign_entries_are_left_out_and_shorten_no_page(
    server: EmbeddedServer, limit: int
) -> None:
    uid = f"mixed{limit}"
    mixed = [
        "foreign",
        "ours",
        "foreign",
        "foreign",
        "foreign",
        "ours",
        "ours",
        "foreign",
        "ours",
        "foreign",
    ]
    ours = [
        cursor
        for cursor, kind in zip(fill(server, uid, *mixed), mixed, strict=True)
        if kind == "ours"
    ]

    assert cursors(server, uid, limit) == ours[:limit]
    assert cursors(server, uid, limit, before="") == ours[::-1][:limit]


def test_a_page_of_long_messages_ends_early_and_the_next_one_continues(
    server: EmbeddedServer,
) -> None:
    long = {"mid": "m", "data": '{"text":"%s"}' % ("x" * (MOST_BYTES // 3))}
    with Client(server.socket_path) as client:
        written = [client.redis.xadd(swarm_of("long", "chat"), long).decode() for _ in range(5)]

    first = run_on_connection(server, lambda client: read_log(client, "long", "chat", limit=1000))
    rest = run_on_connection(
        server, lambda client: read_log(client, "long", "chat", after=first[-1].cursor, limit=1000)
    )

    assert [one.cursor for one in first] == written[:3] and may_continue(first, 1000)
    assert [one.cursor for one in rest] == written[3:] and not may_continue(rest, 1000)
    assert cursors(server, "long", 1000, before="") == written[:1:-1]


@pytest.mark.parametrize("value", ["1e999", "-1e999", "9" * 400, "1"])
def test_numbers_of_any_size_are_passed_on_unparsed(value: str) -> None:
    data = b'{"from":"a","args":[{"text":"tea","more":%s}]}' % value.encode()

    (entry,) = parse_log_entries([(b"1-0", [b"mid", b"m", b"data", data])])

    assert entry.data == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1e999",
        b"[1e999]",
        b'{"a":1e999',
        b'{"a":1e999,"b":"\xff"}',
        b'{"a":NaN}',
        b"{" * 5000,
    ],
)
def test_invalid_json_is_left_out(data: bytes) -> None:
    assert parse_log_entries([(b"1-0", [b"mid", b"m", b"data", data])]) == []


def test_a_log_of_foreign_entries_is_empty(server: EmbeddedServer) -> None:
    fill(server, "foreign", *["foreign"] * 20)

    assert cursors(server, "foreign", 3) == cursors(server, "foreign", 3, before="") == []


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [b"mid", b"a"],
        [b"data", b"{}"],
        [b"mid", b"", b"data", b"{}"],
        [b"mid", b'a"', b"data", b"{}"],
        [b"mid", b"a\\", b"data", b"{}"],
        [b"mid", b"\xff", b"data", b"{}"],
        [b"mid", b"a" * 257, b"data", b"{}"],
        [b"mid", b"a", b"data", b""],
        [b"mid", b"a", b"data", b"[]"],
        [b"mid", b"a", b"data", b'{"a":'],
        [b"mid", b"a", b"data", b'{"a":"\xff"}'],
        [b"mid", b"a", b"data", b"{} {}"],
    ],
)
def test_an_entry_that_would_break_the_json_of_a_listener_is_left_out(fields: list[bytes]) -> None:
    ours = (b"2-0", [b"more", b"x", b"data", b"{}", b"mid", b"1-0.0~00000000"])

    (entry,) = parse_log_entries([(b"1-0", fields), ours])

    assert (entry.cursor, entry.mid, entry.data, entry.place) == (
        "2-0",
        "1-0.0~00000000",
        b"{}",
        (2, 0),
    )


def test_cursors_are_compared_by_their_numbers() -> None:
    assert (
        parse_cursor("9-10")
        < parse_cursor("10-9")
        < parse_cursor("10-10")
        < parse_cursor(f"{2**63 - 1}-0")
    )


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "5",
        "-",
        "5-",
        "-5",
        "5-5-5",
        " 5-5",
        "5-5\n",
        "+",
        "\u0665-0",
        "1" * 21 + "-0",
        f"{2**63}-0",
        f"0-{2**63}",
        "5-0x1",
    ],
)
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ValueError, match="a cursor has the form 1780000000000-0"):
        parse_cursor(cursor)
