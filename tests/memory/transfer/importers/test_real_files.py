"""Files as people have them: damaged, saved by an editor or a shell, or one page of a list."""

import json
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.transfer.importers.markdown import split_front_matter
from memrelay.memory.transfer.importers.run import Options, Ready, find_source, read_lines
from memrelay.memory.transfer.importers.source import (
    Edge,
    Fact,
    Fault,
    Node,
    Plain,
    RefusedFile,
    SourceInput,
    SourceItem,
    Turn,
    WrongOption,
)
from tests.support.chatgpt import chat, message, node, said, write_chats, write_zip
from tests.support.foreign import read_file

CASES = Path(__file__).parent / "cases"
ADA = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes tea"]}
TEA: dict[str, Any] = {"type": "entity", "name": "Tea", "entityType": "drink", "observations": []}
LIKES = {"type": "relation", "from": "Ada", "to": "Tea", "relationType": "likes"}
LINES = [json.dumps(one) for one in (ADA, TEA, LIKES)]


def read(path: Path) -> tuple[str, list[SourceItem]]:
    """Return the detected source of a file, and what it reads."""
    name = find_source("auto", SourceInput(path)).name
    return name, read_file(name, path)


def notes_of(path: Path) -> list[str]:
    """Return the notes for the user of an import."""
    notes: list[str] = []
    given = SourceInput(path, note=notes.append)
    list(read_lines(find_source("auto", given), given, Options()))
    return notes


def kinds(found: list[SourceItem]) -> list[type]:
    return [type(one) for one in found]


def texts(found: list[SourceItem]) -> list[str]:
    return [one.text for one in found if isinstance(one, Plain | Turn | Fact)]


def reasons(found: list[SourceItem]) -> list[str]:
    return [one.reason for one in found if isinstance(one, Fault)]


@pytest.mark.parametrize(
    ("file", "items"),
    [
        ("bom_crlf.jsonl", [Node, Node, Edge]),
        ("glued_later_line.jsonl", [Node, Node, Edge]),
        ("json_array.json", [Node, Node, Edge]),
        ("leading_blank_line.jsonl", [Node, Node, Edge]),
        ("odd_names.jsonl", [Node] * 8 + [Edge] * 3),
        ("powershell_utf16.jsonl", [Node, Node, Edge]),
        ("read_graph_saved.json", [Node, Edge]),
        ("truncated_tail.jsonl", [Node, Node, Edge, Fault]),
    ],
)
def test_files_of_the_memory_server_are_read_as_people_save_them(
    file: str, items: list[type]
) -> None:
    name, found = read(CASES / "mcp_memory" / file)

    assert name == "mcp" and kinds(found) == items
    names = [one.name for one in found if isinstance(one, Node)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("content", "items"),
    [
        ("".join(LINES).encode(), [Node, Node, Edge]),
        (f"{LINES[0]}{LINES[1]}\n{LINES[2]}".encode(), [Node, Node, Edge]),
        (f"\r\n\n \n{LINES[2]}\r\n{LINES[0]}\r\n\r\n{LINES[1]}".encode(), [Edge, Node, Node]),
        (f"{LINES[0][:24]}\n{LINES[1]}\n{LINES[2]}".encode(), [Fault, Node, Edge]),
        (f"started\n{LINES[0]}\n{LINES[2]}".encode(), [Fault, Node, Edge]),
        (f"{LINES[0]}\n{LINES[1]} {LINES[2][:30]}".encode(), [Node, Node, Fault]),
        ("\n".join(json.dumps(one, indent=2) for one in (ADA, LIKES)).encode(), [Node, Edge]),
        ("\n".join(LINES).encode("utf-16-be"), [Node, Node, Edge]),
        (("\ufeff" + "\r\n".join(LINES)).encode("utf-16-le")[:-20], [Node, Node, Fault]),
        (json.dumps([TEA, LIKES]).encode("utf-16"), [Node, Edge]),
        (("\ufeff\n" + json.dumps({"relations": [LIKES], "entities": [ADA]})).encode(), None),
        (json.dumps({"structuredContent": {"entities": [ADA], "relations": [LIKES]}}), None),
        (
            json.dumps({"content": [{"type": "text", "text": json.dumps({"entities": [ADA]})}]}),
            [Node],
        ),
    ],
)
def test_other_files_of_the_memory_server_are_read_too(
    tmp_path: Path, content: bytes | str, items: list[type] | None
) -> None:
    path = tmp_path / "graph.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    name, found = read(path)

    assert name == "mcp" and kinds(found) == (items or [Node, Edge])


