"""The methods of the clients and of the embedded store, and the stub that declares them."""

import inspect
import runpy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from memrelay import connect
from memrelay.client import nouns, stub
from memrelay.client.methods import Noun
from memrelay.memory.operations import all_operations
from tests.support.sessions import CHECKOUT

INTERFACES = ("Remote", "Blocking", "Embedded", "Async")
# Prints the nouns whose operations are loaded: after the import, with a client, and with a method.
LOADS = """
import memrelay
from memrelay.memory.operations import OPERATIONS

def show():
    print(*sorted({operation.noun for operation in OPERATIONS.values()}))

memrelay.open_store
client = memrelay.connect("http://127.0.0.1:9")
show()
client.facts.set
show()
"""


def methods_of(noun_class: type) -> dict[str, Callable[..., Any]]:
    """Return the methods of a class by name. Looking them up compiles them."""
    names = [name for name in dir(noun_class) if not name.startswith("_")]
    return {name: getattr(noun_class, name) for name in names}


def test_the_stub_is_up_to_date() -> None:
    assert stub.PATH.read_text() == stub.render()


def test_the_stub_declares_the_methods_as_they_are() -> None:
    declared = {
        name: value
        for name, value in runpy.run_path(str(stub.PATH)).items()
        if isinstance(value, type) and issubclass(value, Noun) and value is not Noun
    }
    expected = {operation.noun for operation in all_operations().values()}
    assert len(declared) == len(INTERFACES) * len(expected) > 80

    for name, declaration in declared.items():
        noun_class = getattr(nouns, name)
        assert (noun_class.__name__, noun_class.__doc__) == (name, declaration.__doc__)
        actual, shown = methods_of(noun_class), methods_of(declaration)
        assert actual.keys() == shown.keys()
        for verb, method in actual.items():
            assert inspect.signature(method) == inspect.signature(shown[verb]), f"{name}.{verb}"
            is_async = inspect.iscoroutinefunction(method)
            assert is_async == inspect.iscoroutinefunction(shown[verb]) == (name[0] in "RA")
            assert (method.__doc__ or "").split() == (shown[verb].__doc__ or "").split() != []


@pytest.mark.slow
def test_stubtest_accepts_the_stub() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", "pyproject.toml"]

    done = subprocess.run(
        [*command, "memrelay.client.nouns"], cwd=CHECKOUT, capture_output=True, text=True
    )

    assert "Success: no issues found" in done.stdout, done.stdout


@pytest.mark.parametrize("interface", INTERFACES)
def test_the_classes_have_the_same_methods(interface: str) -> None:
    operations = all_operations().values()
    for noun in {operation.noun for operation in operations}:
        noun_class = getattr(nouns, f"{interface}{noun.title().replace('_', '')}")
        verbs = {operation.verb for operation in operations if operation.noun == noun}
        aliases = {"write"} if noun in ("records", "entries") else set()

        names = {name.rstrip("_") for name in methods_of(noun_class)}

        assert names == verbs | aliases


def test_a_method_belongs_to_its_class() -> None:
    create = connect("http://127.0.0.1:9").records.create

    assert create.__module__ == "memrelay.client.nouns"
    assert create.__qualname__ == "RemoteRecords.create"
    assert create.__doc__ == all_operations()["records.create"].summary


def test_only_nouns_are_attributes() -> None:
    client = connect("http://127.0.0.1:9")

    assert client.view_templates is client.view_templates
    assert {"records", "view_templates", "say"} <= set(dir(client))
    for name in ("view", "record", "memory", "_session"):
        with pytest.raises(AttributeError, match=f"'Client' object has no attribute '{name}'"):
            getattr(client, name)
    for name in ("RemoteView", "Remote", "remoteRecords", "Records"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(nouns, name)


def test_only_the_operations_of_a_used_noun_are_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADS], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )

    with_a_client, with_a_method = done.stdout.split("\n")[:2]
    assert with_a_client == ""
    assert "facts" in with_a_method and "recipes" not in with_a_method
