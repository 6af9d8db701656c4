"""Files of Letta. The fixtures come from the schemas of its server (makers/letta.py)."""

import json
from pathlib import Path

import pytest

from memrelay.memory.transfer.importers.source import (
    Fact,
    Fault,
    Plain,
    RefusedFile,
    SourceItem,
    Turn,
)
from tests.support.foreign import FIXTURES, read_file, sources_of

TURNS = [
    ("system", "You are a support agent."),
    ("user", "Where is my parcel?"),
    ("tool", '{"status": "OK"}'),
    ("assistant", "It arrives on Friday."),
    ("user", "Automated timer"),
    ("user", "Danke schön 📦"),
    ("assistant", "You are welcome."),
]
BLOCKS = [("human", "The name of the user is Grace."), ("persona", "I answer briefly.")]


def read(path: Path) -> list[SourceItem]:
    return read_file("letta", path)


def write(folder: Path, name: str, document: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("name", "agent"), [("letta.af", "support"), ("letta_old.af", "concierge")]
)
def test_both_forms_of_an_agent_file_have_the_same_items(name: str, agent: str) -> None:
    notes: list[str] = []

    found = read_file("letta", FIXTURES / name, notes)

    turns = [one for one in found if isinstance(one, Turn)]
    assert [(one.source, one.text) for one in turns] == TURNS
    assert {one.thread for one in turns} == {agent}
    assert [one.seq for one in turns] == [one.created_at for one in turns]
    blocks = [one for one in found if isinstance(one, Plain)]
    assert [(one.key, one.text) for one in blocks] == BLOCKS
    assert {(one.kind, one.in_context, one.data["agents"][0]) for one in blocks} == {
        ("block", True, agent)
    }
    assert len({one.id for one in (*turns, *blocks)}) == len(turns) + len(blocks)
    assert len(notes) == 1 and "at most 50 messages" in notes[0] and "/archival-memory" in notes[0]
    assert sources_of(FIXTURES / name) == ["letta"]


def test_files_and_messages_without_text_are_reported() -> None:
    faults = [one for one in read(FIXTURES / "letta.af") if isinstance(one, Fault)]

    assert faults == [
        Fault("agents[0], messages[2]", "the message has no text"),
        Fault("files[0]", 'the file "manual.pdf" is not imported'),
    ]


def test_messages_say_what_they_are() -> None:
    found = [one for one in read(FIXTURES / "letta.af") if isinstance(one, Turn)]

    assert found[3].data == {"tools": ["send_message"]}
    assert found[4].data == {"type": "heartbeat"}


def test_a_later_file_of_an_agent_gives_a_message_the_same_identity(tmp_path: Path) -> None:
    document = json.loads((FIXTURES / "letta.af").read_bytes())
    before = {one.id: one for one in read(FIXTURES / "letta.af") if isinstance(one, Turn)}
    messages = document["agents"][0]["messages"]
    del messages[:3]
    for number, message in enumerate(messages):
        message["id"] = f"message-{number}"

    later = [one for one in read(write(tmp_path, "later.af", document)) if isinstance(one, Turn)]

    assert len(later) == 5
    assert all((before[one.id].text, before[one.id].seq) == (one.text, one.seq) for one in later)


def test_passages_become_entries_of_the_agent_of_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "support.json"
    path.write_bytes((FIXTURES / "letta_passages.json").read_bytes())

    first, second = read(path)

    assert isinstance(first, Fact) and isinstance(second, Fact)
    assert (first.memory, first.text, first.tags) == (
        "letta/support",
        "Grace lives in Zürich.",
        ("address",),
    )
    assert first.data["metadata"] == {"page": 0} and "embedding" not in first.data
    assert second.text == "Parcels leave at noon."
    assert first.id == "passage-00000000-0000-4000-8000-000000000000"
    assert sources_of(path) == ["letta"]


def test_a_deleted_passage_and_a_named_agent(tmp_path: Path) -> None:
    passage = {"id": "passage-1", "text": "Old.", "is_deleted": True, "created_at": "2026-01-01"}

    (found,) = read(write(tmp_path, "x.json", {"agent": "ada", "passages": [passage]}))

    assert isinstance(found, Fact)
    assert (found.memory, found.deleted_at) == ("letta/ada", found.created_at)


def test_messages_of_the_api_have_the_identity_of_the_agent_file(tmp_path: Path) -> None:
    known = {one.id for one in read(FIXTURES / "letta.af") if isinstance(one, Turn)}
    answer = [
        {
            "id": "message-1",
            "date": "2026-04-01T08:00:01+00:00",
            "message_type": "user_message",
            "content": "Where is my parcel?",
        },
        {"id": "message-2", "date": "2026-04-01T08:00:02", "message_type": "reasoning_message"},
        {
            "id": "message-4",
            "date": "2026-04-01T08:00:04+00:00",
            "message_type": "assistant_message",
            "content": [{"type": "text", "text": "It arrives on Friday."}],
        },
    ]

    user, thought, assistant = read(write(tmp_path, "support.json", answer))

    assert isinstance(user, Turn) and isinstance(assistant, Turn)
    assert {user.id, assistant.id} <= known
    assert (user.source, assistant.source) == ("user", "assistant")
    assert thought == Fault("[1]", "a message of the type reasoning_message is not imported")
    assert sources_of(tmp_path / "support.json") == ["letta"]


def test_a_text_that_an_agent_repeats_within_a_second_is_kept(tmp_path: Path) -> None:
    message = {"role": "user", "content": "Yes", "created_at": 1_700_000_000}

    found = read(
        write(tmp_path, "x.af", {"core_memory": [], "name": "a", "messages": [message] * 2})
    )

    assert len({one.id for one in found if isinstance(one, Turn)}) == 2


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (7, "it is not a JSON object"),
        ({"role": "user", "content": {"a": 1}}, "`content` is neither a text nor a list of parts"),
        (
            {"role": "user", "content": "x", "created_at": "soon"},
            'the date "soon" has an unknown form',
        ),
    ],
)
def test_a_faulty_message_is_left_out(tmp_path: Path, message: object, reason: str) -> None:
    good = {"role": "user", "content": "fine"}
    document = {"agents": [{"name": "a", "messages": [message, good]}], "blocks": [], "files": []}

    bad, fine = read(write(tmp_path, "x.af", document))

    assert bad == Fault("agents[0], messages[0]", reason)
    assert isinstance(fine, Turn) and fine.text == "fine"


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.af"
    path.write_text('{"agents": [')

    with pytest.raises(RefusedFile, match="not valid JSON"):
        read(path)
