"""What is read from an export of ChatGPT."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

import orjson
import pytest

from memrelay.memory.transfer.importers.chatgpt import detect, read
from memrelay.memory.transfer.importers.source import (
    Fault,
    RefusedFile,
    SourceInput,
    SourceItem,
    Turn,
)
from tests.support.chatgpt import (
    BEGAN,
    branched,
    chat,
    long_chat,
    message,
    node,
    said,
    write_chats,
    write_zip,
)

BEGAN_MS = 1_700_000_000_250


def found_in(path: Path, *chats: Any, all_branches: bool = False) -> list[SourceItem]:
    write_chats(path / "conversations.json", *chats)
    return list(read(SourceInput(path / "conversations.json", "turns", all_branches)))


def turns(found: list[SourceItem]) -> list[tuple[str, int, str, str]]:
    return [(one.thread, one.seq, one.source, one.text) for one in found if isinstance(one, Turn)]


def faults(found: list[SourceItem]) -> dict[str, str]:
    return {one.position: one.reason for one in found if isinstance(one, Fault)}


def test_the_current_branch_becomes_turns(tmp_path: Path) -> None:
    found = found_in(tmp_path, branched())

    assert turns(found) == [
        ("trip", 2, "user", "Where is Oslo?"),
        ("trip", 3, "assistant", "In Norway."),
        ("trip", 4, "user", "How old is it?"),
        ("trip", 5, "assistant", "About 1,000 years."),
    ]
    assert faults(found) == {
        "conversations.json[0], message sys": "a message of the role 'system' is not imported",
        "conversations.json[0], message q2": (
            "it is on another branch of the conversation; --all-branches imports it"
        ),
        "conversations.json[0], message a2": (
            "it is on another branch of the conversation; --all-branches imports it"
        ),
    }
    first, second = [one for one in found if isinstance(one, Turn)][:2]
    assert (first.created_at, dict(first.data)) == (
        BEGAN_MS,
        {"title": "Chat trip", "parent": "sys"},
    )
    assert dict(second.data) == {"title": "Chat trip", "model": "gpt-4o", "parent": "q1"}


def test_all_branches_are_read_in_depth_first_order(tmp_path: Path) -> None:
    found = found_in(tmp_path, branched(), all_branches=True)

    imported = [one for one in found if isinstance(one, Turn)]
    assert [one.text for one in imported] == [
        "Where is Oslo?",
        "In Norway.",
        "How big is it?",
        "454 square kilometers.",
        "How old is it?",
        "About 1,000 years.",
    ]
    assert [one.seq for one in imported] == [2, 3, 4, 5, 6, 7]
    assert [one.data["parent"] for one in imported] == ["sys", "q1", "a1", "q2", "a1", "q3"]
    assert len({one.id for one in imported}) == 6


def test_both_modes_give_a_message_the_same_id(tmp_path: Path) -> None:
    ids = []
    for all_branches in (False, True):
        found = found_in(tmp_path, branched(), all_branches=all_branches)
        ids.append({one.id for one in found if isinstance(one, Turn)})

    assert ids[0] < ids[1]


def test_only_text_is_imported(tmp_path: Path) -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1"}
    voice = {"content_type": "audio_transcription", "text": "Hello there", "direction": "in"}
    sound = {"content_type": "audio_asset_pointer", "asset_pointer": "file-service://file-2"}
    code = {"content_type": "code", "language": "python", "text": "1 + 1"}
    messages = [
        message("m0", "user", image, "What is this?"),
        message("m1", "assistant", "A cat."),
        message("m2", "user", image),
        message("m3", "user", voice, sound),
        message("m4", "assistant", content=code),
        message("m5", "tool", "2"),
        message("m6", "assistant", "Lives in Oslo", recipient="bio"),
        message("m7", "assistant", content=None),
    ]
    names = [one["id"] for one in messages]
    nodes = [
        node(name, names[place - 1] if place else None, *names[place + 1 :][:1], message=given)
        for place, (name, given) in enumerate(zip(names, messages, strict=True))
    ]

    found = found_in(tmp_path, chat("c", nodes, "m7"))

    assert [text for *_, text in turns(found)] == ["What is this?", "A cat.", "Hello there"]
    start = "conversations.json[0], message"
    assert faults(found) == {
        f"{start} m0, part 0": "an image is not imported",
        f"{start} m2, part 0": "an image is not imported",
        f"{start} m3, part 1": "a part of the type 'audio_asset_pointer' is not imported",
        f"{start} m4": "content of the type 'code' is not imported",
        f"{start} m5": "a message of the role 'tool' is not imported",
        f"{start} m6": "a message to the tool 'bio' is not imported",
        f"{start} m7": "it is not a JSON object",
    }


def cycles() -> Iterator[Any]:
    """Conversations with a cycle, by parents, by children, and beside the current branch."""
    yield chat("c", [said("a", "b", "user", "x", "b"), said("b", "a", "user", "y", "a")], "b")
    yield chat("c", [said("a", "", "user", "x", "b"), said("b", "a", "user", "y", "a")], "b")
    loop = [said("x", "y", "user", "x"), said("y", "x", "user", "y")]
    yield chat("c", [said("a", "", "user", "hello"), *loop], "a")
    yield chat("c", [said("a", "a", "user", "x")], "a")


@pytest.mark.parametrize("broken", list(cycles()))
@pytest.mark.parametrize("all_branches", [False, True])
def test_a_conversation_with_a_cycle_is_left_out(
    tmp_path: Path, broken: Any, all_branches: bool
) -> None:
    found = found_in(tmp_path, branched("p"), broken, branched("q"), all_branches=all_branches)

    assert {thread for thread, *_ in turns(found)} == {"p", "q"}
    assert "has a cycle through the node" in faults(found)["conversations.json[1]"]


@pytest.mark.timeout(60)
def test_a_node_may_have_an_empty_id(tmp_path: Path) -> None:
    root = node("", None, "a", message=message("m", "user", "x"))
    nodes = [root, said("a", "", "assistant", "y")]

    found = found_in(tmp_path, chat("c", nodes, "a"))

    assert turns(found) == [("c", 0, "user", "x"), ("c", 1, "assistant", "y")]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (7, "it is not a JSON object"),
        ({"id": "c"}, "`mapping` is not a JSON object"),
        (branched() | {"id": None, "conversation_id": ""}, "the conversation has no id"),
        (chat("c", [node("a", None)], "z"), "the conversation has no messages"),
        ({"id": "c", "mapping": {"a": 1}}, "the node 'a' of `mapping` is not a JSON object"),
        ({"id": "c", "mapping": {"a": {"parent": 1}}}, "`parent` of the node 'a' is not a text"),
        ({"id": "c", "mapping": {"a": {"children": 1}}}, "`children` of the node 'a' is not a"),
    ],
)
def test_a_malformed_conversation_is_left_out(tmp_path: Path, broken: Any, reason: str) -> None:
    found = found_in(tmp_path, broken, branched("q"))

    assert {thread for thread, *_ in turns(found)} == {"q"}
    assert faults(found)["conversations.json[0]"].startswith(reason)


def test_a_message_without_a_time_has_the_time_of_its_conversation(tmp_path: Path) -> None:
    untimed = message("a", "user", "hello", create_time=None)
    wrong = message("b", "user", "hello", create_time="yesterday")
    nodes = [node("a", None, "b", message=untimed), node("b", "a", message=wrong)]

    found = found_in(tmp_path, chat("c", nodes, "b", create_time=BEGAN + 1))

    assert [one.created_at for one in found if isinstance(one, Turn)] == [BEGAN_MS + 1000]
    (reason,) = faults(found).values()
    assert reason == 'the date "yesterday" has an unknown form'


def test_all_conversation_files_of_a_zip_are_read(tmp_path: Path) -> None:
    entries = {
        "conversations-000.json": orjson.dumps([branched("p")]),
        "conversations-001.json": orjson.dumps([branched("q"), 7]),
        "user.json": b"{}",
        "chat.html": b"<html>",
        "file-1.png": b"png",
    }
    path = write_zip(tmp_path / "export.zip", entries, ZIP_DEFLATED)

    found = list(read(SourceInput(path)))

    assert detect(path)
    assert {thread for thread, *_ in turns(found)} == {"p", "q"}
    assert faults(found)["conversations-001.json[1]"] == "it is not a JSON object"


def test_a_zip_without_conversations_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "export.zip", {"user.json": b"{}"})

    assert not detect(path)
    with pytest.raises(RefusedFile, match="has no conversations"):
        list(read(SourceInput(path)))


def test_the_structure_of_a_file_is_recognized(tmp_path: Path) -> None:
    path = write_chats(tmp_path / "any-name.json", long_chat(1, 3, "x"))
    other = tmp_path / "other.json"
    other.write_text('[{"memory": "likes \\"mapping\\": and parent", "id": "1"}]')

    assert detect(path) and not detect(other)


def test_a_branch_of_5_000_messages_is_read(tmp_path: Path) -> None:
    found = found_in(tmp_path, long_chat(1, 5_000, "x"))

    assert [seq for _, seq, _, _ in turns(found)] == list(range(1, 5_001))
