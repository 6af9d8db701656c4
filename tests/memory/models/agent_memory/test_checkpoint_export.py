"""Checkpoints leave with an export and arrive with an import."""

from pathlib import Path

import pytest

from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import NOW, make_store
from tests.memory.models.agent_memory.checkpoint_cases import call, get, put, values_of, write

OWN, OTHER = "instances/a3d8f1b2/memories", "instances/c0ffee00/memories"


def lines_of(store: Store, folder: Path) -> list[str]:
    copy = folder / "copy"
    copy.unlink(missing_ok=True)
    copy_database(Path(store.path), copy)
    return [to_json(line).decode() for line in export_lines(copy, store.memory_id, NOW)]


def test_an_import_gives_another_pipeline_equal_threads(tmp_path: Path) -> None:
    own, other = make_store(tmp_path, OWN), make_store(tmp_path, OTHER)
    thread = "chat:Ada:a3d8f1b2"
    base = put(own, "c1", [b"one", b"x" * 5000], thread=thread, agent="a").mark
    put(own, "c2", [b"two"], runs=[[0, 2]], base=base, parent="c1", thread=thread, agent="a")
    write(own, "c2", (0, "a", b"w"), thread=thread, agent="a")
    lines = lines_of(own, tmp_path)

    assert len(lines) == 6 and all("${pipeline_uid}" in line for line in lines)
    first, again = (call(other, "records.import", lines=lines) for _ in range(2))
    assert (first.added, again.added, again.same) == (6, 0, 6)
    assert lines_of(other, tmp_path) == lines
    found = get(other, thread="chat:Ada:c0ffee00", agent="a")
    assert values_of(found) == [b"c2", b"one", b"x" * 5000, b"two", b"w"]
    own.close()
    other.close()


def test_a_malformed_line_is_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path, OWN)
    put(store, "c1", [b"one"], metadata={"step": 1})
    line = next(line for line in lines_of(store, tmp_path) if line.startswith('{"checkpoint":'))
    for before, after in (
        ('"numbers":"1"', '"numbers":"1-"'),
        (r"{\"step\":1}", "{"),
        (r"[[\"messages\"", "["),
    ):
        assert before in line
        with pytest.raises(Refused, match="invalid line of an export"):
            call(store, "records.import", lines=[line.replace(before, after)])
    with pytest.raises(Refused, match="checkpoint 'c1' of '' of 't' of ''"):
        call(store, "records.import", lines=[line.replace(r":1}", ":2}")])
    store.close()
