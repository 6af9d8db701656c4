"""A `memory_id` names a store below the root and never leads out of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.memory_id import check, store_path
from memrelay.memory.errors import BadMemoryId

ROOT = Path("/srv/memory")


@pytest.mark.parametrize(
    "memory_id",
    [
        "instances/a3d8f1b2/memories",
        "apps/kilroy.ai/agent_library",
        "a/b",
        "a/b/c/d/e/f/g/h",
        "a/b..",
        "-/_",
        "instances/a3d8f1b2/" + "x" * 100,
        "a/b.db-wal",
        "a/owner.lock",
        "a.dbx/b",
    ],
)
def test_a_path_of_plain_parts_is_accepted(memory_id: str) -> None:
    assert check(memory_id) == memory_id
    assert store_path(ROOT, memory_id) == ROOT / f"{memory_id}.db"


@pytest.mark.parametrize(
    "memory_id",
    [
        "../../x",
        "a/../../x",
        "a/./b",
        "a/..",
        "/etc/passwd",
        "/a/b",
        "//a/b",
        "a//b",
        "a/b/",
        "memories",
        "system.db",
        "a/system.db",
        "a/b.db",
        "a.db/b",
        "system.db-journal/x",
        "system.db-wal/x",
        "instances/a3d8f1b2/memories.db.damaged/x",
        "owner.lock/x",
        "a/.hidden",
        ".new-x/b",
        "a/b\x00",
        "a/b\x00.db",
        "a/b\n",
        "\na/b",
        "a/ b",
        "a\\b",
        "a/b\\..\\c",
        "C:/a/b",
        "a/b:c",
        "~/b",
        "$HOME/b",
        "instances/${pipeline_uid}/memories",
        "a/é",
        "a/\uff0e\uff0e/b",
        "a/b\u2215c",
        "a/%2e%2e/b",
        "a/" + "x" * 101,
        "a/" + "x" * 100_000,
        "/".join("abcdefghi"),
        "/" * 1000,
        "a/\ud800",
    ],
)
def test_any_other_memory_id_is_rejected_with_the_rule(memory_id: str) -> None:
    with pytest.raises(BadMemoryId, match="2 to 8 parts") as raised:
        store_path(ROOT, memory_id)

    assert len(str(raised.value)) < 600


def test_a_missing_memory_id_is_reported_as_missing() -> None:
    with pytest.raises(BadMemoryId, match="memory_id is missing"):
        check("")


@given(st.text("ab./\\-_~\x00\n", max_size=30) | st.text(max_size=30))
def test_no_memory_id_escapes_the_root(memory_id: str) -> None:
    try:
        path = store_path(ROOT, memory_id)
    except BadMemoryId:
        return

    assert path.is_relative_to(ROOT)
    assert path.resolve() == path
    assert len(path.relative_to(ROOT).parts) >= 2
