"""Recipes by command and in an embedded store: every error of a definition is shown."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay import open_store
from memrelay.errors import InvalidInput, NameTaken
from tests.support.program import Program

INVALID = {"label": "x", "retrieval": {"pipeline": [{"type": "formt"}]}}
VALID = {"id": "r", "label": "R", "retrieval": {"pipeline": [{"type": "rank"}]}}
FAULTS = [
    ("/id", "id is missing"),
    ("/retrieval/pipeline/0/type", 'unknown step type "formt" (did you mean "format"?)'),
]


def test_the_life_of_a_recipe_by_command(program: Program) -> None:
    def recipes(verb: str, *words: str) -> Any:
        return program.run("recipes", verb, "memory_test", *words)

    (made,) = recipes("create", orjson.dumps(VALID).decode()).lines
    (exported,) = recipes("export", "r").lines
    (copy,) = recipes("duplicate", "r", "--new-id", "s").lines
    (imported,) = recipes("import", exported["text"], "--overwrite").lines
    (listed,) = recipes("list", "--active-only").lines
    invalid = recipes("create", orjson.dumps(INVALID).decode())
    for id_ in ("r", "s"):
        assert recipes("delete", id_).lines == [{"done": True}]

    assert (made["id"], copy["id"]) == ("r", "s")
    assert made["definition"] == {**made["definition"], **VALID, "status": "active"}
    assert orjson.loads(exported["text"]) == VALID
    assert imported["created"] is False
    assert [one["id"] for one in listed["items"]] == ["r", "s"]
    assert (invalid.code, invalid.err.splitlines()) == (
        1,
        [
            "memrelay: the definition has 2 errors",
            *[f"{path}: {message}" for path, message in FAULTS],
        ],
    )


def test_an_embedded_store_shows_all_errors(tmp_path: Path) -> None:
    with open_store(tmp_path / "recipes.db") as store:
        with pytest.raises(InvalidInput) as caught:
            store.recipes.create(INVALID)
        store.recipes.create(VALID)
        with pytest.raises(NameTaken):
            store.recipes.create(VALID)

        assert [(one.path, one.message) for one in caught.value.faults] == FAULTS
        assert caught.value.__notes__ == [f"{path}: {message}" for path, message in FAULTS]
        assert [one.id for one in store.recipes.list().items] == ["r"]
