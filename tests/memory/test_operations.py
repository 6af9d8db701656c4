"""Operations: each is declared once, under one name, with all facts that a face needs."""

import ast
import dataclasses
from typing import get_args, get_origin

import pytest
from pydantic import ValidationError

from memrelay.memory.engine.models import list_nouns, modules_of
from memrelay.memory.operations import (
    Access,
    Context,
    Operation,
    all_operations,
    find_operation,
    input_schema,
    json_type,
    known_operation,
    operation,
    operations_on,
)
from memrelay.memory.records.reading import GetRecord
from memrelay.memory.search.text.languages import DEFAULT_LANGUAGE
from tests.architecture.source import packages

# Nouns without a plural.
NOUNS_OF_ONE = (
    *(
        "assembly",
        "capture",
        "extraction",
        "graph",
        "knowledge",
        "knowledge_graph",
        "kv",
        "memory_tool",
    ),
)

# The operations of memories and entries: verb -> (access, mutates).
CRUD = {
    "create": ("write", True),
    "get": ("read", False),
    "list": ("read", False),
    "update": ("write", True),
    "delete": ("delete", True),
}
EXPECTED = {
    **{
        f"{noun}.{verb}": expected
        for noun in ("memories", "entries", "rules")
        for verb, expected in CRUD.items()
    },
    "entries.merge": ("delete", True),
    "assembly.assemble": ("search", False),
    "assembly.required_variables": ("read", False),
    "assembly.validate": ("read", False),
    "capture.context": ("search", False),
    "capture.sessions": ("read", False),
    "changes.list": ("read", False),
    "inputs.list": ("admin", False),
    **dict.fromkeys(
        ("rehearsals.create", "rehearsals.get", "rehearsals.list", "rehearsals.delete"),
        ("admin", False),
    ),
    **dict.fromkeys(
        ("policies.list", "policies.scan", "policies.test", "policies.verdicts"), ("admin", False)
    ),
    **dict.fromkeys(("policies.apply", "policies.delete", "policies.set"), ("admin", True)),
    "reviews.approve": ("review", True),
    "reviews.edit": ("review", True),
    "reviews.get": ("review", False),
    "reviews.list": ("review", False),
    "reviews.reject": ("review", True),
    "receipts.get": ("admin", False),
    "receipts.list": ("admin", False),
    "records.uses": ("admin", False),
    "records.origin": ("admin", False),
    "records.subjects": ("read", False),
    "records.timeline": ("read", False),
    "records.undo": ("admin", True),
    "waiting_messages.list": ("read", False),
    "message_timings.list": ("read", False),
    "checkpoints.copy": ("write", True),
    "checkpoints.delete": ("delete", True),
    "checkpoints.forget_runs": ("admin", True),
    "checkpoints.get": ("read", False),
    "checkpoints.list": ("read", False),
    "checkpoints.prune": ("delete", True),
    "checkpoints.put": ("write", True),
    "checkpoints.write": ("write", True),
    "conversations.clear": ("delete", True),
    "conversations.history": ("read", False),
    "contexts.close": ("admin", True),
    "contexts.list": ("admin", False),
    "contexts.open": ("admin", True),
    "deliveries.get": ("read", False),
    "deliveries.list": ("read", False),
    "deliveries.redeliver": ("admin", True),
    "deliveries.redeliver_many": ("admin", True),
    "endpoints.create": ("admin", True),
    "endpoints.delete": ("admin", True),
    "endpoints.enable": ("admin", True),
    "endpoints.get": ("admin", False),
    "endpoints.list": ("read", False),
    "endpoints.recover": ("admin", True),
    "endpoints.rotate": ("admin", True),
    "endpoints.test": ("admin", True),
    "endpoints.update": ("admin", True),
    "events.append": ("append", True),
    "events.query": ("read", False),
    "graph.add_edges": ("write", True),
    "graph.add_nodes": ("write", True),
    "graph.delete_edge": ("delete", True),
    "graph.delete_node": ("delete", True),
    "graph.expand": ("read", False),
    "graph.get_node": ("read", False),
    "graph.list_edges": ("read", False),
    "graph.list_nodes": ("read", False),
    "graph.subgraph": ("read", False),
    "graph.update_node": ("write", True),
    "graph_templates.create": ("write", True),
    "graph_templates.delete": ("delete", True),
    "graph_templates.get": ("read", False),
    "graph_templates.list": ("read", False),
    "graph_templates.update": ("write", True),
    "graph_views.create": ("write", True),
    "graph_views.delete": ("delete", True),
    "graph_views.execute": ("read", False),
    "graph_views.get": ("read", False),
    "graph_views.list": ("read", False),
    "views.about": ("read", False),
    "views.define": ("admin", True),
    "views.delete": ("admin", True),
    "views.get": ("read", False),
    "views.list": ("read", False),
    "views.parts": ("read", False),
    "view_templates.create": ("write", True),
    "view_templates.delete": ("delete", True),
    "view_templates.get": ("read", False),
    "view_templates.list": ("read", False),
    "view_templates.update": ("write", True),
    "instances.create": ("write", True),
    "instances.delete": ("delete", True),
    "instances.get": ("read", False),
    "instances.list": ("read", False),
    "instances.update": ("write", True),
    "knowledge_graph.add_observations": ("write", True),
    "knowledge_graph.create_entities": ("write", True),
    "knowledge_graph.create_relations": ("write", True),
    "knowledge_graph.delete_entities": ("delete", True),
    "knowledge_graph.delete_observations": ("delete", True),
    "knowledge_graph.delete_relations": ("delete", True),
    "knowledge_graph.open": ("read", False),
    "knowledge_graph.read": ("read", False),
    "knowledge_graph.search": ("search", False),
    "kv.clear": ("delete", True),
    "kv.count": ("read", False),
    "kv.delete": ("delete", True),
    "kv.get": ("read", False),
    "kv.namespaces": ("read", False),
    "kv.query": ("read", False),
    "kv.set": ("write", True),
    "documents.collections": ("read", False),
    "documents.delete": ("delete", True),
    "documents.get": ("read", False),
    "documents.list": ("read", False),
    "documents.put": ("write", True),
    "documents.search": ("search", False),
    "episodes.add": ("append", True),
    "episodes.begin": ("write", True),
    "episodes.complete": ("write", True),
    "episodes.delete_many": ("delete", True),
    "episodes.get": ("read", False),
    "episodes.list": ("read", False),
    "episodes.rate": ("write", True),
    "facts.delete": ("delete", True),
    "facts.delete_many": ("delete", True),
    "facts.get": ("read", False),
    "facts.list": ("read", False),
    "facts.recall": ("read", True),
    "facts.search": ("search", False),
    "facts.set": ("write", True),
    "grants.list": ("read", False),
    "grants.remove": ("write", True),
    "grants.set": ("write", True),
    "items.delete": ("delete", True),
    "items.edit": ("write", True),
    "items.get": ("read", False),
    "items.list": ("read", False),
    "items.put": ("write", True),
    "items.rename": ("write", True),
    "items.reseal": ("admin", True),
    "items.search": ("search", False),
    "knowledge.context": ("search", False),
    "knowledge.search": ("search", False),
    "memory_tool.read": ("search", False),
    "memory_tool.write": ("write", True),
    "procedures.delete_many": ("delete", True),
    "procedures.get": ("read", False),
    "procedures.list": ("read", False),
    "procedures.match": ("read", False),
    "procedures.retire": ("write", True),
    "procedures.save": ("write", True),
    "procedures.use": ("write", True),
    "recipes.create": ("write", True),
    "recipes.delete": ("delete", True),
    "recipes.duplicate": ("write", True),
    "recipes.execute": ("search", False),
    "recipes.export": ("read", False),
    "recipes.get": ("read", False),
    "recipes.import": ("write", True),
    "recipes.list": ("read", False),
    "recipes.specs": ("read", False),
    "recipes.update": ("write", True),
    "recipes.validate": ("read", False),
    "recipes.changes": ("read", False),
    "recipes.store": ("write", True),
    "records.append": ("append", True),
    "records.embed": ("write", True),
    "records.create": ("write", True),
    "records.delete": ("delete", True),
    "records.erase": ("admin", True),
    "records.erasures": ("admin", False),
    "records.find": ("read", False),
    "records.get": ("read", False),
    "records.history": ("read", False),
    "records.import": ("admin", True),
    "records.list": ("read", False),
    "records.put": ("write", True),
    "records.remove": ("delete", True),
    "records.restore": ("write", True),
    "records.scopes": ("read", False),
    "records.search": ("search", False),
    "records.touch": ("write", True),
    "records.update": ("write", True),
    "rules.evaluate": ("search", False),
    "rules.variables": ("read", False),
    "stores.configure": ("admin", True),
    "stores.list": ("read", False),
    "users.context": ("read", False),
    "users.delete_many": ("delete", True),
    "users.forget": ("admin", True),
    "users.get": ("read", False),
    "users.identify": ("write", True),
    "users.list": ("read", False),
    "turns.add": ("write", True),
    "turns.clear": ("delete", True),
    "turns.list": ("read", False),
    "turns.pop": ("delete", True),
    "turns.threads": ("read", False),
    "extraction.status": ("read", False),
    "users.merge": ("write", True),
    "users.update": ("write", True),
}
ALL = list(all_operations().values())


