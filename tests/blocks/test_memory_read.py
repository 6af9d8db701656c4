"""memory_read: the tables of the seed, and our order, limit, offset and size limit."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memrelay.memory.engine.store import Store
from tests.blocks.calls import MEMORY_ID, NOW, args_of, ask, ask_store, envelope, read_json
from tests.memory.builders import fresh_store, make_store, write_all

ODD = st.text(st.sampled_from('a"\\\n\x00\x01é🫖'), min_size=1)


def read(store: Store, text: str = "", **args: Any) -> Any:
    return ask_store("memory_read", text, store, **args)


def contents(records: list[dict[str, Any]]) -> list[str]:
    return [record["content"] for record in records]


def test_an_empty_store_returns_an_empty_array(tmp_path: Path) -> None:
    assert read(make_store(tmp_path)) == []


def test_a_record_has_the_fields_of_the_schema(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea", scope="s", kind="k", source="src", tags=("a", "b"))

    (record,) = read(store)

    fixed = {
        "guid": guid,
        "scope": "s",
        "kind": "k",
        "content": "tea",
        "source": "src",
        "tags": ["a", "b"],
    }
    assert record == fixed | {"created_at": NOW, "updated_at": NOW}


@pytest.mark.parametrize("text", ["", "ignored", "/read all"])
def test_the_text_is_ignored(tmp_path: Path, text: str) -> None:
    store = make_store(tmp_path)
    write_all(store, "one", "two")

    assert contents(read(store, text)) == ["one", "two"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"kind": "summary"}, ["kind"]),
        ({"scope": "s"}, ["scope"]),
        ({"source": "src"}, ["source"]),
        ({"kind": "summary", "scope": "s"}, []),
        ({"kind": "", "scope": "", "source": ""}, ["kind", "scope", "source"]),
        ({"order": "desc"}, ["source", "scope", "kind"]),
        ({"limit": 1}, ["kind"]),
        ({"limit": 0}, []),
        ({"limit": "2", "offset": "1"}, ["scope", "source"]),
        ({"limit": 2**63, "offset": 2}, ["source"]),
        ({"limit": 10**30, "offset": 2}, ["source"]),
        ({"offset": 10**30}, []),
    ],
)
def test_arguments_filter_the_result(
    tmp_path: Path, args: dict[str, Any], expected: list[str]
) -> None:
    store = make_store(tmp_path)
    write_all(store, "kind", kind="summary")
    write_all(store, "scope", scope="s")
    write_all(store, "source", source="src")

    assert contents(read(store, **args)) == expected


@pytest.mark.parametrize(
    "args",
    [
        {"limit": -1},
        {"limit": 1.5},
        {"limit": "many"},
        {"offset": -1},
        {"order": "random"},
        {"order": "ASC"},
        {"guid": "x"},
    ],
)
def test_invalid_arguments_are_an_error_at_deploy(args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        args_of("memory_read", memory_id=MEMORY_ID, **args)


def test_a_missing_memory_id_is_an_error() -> None:
    said = ask("memory_read", "")

    assert said is not None
    assert "memory_id" in read_json(said)["error"]


def test_a_template_formats_each_record_as_plain_text(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "one", "two")

    said = envelope(
        "memory_read", "", store, memory_id=MEMORY_ID, output_template="{{content}}\n\n"
    )

    (part,) = said["args"]
    assert (part["type"], part["text"]) == ("text/plain", "one\n\ntwo\n\n")


def test_a_template_without_records_returns_an_empty_text(tmp_path: Path) -> None:
    said = envelope(
        "memory_read", "", make_store(tmp_path), memory_id=MEMORY_ID, output_template="{{content}}"
    )

    (part,) = said["args"]
    assert (part["type"], part["text"]) == ("text/plain", "")


@pytest.mark.parametrize("template", ["", "{{content}}\n"])
@pytest.mark.parametrize("args", [{}, {"order": "desc"}, {"offset": 3}, {"kind": "k"}])
def test_a_result_longer_than_a_message_has_the_first_records_and_counts_the_others(
    tmp_path: Path, template: str, args: dict[str, Any]
) -> None:
    store = make_store(tmp_path)
    write_all(store, *[f"{number} " * 500 for number in range(20)], kind="k")
    write_all(store, "other")
    args = args | {"memory_id": MEMORY_ID, "output_template": template}
    whole = envelope("memory_read", "", store, **args)

    said = envelope("memory_read", "", store, message_bytes=10_000, **args)

    assert len(orjson.dumps(said)) <= 10_000 and said["left_out"] > 0
    if template:
        texts = [one["args"][0]["text"] for one in (said, whole)]
        assert texts[1].startswith(texts[0])
        assert texts[1].count("\n") - texts[0].count("\n") == said["left_out"]
    else:
        records = read_json(whole)
        assert read_json(said) == records[: len(records) - said["left_out"]]


def test_a_limited_result_longer_than_a_message_is_an_error_that_suggests_limit(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    write_all(store, *["x" * 1000] * 20)

    many, few = (
        read_json(
            envelope(
                "memory_read", "", store, memory_id=MEMORY_ID, message_bytes=10_000, limit=most
            )
        )
        for most in (20, 5)
    )

    assert many.keys() == {"error"} and "limit" in many["error"]
    assert len(few) == 5


@given(
    st.lists(ODD, max_size=5),
    st.integers(300, 3000),
    st.sampled_from(["", "{{content}}\n", "{{content|tojson}}"]),
)
def test_a_result_fits_a_message_or_has_left_out_records_or_is_one_long_record(
    texts: list[str], most: int, template: str
) -> None:
    with fresh_store() as store:
        write_all(store, *texts)
        args = {"memory_id": MEMORY_ID, "output_template": template}
        whole = envelope("memory_read", "", store, **args)

        said = envelope("memory_read", "", store, message_bytes=most, **args)

        fits = len(orjson.dumps(whole)) <= most
        if fits:
            assert said == whole
        elif "left_out" in said:
            assert len(orjson.dumps(said)) <= most
        else:
            assert "limit" in read_json(said)["error"]


def test_a_template_may_shorten_long_records(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["x" * 1000] * 30)

    said = envelope(
        "memory_read",
        "",
        store,
        memory_id=MEMORY_ID,
        message_bytes=10_000,
        output_template="{{kind}} ",
    )

    assert said["args"][0]["text"] == "observation " * 30


def test_many_records_are_all_returned(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *map(str, range(3000)))

    assert contents(read(store)) == list(map(str, range(3000)))


def test_a_filter_applies_before_limit_and_offset(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "one", "two", "three", "four")

    wanted = {"content": {"in": ["two", "three", "four"]}}
    assert contents(read(store, filter=wanted, limit=1, offset=1)) == ["three"]
