"""Facts and procedures survive an export and import, with their counters and history."""

from pathlib import Path

import pytest

from memrelay.memory.errors import Refused
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import MEMORY_ID, NOW, assert_sound, make_store, perform


def lines_of(path: str) -> list[str]:
    return [to_json(line).decode() for line in export_lines(Path(path), MEMORY_ID, NOW)]


def test_an_import_restores_facts_counters_and_history(tmp_path: Path) -> None:
    source = make_store(tmp_path / "one")
    with source.transaction() as tx:
        for value in ("bleu", "Blé"):
            guid = perform(tx, "facts.set", key="color", value=value).fact.id
        perform(tx, "facts.recall", key="color")
        given = {"procedure_type": "code_snippet", "procedure_content": "x"}
        perform(tx, "procedures.save", name="p", **given)
        before = [perform(tx, f"{noun}.list") for noun in ("facts", "procedures")]
    source.close()
    lines = lines_of(source.path)

    target = make_store(tmp_path / "two")
    with target.transaction() as tx:
        assert perform(tx, "records.import", lines=lines).added == len(lines)
        after = [perform(tx, f"{noun}.list") for noun in ("facts", "procedures")]
        found = perform(tx, "facts.search", query="ble").items
        assert perform(tx, "records.history", guid=guid).total == 2
        assert perform(tx, "records.import", lines=lines).same == len(lines)
        assert perform(tx, "records.list").total == 0
    target.close()

    assert after == before and [fact.access_count for fact in found] == [1]
    assert_sound(target.path)


def test_a_taken_key_prevents_an_import(tmp_path: Path) -> None:
    source = make_store(tmp_path / "one")
    with source.transaction() as tx:
        perform(tx, "facts.set", key="color", value="blue")
    source.close()

    target = make_store(tmp_path / "two")
    with target.transaction() as tx:
        perform(tx, "facts.set", key="color", value="red")
        with pytest.raises(Refused, match="its key belongs to record"):
            perform(tx, "records.import", lines=lines_of(source.path))
        perform(tx, "records.import", lines=lines_of(source.path), replace=True)
        assert [fact.value for fact in perform(tx, "facts.list").items] == ["blue"]
    target.close()