def test_utf_32_is_named(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    path.write_bytes("\n".join(LINES).encode("utf-32"))

    with pytest.raises(RefusedFile, match="is UTF-32; save it as UTF-8"):
        read_file("mcp", path)


def test_odd_scopes_of_mem0_are_kept() -> None:
    name, found = read(CASES / "mem0" / "odd_scopes.json")

    facts = [one for one in found if isinstance(one, Fact)]
    assert name == "mem0" and len(facts) == len(found) == 6
    assert [(one.memory.removeprefix("mem0/"), one.owner) for one in facts] == [
        ("shop-bot", None),
        ("42", "42"),
        ("ada", "ada"),
        ("ada", "ada"),
        ("Ada.Lovelace+test@example.org", "Ada.Lovelace+test@example.org"),
        ("team/blue", "team/blue"),
    ]
    assert facts[2].expires_at == 4_102_444_799_999  # 2099-12-31T23:59:59.999Z
    assert facts[3].data["k"] == 1


def test_memories_of_mem0_without_a_scope_or_with_other_names_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "any"
    memories = [
        {"hash": "h", "id": "1", "memory": "a"},
        {"id": "2", "memory": "b", "userId": "ada", "createdAt": "2026-01-01", "metadata": [1]},
    ]
    path.write_text(json.dumps({"results": memories}))

    name, found = read(path)

    first, second = [one for one in found if isinstance(one, Fact)]
    assert name == "mem0" and (first.memory, second.memory) == ("mem0", "mem0/ada")
    assert second.created_at == 1_767_225_600_000 and second.data["metadata"] == [1]


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"count": 250, "next": "https://api.mem0.ai/?page=2"}, "2 of 250 items"),
        ({"next": "https://api.mem0.ai/?page=2"}, "names a next page"),
        ({"page": 1, "pages": 3}, "page 1 of 3"),
        ({"total": 2, "next": None}, ""),
        ({}, ""),
    ],
)
def test_one_page_of_a_longer_list_is_named(
    tmp_path: Path, fields: dict[str, Any], note: str
) -> None:
    memories = [{"id": str(at), "memory": f"m{at}", "user_id": "ada"} for at in range(2)]
    path = tmp_path / "page.json"
    path.write_text(json.dumps({"results": memories} | fields))

    notes = notes_of(path)

    assert (note in notes[0]) if note else notes == []


def test_the_page_of_mem0s_platform_is_named() -> None:
    assert "2 of 250 items" in notes_of(CASES / "mem0" / "platform_page1.json")[0]


def test_conversations_of_claude_are_read() -> None:
    name, found = read(CASES / "claude" / "conversations.json")

    assert name == "claude"
    assert [(one.source, one.seq, one.text) for one in found if isinstance(one, Turn)] == [
        (
            "user",
            0,
            "Minutes of the house meeting: the roof is repaired in May, Bo pays the deposit.",
        ),
        ("assistant", 1, "I found three offers."),
    ]
    assert reasons(found) == [
        "a thought of the model is not imported",
        "the use of a tool is not imported",
        "the result of a tool is not imported",
        "the conversation has no messages",
    ]


def claude_message(ident: str, sender: str, time: str, **fields: Any) -> dict[str, Any]:
    return {"uuid": ident, "sender": sender, "text": ident, "created_at": time} | fields


@pytest.mark.parametrize(
    "messages",
    [
        [
            claude_message("answer 2", "assistant", "2026-01-01T00:00:02Z"),
            claude_message("question 2", "human", "2026-01-01T00:00:02Z"),
            claude_message("answer 1", "assistant", "2026-01-01T00:00:01Z"),
            claude_message("question 1", "human", "2026-01-01T00:00:01Z"),
        ],
        [
            claude_message("question 1", "human", "2026-01-01T00:00:01Z"),
            claude_message("question 2", "human", "2026-01-01T00:00:03Z"),
            claude_message(
                "answer 1", "assistant", "2026-01-01T00:00:01Z", parent_message_uuid="question 1"
            ),
            claude_message(
                "answer 2", "assistant", "2026-01-01T00:00:02Z", parent_message_uuid="question 2"
            ),
        ],
    ],
)
def test_an_answer_of_claude_follows_its_question(
    tmp_path: Path, messages: list[dict[str, Any]]
) -> None:
    export = [{"chat_messages": messages, "uuid": "c", "name": "x"}]
    path = write_zip(tmp_path / "data.zip", {"x/conversations.json": json.dumps(export).encode()})

    name, found = read(path)

    turns = sorted((one for one in found if isinstance(one, Turn)), key=lambda turn: turn.seq)
    assert name == "claude"
    assert [one.text for one in turns] == ["question 1", "answer 1", "question 2", "answer 2"]
    times = [one.created_at or 0 for one in turns]
    assert times == sorted(times)


