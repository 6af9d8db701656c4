"""Files of Zep CE. The fixtures come from PostgreSQL and zep-python (makers/zep.py)."""

from pathlib import Path

import pytest

from memrelay.memory.transfer.importers.source import Fault, RefusedFile, SourceItem, Turn
from tests.support.foreign import FIXTURES, read_file, sources_of

TEXTS = [
    ("s1", "lin", "Lin", "Hi, it's me: 'Lin'."),
    ("s1", "lin", "bot", "Hello Lin;\nhow can I help?\n); -- not the end"),
    ("s1", "lin", "Lin", "C:\\temp\\ är voll, 50 % 🚀"),
    ("s2", "mo", "Mo", "Forget this."),
    ("s2", "mo", "Mo", "NULL, 'quoted', (nested)"),
    ("s3", None, "", "Nobody owns this session."),
]


def read(path: Path) -> list[SourceItem]:
    return read_file("zep", path)


def turns(path: Path) -> list[Turn]:
    found = read(path)
    assert all(isinstance(one, Turn) for one in found), found
    return [one for one in found if isinstance(one, Turn)]


@pytest.mark.parametrize("name", ["zep.sql", "zep_columns.sql", "zep_messages.csv", "zep.json"])
def test_each_export_gives_the_same_turns(name: str) -> None:
    found = turns(FIXTURES / name)

    assert [(one.thread, one.owner, one.source, one.text) for one in found] == TEXTS
    assert [one.seq for one in found] == [1, 2, 3, 4, 5, 6]
    assert [one.created_at for one in found] == [1777888800250 + n * 1000 for n in range(1, 7)]
    assert [one.deleted_at for one in found] == [None] * 3 + [1777888804250] + [None] * 2
    assert found[0].data == {"role_type": "user", "token_count": 1, "metadata": {"lang": "en"}}
    assert {one.id for one in found} == {one.id for one in turns(FIXTURES / "zep.sql")}
    assert sources_of(FIXTURES / name) == ["zep"]


def test_an_answer_of_the_api_is_the_session_of_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "s1.json"
    path.write_bytes((FIXTURES / "zep_rest.json").read_bytes())

    found = turns(path)

    assert [(one.thread, one.text) for one in found] == [(one[0], one[3]) for one in TEXTS[:3]]
    assert [one.id for one in found] == [one.id for one in turns(FIXTURES / "zep.sql")[:3]]
    assert sources_of(path) == ["zep"]


def test_answers_with_session_and_user_are_read_line_by_line(tmp_path: Path) -> None:
    message = '{"uuid": "a", "role": "user", "content": "Hi", "created_at": "2026-01-01"}'
    fact = '{"fact": "Ada likes tea"}'
    path = tmp_path / "all.jsonl"
    path.write_text(
        f'{{"session_id": "x", "user_id": "ada", "messages": [{message}]}}\n'
        f'{{"session_id": "y", "messages": [{message}, 5], "relevant_facts": [{fact}]}}\n'
        "{broken\n"
    )

    first, second, number, derived, broken = read(path)

    assert isinstance(first, Turn) and isinstance(second, Turn)
    assert (first.thread, first.owner, first.position) == ("x", "ada", "messages[0]")
    assert (second.thread, second.owner, second.position) == ("y", None, "line 2, messages[0]")
    assert number == Fault("line 2, messages[1]", "it is not a JSON object")
    assert isinstance(derived, Fault) and derived.position == "line 2, relevant_facts[0]"
    assert isinstance(broken, Fault) and broken.position == "line 3"


def test_a_dump_with_many_rows_per_insert_is_read_by_row(tmp_path: Path) -> None:
    def row(number: int, content: str) -> str:
        return (
            f"('u{number}', {number}, '2026-01-01 00:00:00+00', NULL, NULL, 's', 'p', 'user', "
            f"'user', '{content}', 0, NULL)"
        )

    path = tmp_path / "dump.sql"
    path.write_text(
        "INSERT INTO public.messages VALUES\n\t"
        + ",\n\t".join([row(1, "two\nlines"), row(2, ""), row(3, "it''s")])
        + ";\nINSERT INTO public.other VALUES ('x');\n"
    )

    first, empty, last = read(path)

    assert isinstance(first, Turn) and isinstance(last, Turn)
    assert (first.position, first.text) == ("line 2", "two\nlines")
    assert empty == Fault("line 4", "the text is empty")
    assert (last.position, last.text) == ("line 5", "it's")


def test_the_messages_of_a_deleted_session_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "zep.json"
    path.write_text(
        '{"messages": [{"uuid": "a", "id": 1, "session_id": "s", "content": "Hi"}], '
        '"sessions": [{"session_id": "s", "user_id": "u", "deleted_at": 1700000000}]}'
    )

    (found,) = turns(path)

    assert (found.owner, found.deleted_at) == ("u", 1_700_000_000_000)


def test_a_folder_of_csv_files_has_the_users_of_its_sessions(tmp_path: Path) -> None:
    (tmp_path / "messages.csv").write_text(
        'uuid,id,session_id,role,content,created_at\na,1,s,user,"one ""two""",1700000000\n'
    )
    (tmp_path / "sessions.csv").write_text("session_id,user_id\ns,ada\n")

    (found,) = turns(tmp_path)

    assert (found.owner, found.text, found.created_at) == ("ada", 'one "two"', 1_700_000_000_000)
    assert sources_of(tmp_path) == ["zep"]


def test_faults_of_rows_leave_out_only_these_rows(tmp_path: Path) -> None:
    path = tmp_path / "messages.csv"
    path.write_text(
        "uuid,id,session_id,role,content,created_at,metadata\n"
        "a,1,s,user,fine,2026-01-01,\n"
        "b,2,s,user,late,yesterday,\n"
        "c,x,s,user,number,2026-01-01,\n"
        "d,4,,user,no session,2026-01-01,\n"
        "e,5,s,user,short\n"
        'f,6,s,user,json,2026-01-01,"{"\n'
    )

    found = read(path)

    assert isinstance(found[0], Turn)
    assert [(one.position, one.reason) for one in found[1:] if isinstance(one, Fault)] == [
        ("line 3", 'the date "yesterday" has an unknown form'),
        ("line 4", 'the id "x" is not a number'),
        ("line 5", "the message has no `session_id`"),
        (
            "line 6",
            "the row has 5 values instead of 7; for a dump, use "
            "`pg_dump --data-only --column-inserts`",
        ),
        ("line 7", "`metadata` is not valid JSON"),
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("-- x\nCOPY public.messages (uuid) FROM stdin;\n", "--inserts"),
        ("INSERT INTO public.messages VALUES ('a\n", "ends within the statement of line 1"),
        ("a,b,c\n1,2,3\n", "session_id"),
        ('session_id,content\n"a,b\n', "line 2"),
        ('{"messages": [', "not valid JSON"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)

    with pytest.raises(RefusedFile, match=rule):
        read(path)


def test_the_notes_say_what_is_not_imported(tmp_path: Path) -> None:
    notes: list[str] = []
    read_file("zep", FIXTURES / "zep.sql", notes)
    assert [note for note in notes if "metadata of Zep's users" in note]

    empty = tmp_path / "empty.sql"
    empty.write_text("-- PostgreSQL database dump\n")
    assert read_file("zep", empty, notes) == []
    assert notes[-1] == "the file has no messages of Zep"
