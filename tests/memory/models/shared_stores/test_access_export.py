"""Grants, contexts and settings leave with an export and arrive with an import."""

from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import BadExport, Refused
from memrelay.memory.transfer.export import export_lines, to_json, verify_export
from tests.memory.builders import NOW, make_store
from tests.memory.models.shared_stores.access_cases import call, enter, level_of, open_stores, share

OTHER = "instances/c0ffee00/stores"
CHAT = "chat:a3d8f1b2/main"


def lines_of(store: Store, folder: Path) -> list[str]:
    copy = folder / "copy"
    copy.unlink(missing_ok=True)
    copy_database(Path(store.path), copy)
    return [to_json(line).decode() for line in export_lines(copy, store.memory_id, NOW + 1000)]


def test_an_import_gives_another_pipeline_equal_access(tmp_path: Path) -> None:
    other = make_store(tmp_path, OTHER)
    with open_stores() as store:
        share(store, "a1", "a1", "a2", "readwrite", ttl_s=60)
        share(store, "a1", "a1", "expired", "read", ttl_s=1)
        enter(store, "chat", CHAT, "a1")
        share(store, "a1", CHAT, "a3", "search")
        enter(store, "user", "expired", "a1", ttl_s=1)
        call(store, "stores.configure", agent="a2", own=False, user=False)
        lines = lines_of(store, tmp_path)

    assert [line for line in lines if "expired" in line] == []
    assert '{"agent_settings":{"agent":"a2","enabled":1,"self":0,"chat":1,"user":0}}' in lines
    assert sum("chat:${pipeline_uid}/main" in line for line in lines) == 2
    first, again = (call(other, "records.import", lines=lines) for _ in range(2))
    assert (first.added, again.added, again.same) == (4, 0, 4)
    assert lines_of(other, tmp_path) == lines
    assert level_of(other, "a3", "chat:c0ffee00/main") == "search"
    assert level_of(other, "a2", "a1") == "readwrite" and level_of(other, "a2", "a2") is None
    other.close()


def test_an_import_does_not_replace_a_different_grant_unasked(tmp_path: Path) -> None:
    with open_stores() as store:
        share(store, "a1", "a1", "a2", "readwrite")
        lines = lines_of(store, tmp_path)
        share(store, "a1", "a1", "a2", "search")
        with pytest.raises(Refused, match="grant 'a2' of 'a1': the store has different data"):
            call(store, "records.import", lines=lines)
        assert call(store, "records.import", lines=lines, replace=True).replaced == 1
        assert level_of(store, "a2", "a1") == "readwrite"


@pytest.mark.parametrize(
    "line",
    [
        {"grant": {"store": "a1"}},
        {"agent_settings": {"agent": "a", "enabled": 2, "self": 1, "chat": 1, "user": 1}},
        {"context": {"id": "c", "sort": "other", "agent": "a", "expires_at": None}},
    ],
)
def test_a_malformed_line_is_refused(line: dict[str, object]) -> None:
    with open_stores() as store, pytest.raises(Refused, match="line"):
        call(store, "records.import", lines=[orjson.dumps(line).decode()])


def test_a_line_of_a_later_version_names_the_version_that_it_needs(tmp_path: Path) -> None:
    line = b'{"novelty":{"id":"x"}}\n'
    header = {
        "memrelay_export": 1,
        "made_at": NOW,
        "memrelay": "99.5",
        "pipeline_uid": "u",
        "pipeline_name": "n",
    }
    end = {"records": 0, "versions": 0, "memories": 0, "sha256": sha256(line).hexdigest()}
    path = tmp_path / "later.jsonl"
    path.write_bytes(orjson.dumps(header) + b"\n" + line + orjson.dumps({"end": end}) + b"\n")

    with pytest.raises(BadExport, match=r"lines `novelty`.*with Memrelay 99\.5 or later"):
        verify_export(path)
    with open_stores() as store, pytest.raises(Refused, match="the version that its first line"):
        call(store, "records.import", lines=[line.decode()])
