"""Records found by query syntax, identifiers and letters, and their order."""

from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.writing import write
from tests.memory.builders import (
    NOW,
    append_to,
    assert_sound,
    contents,
    find,
    fresh_store,
    make_record,
    make_store,
    write_all,
)

NAMES = ["user_name", "user-name", "userName", "User Name"]
DAY = 86_400_000  # ms


def make_shelf(root: Path) -> Store:
    store = make_store(root)
    with store.transaction() as tx:
        write(tx, make_record("green tea", kind="note", tags=("hot", "two words"), now_ms=NOW))
        write(tx, make_record("black tea", kind="fact", scope="other place", now_ms=NOW + DAY))
        write(tx, make_record("iced teapot", kind="note", tags=("cold",), now_ms=NOW + 2 * DAY))
        write(tx, make_record("tea with green leaves", kind="list", now_ms=NOW + 3 * DAY))
    return store


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"green tea"', ["green tea"]),
        ('"tea green"', []),
        ("te*", ["black tea", "green tea", "iced teapot", "tea with green leaves"]),
        ("te* -pot*", ["black tea", "green tea", "iced teapot", "tea with green leaves"]),
        ("tea -green", ["black tea"]),
        ('tea -"green tea"', ["black tea", "tea with green leaves"]),
        ("te* -tea", ["iced teapot"]),
        ("tea kind:note", ["green tea"]),
        ("tea kind:note kind:fact", ["black tea", "green tea"]),
        ('tea scope:"other place"', ["black tea"]),
        ("te* tag:cold", ["iced teapot"]),
        ('tea tag:hot tag:"two words"', ["green tea"]),
        ("tea tag:hot tag:cold", []),
        (f"tea after:{NOW + DAY}", ["black tea", "tea with green leaves"]),
        (f"tea before:{NOW + DAY}", ["green tea"]),
        ("tea after:2023-11-15 before:2023-11-17", ["black tea"]),
        ("tea after:2023-11-15T22:13:20Z before:2023-11-16", ["black tea"]),
        ("tea after:2023-11-15T22:13:20.001Z before:2023-11-16", []),
        ("kind:note", ["iced teapot", "green tea"]),
        ("kind:note -green", ["iced teapot"]),
        ("kind:nothing", []),
        ("-tea", ["black tea", "green tea", "tea with green leaves"]),
        ("kind:", []),
    ],
)
def test_the_query_syntax_finds_the_expected_records(
    tmp_path: Path, query: str, expected: list[str]
) -> None:
    found = contents(find(make_shelf(tmp_path), query))

    assert found == expected if query.startswith("kind") else sorted(found) == expected


def test_filters_inside_and_outside_the_query_both_apply(tmp_path: Path) -> None:
    store = make_shelf(tmp_path)

    assert contents(find(store, "tea kind:note", filters={"kind": "note"}, tags=("hot",))) == [
        "green tea"
    ]
    assert find(store, "tea kind:note", filters={"kind": "fact"}) == []
    assert find(store, "te* tag:cold", tags=("hot",)) == []
    assert find(store, "kind:note", filters={"kind": "fact"}) == []
    assert contents(find(store, "kind:note", limit=1)) == ["iced teapot"]


@pytest.mark.parametrize("query", NAMES)
def test_an_identifier_is_found_in_every_spelling(tmp_path: Path, query: str) -> None:
    store = make_store(tmp_path)
    write_all(store, *NAMES, "the name of a user", "username")

    found = contents(find(store, query))

    assert set(NAMES) <= set(found)
    assert ("the name of a user" in found) == (query == "User Name")
    assert ("username" in found) == (query == "userName")


def full_width(text: str) -> str:
    """Return the text in full-width letters and digits."""
    return text.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)})


