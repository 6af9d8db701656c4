"""Operations: declared once, under one name, with everything that a face needs to know."""

import dataclasses
import pkgutil
from typing import get_args

import pytest
from pydantic import ValidationError

from memrelay.memory import operations
from memrelay.memory.operation import (
    Access,
    Context,
    Operation,
    all_operations,
    find_operation,
    operation,
)
from memrelay.memory.operations.records_get import GetRecord

BENEATH = {
    "records_write",
    "records_read",
    "entries_write",
}  # what operations and blocks call, and no face by its name

OF_A_LIST = {
    "create": ("write", True),
    "get": ("read", False),
    "list": ("read", False),
    "update": ("write", True),
    "delete": ("delete", True),
}  # what can be done with memories and entries
EVERY = list(all_operations().values())


def test_a_name_used_twice_is_an_error() -> None:
    def again(tx: None, wanted: GetRecord, context: Context) -> None: ...

    assert "records.get" in all_operations()
    with pytest.raises(ValueError, match=r"records\.get"):
        operation("records.get", access="read", mutates=False)(again)


def test_every_file_of_operations_declares_the_operation_of_its_name() -> None:
    names = {module.name for module in pkgutil.iter_modules(operations.__path__)}

    assert {name.replace("_", ".", 1) for name in names - BENEATH} == all_operations().keys()


def test_an_operation_is_found_by_its_name_alone() -> None:
    assert all(find_operation(declared.name) is declared for declared in EVERY)
    for unknown in (
        "",
        "records",
        "records.nonsense",
        "records_write",
        "records.write",
        "records.get.get",
        "a" * 100_000,
    ):
        assert find_operation(unknown) is None


@pytest.mark.parametrize("declared", EVERY, ids=lambda declared: declared.name)
def test_an_operation_says_what_it_takes_gives_and_needs(declared: Operation) -> None:
    assert declared.summary.endswith(".")
    assert declared.access in get_args(Access)
    assert dataclasses.is_dataclass(declared.input)
    assert declared.output is type(None) or dataclasses.is_dataclass(declared.output)
    assert (
        declared.noun.endswith("s") or declared.noun == "knowledge"
    ) and declared.verb.isidentifier()


@pytest.mark.parametrize("declared", EVERY, ids=lambda declared: declared.name)
def test_every_field_of_an_input_has_its_line(declared: Operation) -> None:
    schema = declared.adapter.json_schema()

    assert [
        name for name, told in schema["properties"].items() if not told.get("description")
    ] == []
    assert schema["additionalProperties"] is False


def test_what_only_looks_is_told_from_what_changes() -> None:
    assert {declared.name: (declared.access, declared.mutates) for declared in EVERY} == {
        **{
            f"{noun}.{verb}": told
            for noun in ("memories", "entries")
            for verb, told in OF_A_LIST.items()
        },
        "knowledge.context": ("search", False),
        "knowledge.search": ("search", False),
        "records.append": ("append", True),
        "records.create": ("write", True),
        "records.delete": ("delete", True),
        "records.erase": ("admin", True),
        "records.erasures": ("admin", False),
        "records.get": ("read", False),
        "records.history": ("read", False),
        "records.import": ("admin", True),
        "records.list": ("read", False),
        "records.restore": ("write", True),
        "records.search": ("search", False),
        "records.update": ("write", True),
    }


def test_everything_that_is_wrong_with_an_input_is_told_at_once() -> None:
    with pytest.raises(ValidationError) as told:
        all_operations()["records.create"].adapter.validate_json(
            b'{"tags": ["a", 1], "kind": "", "kin": "x"}', strict=True
        )

    assert {error["loc"] for error in told.value.errors()} == {
        ("content",),
        ("tags", 1),
        ("kind",),
        ("kin",),
    }
