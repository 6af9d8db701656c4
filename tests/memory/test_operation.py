"""Operations: declared once, under one name."""

import importlib
import pkgutil

import pytest

import memory.operations
from memory.operation import OPERATIONS, operation


def test_a_name_used_twice_is_an_error() -> None:
    importlib.import_module("memory.operations.records_write")

    with pytest.raises(ValueError, match=r"records\.write"):
        operation("records.write", access="write", mutates=True)(print)


def test_every_file_of_operations_declares_the_operation_of_its_name() -> None:
    names = [module.name for module in pkgutil.iter_modules(memory.operations.__path__)]

    for name in names:
        importlib.import_module(f"memory.operations.{name}")

    assert {name.replace("_", ".", 1) for name in names} <= OPERATIONS.keys()


def test_what_only_looks_is_told_from_what_changes() -> None:
    changing = {name: found.mutates for name, found in OPERATIONS.items() if name.startswith("records.")}

    assert changing == {
        "records.write": True,
        "records.append": True,
        "records.delete": True,
        "records.read": False,
        "records.search": False,
    }