def test_a_turn_of_claude_with_tools_only_is_reported(tmp_path: Path) -> None:
    placeholder = "```\nThis block is not supported on your current device yet.\n```"
    tool = [{"type": "tool_use", "name": "search"}]
    files = [{"file_name": "a.png"}]
    messages = [
        claude_message("m1", "human", "2026-01-01", text="", files=files, attachments=files),
        claude_message("m2", "assistant", "2026-01-01", text=placeholder, content=tool),
        claude_message("m3", "system", "2026-01-01"),
    ]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"uuid": "c", "chat_messages": messages}]))

    name, found = read(path)

    assert name == "claude" and texts(found) == []
    assert reasons(found) == [
        "an attachment without text is not imported",
        "a file is not imported",
        "the use of a tool is not imported",
        "a message of the sender 'system' is not imported",
    ]


def test_conversations_of_chatgpt_are_read() -> None:
    name, found = read(CASES / "chatgpt" / "conversations.json")

    turns = [one for one in found if isinstance(one, Turn)]
    assert name == "chatgpt" and [one.text[:20] for one in turns] == [
        "Where can I leave my",
        "There is a covered r",
        "What plant is this?",
        "Probably a Monstera.",
        "Hello, is anyone the",
        "Remember that the bo",
        "Noted.",
    ]
    assert [turns[at].data.get("model") for at in range(4)] == [
        None,
        "gpt-5-thinking",
        None,
        "gpt-5-mini",
    ]


def test_hidden_messages_of_chatgpt_are_not_the_users_words(tmp_path: Path) -> None:
    hidden = message("h", "user", "My profile", metadata={"is_user_system_message": True})
    shadow = message("s", "user", "x", metadata={"is_visually_hidden_from_conversation": True})
    nodes = [
        node("h", None, "s", message=hidden),
        node("s", "h", "q", message=shadow),
        said("q", "s", "user", "Hello"),
    ]
    path = write_chats(tmp_path / "c.json", chat("c", nodes, "q"))

    for all_branches in (False, True):
        given = SourceInput(path, all_branches=all_branches)
        found = list(find_source("auto", given).read(given))
        assert texts(found) == ["Hello"]


def test_an_answer_of_chatgpt_is_not_earlier_than_its_question(tmp_path: Path) -> None:
    question = message("q", "user", "Why?", create_time=1_700_000_100)
    untimed = message("b", "user", "And?", create_time=None)
    nodes = [
        node("q", None, "a", message=question),
        said("a", "q", "assistant", "Because.", "b"),
        node("b", "a", "z", message=untimed),
        said("z", "b", "assistant", "Yes."),
    ]
    path = write_chats(tmp_path / "c.json", chat("c", nodes, "z", create_time=1))

    _, found = read(path)

    turns = [one for one in found if isinstance(one, Turn)]
    assert [one.created_at for one in turns] == [1_700_000_100_000] * 4


def test_zips_and_folders_are_recognized_by_what_they_hold(tmp_path: Path) -> None:
    chatgpt = (CASES / "chatgpt" / "conversations.json").read_bytes()
    claude = (CASES / "claude" / "conversations.json").read_bytes()
    vault = {"v/a.md": b"# A", "v/.obsidian/x.md": b"x", "v/b.png": b"png"}

    found = {}
    for name, entries in {
        "claude.bin": {"conversations.json": chatgpt, "users.json": b"[]"},
        "chatgpt.zip": {"conversations.json": claude},
        "notes.zip": vault,
    }.items():
        found[name] = read(write_zip(tmp_path / name, entries))
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    (unpacked / "conversations.json").write_bytes(claude)

    assert [name for name, _ in found.values()] == ["chatgpt", "claude", "markdown"]
    assert read(unpacked)[0] == "claude"
    assert texts(found["notes.zip"][1]) == ["# A"]
    assert reasons(found["notes.zip"][1]) == ["only Markdown files are imported from a folder"]


def test_a_vault_of_obsidian_is_read(tmp_path: Path) -> None:
    vault = tmp_path / "Home"
    (vault / "Sub").mkdir(parents=True)
    (vault / "Roof.md").write_bytes(
        b"\xef\xbb\xbf---\r\ntags: [house, '#roof']\r\ncreated: 2026-01-02\r\naliases: [Dach]\r\n"
        b"1: !!binary aGk=\r\n---\r\nSee [[Bo|him]], [[Sub/Plan#May]]. #urgent #2024 a#b\r\n"
        b"```\r\n#no\r\n```\r\n"
    )
    (vault / "Sub" / "Plan.md").write_text("---\nkey: *alias\n---\ntext", encoding="utf-16")
    (vault / "Broken.md").write_bytes(b"\xff\x00\xfe")

    name, found = read(vault)

    first, roof, plan = found
    assert name == "markdown" and isinstance(roof, Plain) and isinstance(plan, Plain)
    assert isinstance(first, Fault) and first.position == "Broken.md"
    assert (roof.key, plan.key) == ("markdown/Home/Roof.md", "markdown/Home/Sub/Plan.md")
    assert roof.text.startswith("See [[Bo|him]]") and roof.created_at == 1_767_312_000_000
    assert roof.tags == ("house", "roof", "urgent")
    assert roof.data["links"] == ["Bo", "Sub/Plan"] and roof.data["aliases"] == ["Dach"]
    assert plan.text == "---\nkey: *alias\n---\ntext"


