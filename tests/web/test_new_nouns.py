"""A new operation reaches every interface without a list of nouns."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from typer.testing import CliRunner

from memrelay.cli.operation_command import encode_input, make_commands
from memrelay.client import nouns, stub
from memrelay.memory.engine.identity import Identity
from memrelay.memory.operations import (
    OPERATIONS,
    Context,
    Operation,
    all_operations,
    operation,
    selects_store,
)
from memrelay.web.api.operation_routes import route_of
from memrelay.web.openapi.groups import GROUPS, MODELS, Group
from memrelay.web.openapi.pages import DOCUMENT
from tests.support.routes import app_for


@dataclass(frozen=True, slots=True)
class PutTrial(Identity):
    """A value for a key."""

    store: str
    """The store."""
    key: str
    """The key."""
    value: Any
    """Any JSON."""
    limit: int = 10
    """A limit."""
    if_version: tuple[str, ...] = ()
    """The expected versions."""


def _put(tx: Any, given: PutTrial, context: Context) -> None:
    """Put a value."""


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Operation]:
    """Yield an operation with a new noun."""
    monkeypatch.setitem(GROUPS, "trial_runs", Group("Trial runs", MODELS, "Put values."))
    operation("trial_runs.put", access="write", mutates=True, store="stores")(_put)
    all_operations.cache_clear()
    yield all_operations()["trial_runs.put"]
    del OPERATIONS["trial_runs.put"]
    all_operations.cache_clear()


def test_a_required_key_is_in_the_path_and_the_input_names_its_own_store(put: Operation) -> None:
    route = route_of(put)

    assert (route.method, route.path) == ("PUT", "/v1/pipelines/{uid}/trial_runs/{key}")
    assert (route.path_fields, route.query_fields) == (("key",), ())
    assert route.body_fields == ("store", "value", "limit", "agent", "user", "chat")
    assert route.has_if_match and not selects_store(put)


def test_the_api_document_describes_it_without_the_field_that_interfaces_set(
    put: Operation, tmp_path: Path
) -> None:
    document = app_for(tmp_path)[DOCUMENT]

    item = document["paths"]["/v1/pipelines/{uid}/trial_runs/{key}"]["put"]

    assert [one["name"] for one in item["parameters"] if one["in"] != "header"] == ["uid", "key"]
    schema = item["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["store", "value", "agent"]
    assert "vouched" not in schema["properties"] and "type" not in schema["properties"]["value"]


def test_its_method_takes_any_value_and_names_the_agent(put: Operation) -> None:
    text = " ".join(stub.render().split())

    assert "trial_runs: RemoteTrialRuns" in text
    assert (
        "def put(self, store: str, key: str, value: Any, *, agent: str,"
        ' limit: int = 10, if_version: Strings = (), user: str = "", chat: str = "") -> None:'
    ) in text
    put_method: Any = nouns.EmbeddedTrialRuns.put
    assert [*inspect.signature(put_method).parameters] == [
        *("self", "store", "key", "value"),
        *("agent", "limit", "if_version", "user", "chat"),
    ]


@pytest.mark.parametrize(
    ("text", "value"), [("null", None), ('{"a": [1]}', {"a": [1]}), ("green tea", "green tea")]
)
def test_a_command_takes_json_or_text_and_vouches_for_its_contexts(
    put: Operation, text: str, value: Any
) -> None:
    given = {"agent": "a1", "store": "s", "key": "k", "value": text}

    sent = orjson.loads(encode_input(put, given))

    assert (sent["value"], sent["vouched"]) == (value, ["chat", "user"])


def test_a_command_takes_the_agent_as_an_option(put: Operation) -> None:
    (command,) = make_commands("trial-runs")
    app = typer.Typer(rich_markup_mode=None)
    app.command()(command)

    helped = CliRunner().invoke(app, ["--help"]).output

    assert "{PIPELINE} {STORE} {KEY} {VALUE}" in helped and "--agent AGENT" in helped
    assert "--store" not in helped and "--vouched" not in helped
    assert inspect.signature(command).parameters["agent"].default is inspect.Parameter.empty