@pytest.mark.parametrize(
    ("content", "queries", "others"),
    [
        (
            "see v1.2.3 for it",
            ["v1.2.3", "v1", "1.2", "1.2.3", "v 1 2 3", "2.3", '"v1.2"', "v1.*"],
            ["v2.3", "2.1", "v3"],
        ),
        (
            "write to ada.lovelace@example.com",
            ["ada.lovelace@example.com", "ada", "lovelace", "example.com"],
            ["example.ada"],
        ),
        (
            "HTTPServer2 of fooBar",
            [
                "httpserver2",
                "HTTPServer",
                "http_server_2",
                "server",
                "foo-bar",
                "HTTPServer2 bar of",
                "Serv*",
                "foo_b*",
            ],
            ["server_foo", '"2 foo"', "serverhttp", "-server of", "of -foo_bar"],
        ),
        (
            "an iPhone at 3pm for 5eur",
            ["iphone eur", "i phone", "3 pm", "3PM", "iPhone 5", "pm eur at"],
            ["3 am", "at_pm"],
        ),
        (
            "merged 9e63c11a2bff0d1c8d7e6f5a4b3c2d1e0f9a8b7c",
            ["9e63c11", "merged 9e63c11a2bff", "9e63c*"],
            ["e63c11a2", "9e63c1"],
        ),
        ("GPT-4 costs", ["GPT4", "gpt 4", "gpt-4"], ["gpt5"]),
        (
            "日本語のPythonの本。第3章",
            [
                "日",
                "日本",
                "本語",
                "の本",
                "python",
                "Pythonの",
                "第3章",
                "語の python",
                '"本 第"',
                "日*",
            ],
            ["日語", "の日本", "本日", "日本 -章"],
        ),
        (
            "中文 and english",
            ["中", "中文", "文", '"中文 and"', "english 中"],
            ["文中", '"中 and"'],
        ),
        ("안녕하세요 세계", ["안녕", "녕하", "세계", "계", '"하세요 세계"'], ["요안", "안세"]),
        ("ภาษาไทยง่ายมาก น้ำ", ["ภาษา", "ไทย", "ไท", "น้ำ", "ง่าย", "า"], ["ไทยภาษา"]),
        ("naïve café ｶﾀｶﾅ", ["NAIVE", "cafe", "カタ", "ｶﾀ", "ｶﾀｶﾅ"], ["カナタ"]),
        (
            f"{full_width('NHK')} met {full_width('AI')} in {full_width('2024')}",
            ["nhk", "NHK", full_width("NHK"), full_width("nhk"), "ai 2024", "20*", '"met ai in"'],
            ["nh", full_width("NH"), "2023"],
        ),
    ],
)
def test_words_are_found_whole_and_by_parts(
    tmp_path: Path, content: str, queries: list[str], others: list[str]
) -> None:
    store = make_store(tmp_path)
    write_all(store, content, "something else")

    assert [query for query in queries if contents(find(store, query)) != [content]] == []
    assert [query for query in others if find(store, query)] == []


@settings(max_examples=50)
@given(
    st.lists(st.text("ab c", min_size=1, max_size=12), min_size=2, max_size=12),
    st.sampled_from(["a", "a b", "b c", "ab"]),
)
def test_plain_words_keep_the_order_and_scores_of_fts5(texts: list[str], query: str) -> None:
    plain = apsw.Connection(":memory:")
    plain.execute(
        "CREATE VIRTUAL TABLE t USING fts5(content, tokenize = 'unicode61 remove_diacritics 2')"
    )
    stored = [
        text for number, text in enumerate(texts) for text in (text, f"{text} iPhone{number} 日本")
    ]
    plain.executemany("INSERT INTO t VALUES (?)", [(text,) for text in stored])
    wanted = " ".join(f'"{word}"' for word in query.split())
    expected = list(
        plain.execute("SELECT content, -rank FROM t WHERE t MATCH ? ORDER BY rank", (wanted,))
    )

    with fresh_store() as store:
        write_all(store, *stored)
        found = [(record.content, record.score) for record in find(store, query)]

    assert found == expected


def test_whole_word_matches_rank_before_part_matches(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    write_all(
        store,
        "userName",
        "user name, in a long text about other things and places of no interest",
        "UserName NameUser",
    )

    found = find(store, "name")

    assert contents(found)[0].startswith("user name, ")
    assert contents(find(store, "name", limit=2)) == contents(found)[:2]
    assert len(find(store, "name", limit=1)) == 1


def test_parts_follow_appends_and_deletions(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    first, second, third = write_all(store, "plain", "userName", "日本", kind="odd")

    with store.transaction() as tx:
        append_to(tx, "fooBar", guid=first)
        append_to(tx, "日本", guid=second)
        delete(tx, DeleteInput(guid=third))
        inside = [len(find(tx, query)) for query in ("bar", "name", "本")]

    assert inside == [len(find(store, query)) for query in ("bar", "name", "本")] == [1, 1, 1]
    store.close()
    assert_sound(store.path)
    with make_store(tmp_path).transaction() as tx:
        delete(tx, DeleteInput(kind="odd"))
        assert find(tx, "bar") == find(tx, "本") == []
    assert_sound(store.path)
