"""Users and episodes in exports, imports and migrations."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import MEMORY_ID, NOW, fresh_store, make_store, perform, write_all

OTHER = "instances/c0ffee00/memories"


def call(store: Store, name: str, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def fill(store: Store) -> str:
    """Identify a user twice, and store an episode with a step. Return the guid of the episode."""
    for _ in range(2):
        call(store, "users.identify", channel="telegram", channel_id="7", display_name="Ada")
    call(store, "users.update", id="telegram:7", preferences={"lang": "en"})
    begun = {"agent_id": "a", "execution_id": "e", "user_id": "telegram:7"}
    guid = call(store, "episodes.begin", **begun).id
    call(store, "episodes.add", id=guid, text="hi", role="user")
    call(store, "episodes.complete", id=guid, success=True, final_output="ho")
    return str(guid)


def lines_of(store: Store, folder: Path) -> list[str]:
    copy = folder / "copy"
    copy.unlink(missing_ok=True)
    copy_database(Path(store.path), copy)
    return [to_json(line).decode() for line in export_lines(copy, store.memory_id, NOW + 1)]


def test_an_import_has_the_same_users_episodes_and_counters(tmp_path: Path) -> None:
    other = make_store(tmp_path, OTHER)
    with fresh_store() as store:
        guid = fill(store)
        user = call(store, "users.get", id="telegram:7")
        episode = call(store, "episodes.get", id=guid)
        lines = lines_of(store, tmp_path)

    call(other, "records.import", lines=lines)

    assert call(other, "records.import", lines=lines).added == 0
    assert call(other, "users.get", id="telegram:7") == user
    assert call(other, "episodes.get", id=guid) == episode
    assert lines_of(other, tmp_path) == lines
    other.close()


@pytest.mark.parametrize(
    "taken",
    [{"channel": "telegram", "channel_id": "7"}, {"channel": "chat", "channel_id": "ada"}],
)
def test_an_import_refuses_a_taken_identifier(tmp_path: Path, taken: dict[str, str]) -> None:
    other = make_store(tmp_path, OTHER)
    with fresh_store() as store:
        fill(store)
        lines = lines_of(store, tmp_path)
    user = call(other, "users.identify", **taken).user
    call(other, "users.update", id=user.canonical_id, telegram_id="7")

    with pytest.raises(Refused, match="its key belongs to record"):
        call(other, "records.import", lines=lines)
    call(other, "records.import", lines=lines, replace=True)

    assert call(other, "users.get", id="telegram:7").display_name == "Ada"
    assert call(other, "users.list").total == 1
    other.close()


def test_a_migration_renames_records_of_users_with_these_kinds(tmp_path: Path) -> None:
    store = make_store(tmp_path, MEMORY_ID)
    write_all(store, "mine")
    store.close()
    connection = apsw.Connection(store.path)
    for index in (
        "episode_keys",
        "episode_creations",
        "episode_owners",
        "open_episodes",
        "user_keys",
        "user_telegram_ids",
        "user_emails",
    ):
        connection.execute(f"DROP INDEX {index}")
    connection.execute("UPDATE records SET kind = 'memory.user'")
    connection.execute(
        (
            Path(__file__).parents[4] / "memrelay/memory/engine/migrations/0023_episodes.sql"
        ).read_text()
    )

    kinds = list(connection.execute("SELECT kind, crc FROM records"))

    connection.close()
    assert kinds == [("user.memory.user", None)]
