"""The command that appends an entry to an input."""

import hiredis
from hypothesis import given
from hypothesis import strategies as st

from memrelay.bus.streams.entry import NewEntry

TEXTS = st.text(max_size=20)


def parse(entry: NewEntry) -> list[bytes]:
    """Return the packed command as the server parses it."""
    reader = hiredis.Reader()
    reader.feed(entry.pack())
    read: list[bytes] = reader.gets()
    assert reader.gets() is False
    return read


def test_an_entry_has_only_the_given_fields() -> None:
    entry = NewEntry("a", b"{}", "chat")

    assert parse(entry) == [b"XADD", b"pipeline:{a}:in", b"*", b"swarm", b"chat", b"data", b"{}"]


def test_an_entry_without_data_has_an_empty_field() -> None:
    assert parse(NewEntry("a", b"", agent="user"))[3:] == [b"agent", b"user", b"data", b""]


ENTRIES = st.builds(
    NewEntry,
    st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    st.binary(max_size=50),
    swarm=TEXTS,
    agent=TEXTS,
    producer_id=TEXTS,
    reply=TEXTS,
    hop=TEXTS,
    origin=TEXTS,
    replay_of=TEXTS,
    published=st.booleans(),
)


@given(ENTRIES)
def test_every_entry_is_one_command_with_any_words(entry: NewEntry) -> None:
    command = parse(entry)

    given = {
        "swarm": entry.swarm,
        "agent": entry.agent,
        "id": entry.producer_id,
        "reply": entry.reply,
        "hop": entry.hop,
        "origin": entry.origin,
        "replay_of": entry.replay_of,
        "published": "1" if entry.published else "",
    }
    assert command[:3] == [b"XADD", f"pipeline:{{{entry.uid}}}:in".encode(), b"*"]
    assert dict(zip(command[3::2], command[4::2], strict=True)) == {b"data": entry.data} | {
        name.encode(): value.encode() for name, value in given.items() if value
    }
