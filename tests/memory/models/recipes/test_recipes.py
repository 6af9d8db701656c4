"""Recipes: create, read, list, replace, delete, copy, export, import, check and describe."""

from typing import Any

import orjson
import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import (
    InvalidInput,
    NameTaken,
    RecordNotFound,
    Refused,
    ResultTooLarge,
    VersionConflict,
)
from memrelay.memory.models.recipes.recipes import load_recipe
from tests.memory.builders import NOW, perform


def define(id_: str = "deploys", **fields: Any) -> dict[str, Any]:
    return {"id": id_, "label": "Deploys", "retrieval": {"pipeline": [{"type": "rank"}]}} | fields


def create(tx: Store, id_: str = "deploys", **fields: Any) -> Any:
    return perform(tx, "recipes.create", definition=define(id_, **fields))


def ids(tx: Store, **wanted: Any) -> list[str]:
    return [one.id for one in perform(tx, "recipes.list", **wanted).items]


def test_a_recipe_is_read_as_it_was_created(tx: Store) -> None:
    created = create(tx)

    assert perform(tx, "recipes.get", id="deploys") == created
    assert (created.id, created.label) == ("deploys", "Deploys")
    assert created.definition == define() | {
        "description": "",
        "version": "1.0.0",
        "status": "active",
        "inputs_scope": [],
        "additional_variables": [],
        "contribution": {
            "section": "knowledge",
            "priority": "medium",
            "format": "bullet_list",
            "max_items": 10,
        },
    }
    assert created.created_at == created.updated_at


def test_an_invalid_definition_changes_nothing(tx: Store) -> None:
    definition = {"label": "x", "retrieval": {"pipeline": [{"type": "summarise"}]}}

    with pytest.raises(InvalidInput, match="the definition has 2 errors") as caught:
        perform(tx, "recipes.create", definition=definition)

    assert [one.message for one in caught.value.faults] == [
        "id is missing",
        'unknown step type "summarise" (did you mean "summarize"?)',
    ]
    with pytest.raises(InvalidInput) as caught:
        perform(tx, "recipes.create", definition={"id": "../x", "label": "x"})
    assert [(one.path, one.code) for one in caught.value.faults] == [("/id", "bad_id")]
    assert ids(tx) == []


def test_an_id_is_unique(tx: Store) -> None:
    create(tx)

    with pytest.raises(NameTaken, match="use another id"):
        create(tx)


def test_recipes_are_listed_by_id_and_filtered(tx: Store) -> None:
    create(tx, "b", status="deprecated")
    create(tx, "a", inputs_scope=["task"])
    create(tx, "c", status="active")

    assert ids(tx) == ["a", "b", "c"]
    assert ids(tx, active_only=True) == ids(tx, status="active") == ["a", "c"]
    assert ids(tx, status="deprecated") == ["b"]
    assert ids(tx, input_scope="task") == ["a"]
    with pytest.raises(ResultTooLarge):
        perform(tx, "recipes.list", result_bytes=100)


def test_null_counts_as_absent(tx: Store) -> None:
    nothing = dict.fromkeys(("inputs_scope", "additional_variables", "status", "description"))

    create(tx, "a", **nothing, contribution={"section": None, "priority": "high"}, extra=None)

    (recipe,) = perform(tx, "recipes.list", active_only=True).items
    assert [recipe.definition[name] for name in nothing] == [[], [], "active", ""]
    assert recipe.definition["contribution"]["section"] == "knowledge"
    assert recipe.definition["contribution"]["priority"] == "high"
    assert recipe.definition["extra"] is None
    written = orjson.loads(perform(tx, "recipes.export", id="a").text)
    assert written.keys().isdisjoint(nothing)
    assert written["contribution"] == {"priority": "high"}
    assert ids(tx, input_scope="task") == []
    assert {one.source for one in perform(tx, "rules.variables").items} == {"scope", "input"}


def test_an_update_replaces_the_whole_definition(tx: Store) -> None:
    created = create(tx, description="old", version="1.2.0")

    given = {"label": "New"}
    updated = perform(
        tx, "recipes.update", id="deploys", definition=given, if_version=[created.version]
    )

    assert updated.definition["label"] == "New"
    assert updated.definition["retrieval"] == {"pipeline": []}
    assert updated.version != created.version
    assert updated.updated_at > created.updated_at
    with pytest.raises(VersionConflict, match="read it again"):
        perform(tx, "recipes.update", id="deploys", definition=given, if_version=[created.version])
    with pytest.raises(Refused, match="the id of a recipe cannot change"):
        perform(tx, "recipes.update", id="deploys", definition=define("other"))
    with pytest.raises(RecordNotFound):
        perform(tx, "recipes.update", id="other", definition=define("other"))
    with pytest.raises(InvalidInput):
        perform(tx, "recipes.update", id="deploys", definition={"label": ""})
    assert perform(tx, "recipes.get", id="deploys") == updated


