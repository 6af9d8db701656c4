"""`memrelay recipes pull` and `push`: recipes as files of a project."""

import json
from pathlib import Path
from typing import Any

from tests.support.program import Completed, Program

SUBFOLDER = Path(".codebolt") / "PersistentMemory"


def write(folder: Path, name: str, definition: Any) -> None:
    place = folder / SUBFOLDER
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.json").write_text(
        definition if isinstance(definition, str) else json.dumps(definition)
    )


def recipes(program: Program, verb: str, *words: str) -> Completed:
    return program.run("recipes", verb, "memory_test", *words)


def ids(program: Program) -> list[str]:
    (found,) = recipes(program, "list").lines
    return [one["id"] for one in found["items"]]


def test_pushed_recipes_are_pulled_as_the_same_files(program: Program, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    theirs.mkdir()
    for name in ("push-a", "push-b"):
        write(ours, name, {"id": name, "label": name.title()})

    first, second = (recipes(program, "push", str(ours)) for _ in range(2))
    write(ours, "push-b", {"id": "push-b", "label": "Other"})
    third = recipes(program, "push", str(ours))
    pulled = recipes(program, "pull", str(theirs))

    assert (first.code, second.code, third.code, pulled.code) == (0, 0, 0, 0), first.err
    assert first.lines == [{"created": ["push-a", "push-b"], "updated": [], "unchanged": []}]
    assert second.lines == [{"created": [], "updated": [], "unchanged": ["push-a", "push-b"]}]
    assert third.lines == [{"created": [], "updated": ["push-b"], "unchanged": ["push-a"]}]
    written = json.loads((theirs / SUBFOLDER / "push-b.json").read_text())
    assert (written["id"], written["label"]) == ("push-b", "Other")
    assert not list((theirs / SUBFOLDER).glob(".*"))
    write(theirs, "push-b", written)
    again = recipes(program, "push", str(theirs))
    assert again.lines[0]["updated"] == []


def test_a_push_with_faults_names_each_file_and_stores_nothing(
    program: Program, tmp_path: Path
) -> None:
    write(tmp_path, "good", {"id": "good", "label": "Good"})
    write(tmp_path, "bad", {"id": "bad", "retrieval": {"pipeline": [{"type": "vector_serch"}]}})
    wrong = recipes(program, "push", str(tmp_path))
    write(tmp_path, "broken", "{")
    write(tmp_path, "named", {"id": "other", "label": "x"})
    unread = recipes(program, "push", str(tmp_path))
    empty = recipes(program, "push", str(tmp_path / "none"))

    assert (wrong.code, unread.code, empty.code) == (1, 1, 1)
    assert "bad.json: /label: label is missing" in wrong.err
    assert 'bad.json: /retrieval/pipeline/0/type: unknown step type "vector_serch"' in wrong.err
    assert "good.json" not in wrong.err
    assert (
        "broken.json: invalid JSON" in unread.err and "named.json: the id is 'other'" in unread.err
    )
    assert "has no definition" in empty.err
    assert "good" not in ids(program)
