"""Documents leave with an export and arrive with an import."""

from pathlib import Path
from typing import Any

from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.store import Store
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import NOW, RECIPES_ID, assert_sound, make_store, perform

OTHER_ID = "instances/c0ffee00/recipes"
LONG = "".join(f"Step {number} of the upgrade is described here.\n\n" for number in range(100))


def call(store: Store, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def lines_of(store: Store, folder: Path) -> list[str]:
    copy = folder / "copy"
    copy.unlink(missing_ok=True)
    copy_database(Path(store.path), copy)
    return [to_json(line).decode() for line in export_lines(copy, store.memory_id, NOW)]


def test_an_import_gives_another_pipeline_equal_documents(tmp_path: Path) -> None:
    own, other = make_store(tmp_path, RECIPES_ID), make_store(tmp_path, OTHER_ID)
    put = {"collection": "docs", "uri": "a.md", "text": LONG, "metadata": {"lang": "en"}}
    call(own, "documents.put", **put)

    lines = lines_of(own, tmp_path)
    first, again = (call(other, "records.import", lines=lines) for _ in range(2))

    assert (first.added, again.added, again.same) == (len(lines), 0, len(lines))
    assert lines_of(other, tmp_path) == lines
    wanted = {"collection": "docs", "uri": "a.md"}
    assert call(other, "documents.get", **wanted) == call(own, "documents.get", **wanted)
    call(other, "documents.put", **put | {"text": "short"})
    assert [one.chunks for one in call(other, "documents.collections").items] == [1]
    for store in (own, other):
        store.close()
        assert_sound(store.path)