def test_a_deleted_recipe_is_gone(tx: Store) -> None:
    version = create(tx).version

    with pytest.raises(VersionConflict):
        perform(tx, "recipes.delete", id="deploys", if_version=["1-1"])
    perform(tx, "recipes.delete", id="deploys", if_version=[version])

    assert ids(tx) == []
    for name in ("get", "delete", "export", "duplicate"):
        with pytest.raises(RecordNotFound, match="no recipe has the id 'deploys'"):
            perform(tx, f"recipes.{name}", id="deploys")


def test_copies_get_the_next_free_id(tx: Store) -> None:
    create(tx)
    create(tx, "x" * 64)

    first, second = (perform(tx, "recipes.duplicate", id="deploys") for _ in range(2))
    named = perform(tx, "recipes.duplicate", id="deploys", new_id="n", label="N")
    long = perform(tx, "recipes.duplicate", id="x" * 64)

    assert (first.id, second.id) == ("deploys-copy", "deploys-copy-2")
    assert first.label == first.definition["label"] == "Deploys (copy)"
    assert (named.id, named.label) == ("n", "N")
    assert long.id == "x" * 59 + "-copy"
    with pytest.raises(NameTaken):
        perform(tx, "recipes.duplicate", id="deploys", new_id="n")
    with pytest.raises(InvalidInput):
        perform(tx, "recipes.duplicate", id="deploys", new_id="a/b")


def test_an_export_is_imported_to_the_same_bytes(tx: Store) -> None:
    create(tx, note={"z": 1, "a": "ü"}, additional_variables={"v": {"default": None}})
    text = perform(tx, "recipes.export", id="deploys").text
    perform(tx, "recipes.delete", id="deploys")

    imported = perform(tx, "recipes.import", config=text)

    assert imported.created
    assert perform(tx, "recipes.export", id="deploys").text == text
    with pytest.raises(NameTaken):
        perform(tx, "recipes.import", config=orjson.loads(text))
    again = perform(tx, "recipes.import", config=orjson.loads(text), overwrite=True)
    assert not again.created
    assert again.recipe.updated_at > imported.recipe.updated_at
    assert perform(tx, "recipes.export", id="deploys").text == text
    with pytest.raises(InvalidInput, match="the definition has 1 error"):
        perform(tx, "recipes.import", config="{")


def test_each_change_is_one_entry_of_the_feed(tx: Store) -> None:
    create(tx)
    text = perform(tx, "recipes.export", id="deploys").text
    perform(tx, "recipes.delete", id="deploys")
    perform(tx, "recipes.import", config=text)
    perform(tx, "recipes.import", config=text, overwrite=True)

    changes = perform(tx, "changes.list", limit=100).items
    assert [one.type for one in changes] == [
        "record.created",
        "record.deleted",
        "record.created",
        "record.updated",
    ]


def test_a_check_stores_nothing(tx: Store) -> None:
    good = perform(tx, "recipes.validate", definition=define(extra=1))
    bad = perform(tx, "recipes.validate", definition=[])

    assert (good.valid, good.errors) == (True, ())
    assert [one.path for one in good.warnings] == ["/extra"]
    assert (bad.valid, bad.errors[0].message) == (False, "the definition must be an object")
    assert ids(tx) == []


def test_specs_describe_each_parameter(tx: Store) -> None:
    specs = {one.type: one for one in perform(tx, "recipes.specs").items}
    merge = {one.name: one for one in specs["merge"].params}

    assert list(merge) == ["sources", "strategy", "uniqueField", "alias", "onError"]
    assert (merge["sources"].type, merge["sources"].required) == ("array", True)
    assert merge["strategy"].enum == ("concat", "interleave", "unique")
    assert merge["strategy"].default == "concat"
    assert all(one.description for spec in specs.values() for one in spec.params)
    assert specs["filter"].inputs == ("list", "groups")
    configurable = perform(tx, "recipes.specs", user_configurable=True).items
    assert specs.keys() - {one.type for one in configurable} == {"custom"}


def test_a_stored_recipe_is_compiled_once_per_version(tx: Store) -> None:
    create(tx)

    loaded = load_recipe(tx, "deploys")

    assert load_recipe(tx, "deploys") is loaded
    perform(tx, "recipes.update", id="deploys", definition=define(label="B"), now_ms=NOW)
    assert load_recipe(tx, "deploys").label == "B"
    with pytest.raises(RecordNotFound):
        load_recipe(tx, "other")