@pytest.mark.parametrize(
    "fields", ["!!bool x", "!!timestamp x", "a: *b", "[", "- a", "a: !!python/object:x {}"]
)
def test_front_matter_that_is_no_yaml_object_stays_in_the_text(fields: str) -> None:
    text = f"---\n{fields}\n---\nbody"

    assert split_front_matter(text) == ({}, text)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"id,text,tags\n1,one,\"a,b\"\n", [("csv/t.csv/1", "one", ("a", "b"))]),
        (b"\xef\xbb\xbf\r\nID;Note\r\n7;\"x; y\nz\"\r\n;w\r\n", [
            ("csv/t.csv/7", "x; y\nz", ()), (None, "w", ())
        ]),
        ("Body\tdate\nä\t2026-01-01\n".encode("utf-16"), [(None, "ä", ())]),
    ],
)  # fmt: skip
def test_tables_are_read(tmp_path: Path, content: bytes, expected: list[Any]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)

    name, found = read(path)

    assert name == "csv"
    assert [(one.key, one.text, one.tags) for one in found if isinstance(one, Plain)] == expected


def test_a_table_without_a_known_column_names_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"who,what\nada,caf\xe9\nbo,tea,x\n")
    source = find_source("auto", SourceInput(path))

    with pytest.raises(WrongOption, match="--content: who, what"):
        list(source.read(SourceInput(path)))
    assert reasons(list(source.read(SourceInput(path, content="what")))) == [
        "the row is not UTF-8; save the table as CSV in UTF-8",
        "the row has 3 values instead of 2",
    ]
    assert texts(list(source.read(SourceInput(path, content="who")))) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('["one", "two"]', ["one", "two"]),
        ('"one"\n"two"\n', ["one", "two"]),
        ('{"text": "one", "tags": "a, b"}\n{"note": "two"}', ["one", "two"]),
        ('\n{"notes": [{"body": "one"}, "two"]}', ["one", "two"]),
    ],
)
def test_notes_are_read(tmp_path: Path, content: str, expected: list[str]) -> None:
    path = tmp_path / "notes"
    path.write_text(content)

    name, found = read(path)

    assert name == "notes" and texts(found) == expected


def test_notes_of_many_languages_are_read() -> None:
    name, found = read(CASES / "mixed_language.jsonl")

    assert name == "notes" and kinds(found) == [Plain] * 12


def test_memories_of_openmemory_are_read(tmp_path: Path) -> None:
    memory = {"id": "1", "content": "likes tea", "created_at": 1_700_000_000, "app_id": "a"}
    page = {"items": [memory | {"state": "active", "metadata_": {"k": 1}, "categories": ["x"]}]}
    (tmp_path / "page.json").write_text(json.dumps(page))
    backup = {"memories": [memory | {"user_id": "ada", "state": "deleted"}, memory]}
    path = write_zip(tmp_path / "b.zip", {"memories.json": json.dumps(backup).encode()})
    other = {"items": [memory | {"primary_sector": "semantic", "tags": '["t"]'}]}
    (tmp_path / "other.json").write_text(json.dumps(other))

    found = [read(one) for one in (tmp_path / "page.json", path, tmp_path / "other.json")]

    assert [name for name, _ in found] == ["openmemory"] * 3
    (fact,) = found[0][1]
    assert isinstance(fact, Fact) and (fact.memory, fact.tags) == ("openmemory/a", ("x",))
    assert fact.data["k"] == 1
    assert reasons(found[1][1]) == ["it is deleted in OpenMemory"] and len(found[1][1]) == 2
    (fact,) = found[2][1]
    assert isinstance(fact, Fact) and fact.tags == ("t",)


def test_a_page_of_items_that_are_left_out_counts_as_whole(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"results": [{"memory": "", "hash": "h"}], "count": 1}))
    given = SourceInput(path)

    outcomes = list(read_lines(find_source("auto", given), given, Options()))

    assert not any(isinstance(one, Ready) for one in outcomes) and notes_of(path) == []
