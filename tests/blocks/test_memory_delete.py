"""memory_delete: guid, then text, then kind, as in the seed; and `by` to delete a kind."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memrelay.memory.engine.store import Store
from tests.blocks.calls import MEMORY_ID, args_of, ask, ask_store, read_json
from tests.memory.builders import assert_sound, contents, make_guid, make_store, read_all, write_all


def delete(store: Store, text: str | None = "", **args: Any) -> Any:
    return ask_store("memory_delete", text, store, **args)


def test_the_record_of_the_guid_argument_is_deleted(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    first, _ = write_all(store, "one", "two")

    assert delete(store, guid=first) == {"deleted": 1}
    assert contents(read_all(store)) == ["two"]


@pytest.mark.parametrize("around", ["{}", " {}\n", "\t{} "])
def test_without_a_guid_argument_the_text_is_the_guid(tmp_path: Path, around: str) -> None:
    store = make_store(tmp_path)
    first, _ = write_all(store, "one", "two")

    assert delete(store, around.format(first), guid="") == {"deleted": 1}
    assert contents(read_all(store)) == ["two"]


def test_the_guid_argument_takes_precedence_over_the_text(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    first, second = write_all(store, "one", "two")

    assert delete(store, second, guid=first) == {"deleted": 1}
    assert contents(read_all(store)) == ["two"]


@pytest.mark.parametrize("text", ["", None, "  "])
def test_without_guid_and_text_all_records_of_the_kind_are_deleted(
    tmp_path: Path, text: str | None
) -> None:
    store = make_store(tmp_path)
    write_all(store, "one", "two", kind="temp")
    write_all(store, "three")

    assert delete(store, text, kind="temp") == {"deleted": 2}
    assert contents(read_all(store)) == ["three"]
    assert_sound(store.path)


def test_any_text_takes_precedence_over_the_kind(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "one", kind="temp")

    assert delete(store, "clear everything", kind="temp") == {"deleted": 0}
    assert len(read_all(store)) == 1


@pytest.mark.parametrize("text", ["clear everything", ""])
def test_by_kind_ignores_the_text_and_the_guid(tmp_path: Path, text: str) -> None:
    store = make_store(tmp_path)
    write_all(store, "one", "two", kind="temp")
    (kept,) = write_all(store, "three")

    assert delete(store, text, by="kind", kind="temp", guid=kept) == {"deleted": 2}
    assert contents(read_all(store)) == ["three"]


def test_by_guid_never_deletes_a_kind(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "one", kind="temp")

    skipped = delete(store, "", by="guid", kind="temp")
    deleted = delete(store, guid, by="guid", kind="temp")

    assert (skipped, deleted) == ({"skipped": "no query"}, {"deleted": 1})


@pytest.mark.parametrize(
    ("text", "args"),
    [("", {}), (None, {}), (" \n", {}), ("text", {"by": "kind"}), ("", {"by": "guid"})],
)
def test_without_guid_text_and_kind_nothing_is_deleted(
    tmp_path: Path, text: str | None, args: dict[str, Any]
) -> None:
    store = make_store(tmp_path)
    write_all(store, "one")

    assert delete(store, text, **args) == {"skipped": "no query"}
    assert len(read_all(store)) == 1


@pytest.mark.parametrize("guid", ["nobody", "%", "' OR '1'='1", "*", "x" * 100_000, "\x00"])
def test_an_unknown_guid_deletes_nothing(tmp_path: Path, guid: str) -> None:
    store = make_store(tmp_path)
    write_all(store, "one")

    assert delete(store, guid) == {"deleted": 0}
    assert len(read_all(store)) == 1


def test_a_deleted_record_is_not_deleted_again(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "one")

    assert [delete(store, guid) for _ in range(2)] == [{"deleted": 1}, {"deleted": 0}]
    assert delete(store, make_guid()) == {"deleted": 0}


def test_a_missing_memory_id_is_an_error() -> None:
    said = ask("memory_delete", "x")

    assert said is not None
    assert "memory_id" in read_json(said)["error"]


def test_by_kind_without_a_kind_is_a_warning() -> None:
    (warning,) = args_of("memory_delete", memory_id=MEMORY_ID, by="kind").warnings()

    assert "kind is not set" in warning
    assert args_of("memory_delete", memory_id=MEMORY_ID, by="kind", kind="temp").warnings() == []


def test_by_accepts_only_guid_or_kind() -> None:
    with pytest.raises(ValidationError):
        args_of("memory_delete", memory_id=MEMORY_ID, by="scope")