def test_a_duplicate_operation_name_is_an_error() -> None:
    def again(tx: None, wanted: GetRecord, context: Context) -> None: ...

    assert "records.get" in all_operations()
    with pytest.raises(ValueError, match=r"records\.get"):
        operation("records.get", access="read", mutates=False)(again)


def declares_an_operation(node: ast.AST) -> bool:
    """Return whether a node is a call of the decorator `operation`."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "operation"


def test_the_modules_of_a_noun_declare_all_its_operations() -> None:
    assert {one.noun for one in ALL} == set(list_nouns())
    for one in ALL:
        assert one.name in {found.name for found in operations_on(one.noun)}


def test_no_operation_is_declared_outside_the_modules_of_its_noun() -> None:
    listed = {module for noun in list_nouns() for module in modules_of(noun)}

    assert {
        source.module
        for source in packages("memory")
        if source.module not in listed and any(map(declares_an_operation, source.nodes))
    } == {"memrelay.memory.models.recipes.keyed_kind"}


def test_an_operation_is_found_only_by_its_exact_name() -> None:
    assert all(find_operation(declared.name) is declared for declared in ALL)
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


@pytest.mark.parametrize("declared", ALL, ids=lambda declared: declared.name)
def test_an_operation_declares_its_input_output_and_access(declared: Operation) -> None:
    assert declared.summary.endswith(".")
    assert declared.access in get_args(Access)
    assert dataclasses.is_dataclass(declared.input)
    is_object = get_origin(declared.output) is dict
    assert declared.output is type(None) or is_object or dataclasses.is_dataclass(declared.output)
    assert declared.noun.endswith("s") or declared.noun in NOUNS_OF_ONE
    assert declared.verb.isidentifier()


@pytest.mark.parametrize("declared", ALL, ids=lambda declared: declared.name)
def test_every_input_field_has_a_description(declared: Operation) -> None:
    schema = declared.adapter.json_schema()

    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            fields = part["properties"].items()
            assert [name for name, field in fields if not field.get("description")] == []
            assert part["additionalProperties"] is False


def test_each_operation_has_the_expected_access_and_mutation_flag() -> None:
    assert {declared.name: (declared.access, declared.mutates) for declared in ALL} == EXPECTED


def test_all_input_errors_are_reported_at_once() -> None:
    with pytest.raises(ValidationError) as raised:
        all_operations()["records.create"].adapter.validate_json(
            b'{"tags": ["a", 1], "kind": "", "kin": "x"}', strict=True
        )

    assert {error["loc"] for error in raised.value.errors()} == {
        ("content",),
        ("tags", 1),
        ("kind",),
        ("kin",),
    }


def test_a_field_that_takes_a_dataclass_has_the_type_object() -> None:
    fields = input_schema(known_operation("events.query"))["properties"]

    assert [json_type(fields[name]) for name in ("reduce", "where", "limit")] == [
        "object",
        "array",
        "integer",
    ]


def test_the_language_of_a_context_is_that_of_stores() -> None:
    assert Context(0, "", 0, str).language == DEFAULT_LANGUAGE
