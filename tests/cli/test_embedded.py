"""The embedded store: the operations on a file, without bus and server."""

import shutil
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from memrelay import open_store
from memrelay.cli.operation_command import encode_input
from memrelay.embedded.store import TEXTS_PER_SEARCH
from memrelay.memory.errors import (
    PolicyStop,
    RecordDamaged,
    RecordNotFound,
    Refused,
    StoreBroken,
    StoreBusy,
    VersionConflict,
)
from memrelay.memory.operations import known_operation
from memrelay.worker.ownership.host_locks import NotTheOwner, alone
from tests.memory.builders import assert_sound
from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call
from tests.support.child import CHECKOUT
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

FORKS = """
import os, sys
from memrelay import open_store
with open_store(sys.argv[1]) as store:
    store.records.create("tea")
    if os.fork() == 0:
        try:
            store.records.create("milk")
        except ValueError as error:
            print(error, file=sys.stderr, flush=True)
        os._exit(0)
    os.wait()
    store.records.create("coffee")
    print(store.records.list().total)
"""
READS = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1], isolation_level=None) as connection:
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM records").fetchone()
    print("reading", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("actor", [None, 5, b"me", "a\x00b", "\ud800", "x" * 257])
def test_an_invalid_actor_is_refused_before_a_file_is_created(
    tmp_path: Path, actor: object
) -> None:
    with (
        pytest.raises(Refused, match="`actor` must be a printable text"),
        open_store(tmp_path / "notes.db", actor),  # type: ignore[arg-type]
    ):
        pass

    assert not list(tmp_path.iterdir())


def test_the_life_of_a_record(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "notes.db"
    with open_store(file) as store:
        made = store.records.create("tea", tags=["a"])
        grown = store.records.append("milk", guid=made.guid, separator=" with ")
        changed = store.records.update(made.guid, kind="fact")
        with pytest.raises(VersionConflict):
            store.records.delete(made.guid, if_version=[made.version])

    with open_store(str(file)) as store:
        assert (made.source, made.scope, grown.created) == ("python", "notes", False)
        assert store.records.list(tags=["a"]).items == (changed,)
        assert [hit.record.content for hit in store.records.search("milk").items] == [
            "tea with milk"
        ]
        store.records.delete(made.guid)
        with pytest.raises(RecordNotFound):
            store.records.get(made.guid)
    assert_sound(file)


def count_alone(file: Path, folder: Path) -> int:
    """Return the number of records in a copy of the file without its log."""
    folder.mkdir()
    copy = Path(shutil.copy(file, folder))
    with open_store(copy) as store:
        return store.records.list().total


def test_the_policies_of_a_file_apply_wherever_it_is_opened(tmp_path: Path) -> None:
    key, card = "AKIAIOSFODNN7EXAMPLE", "4012 8888 8888 1881"
    with open_store(tmp_path / "a.db") as store:
        store.policies.set({"name": "k", "match": {"find": "secrets"}, "action": "redact"})
        store.policies.set({"name": "c", "match": {"find": "credit_card"}, "action": "refuse"})
    with open_store(tmp_path / "a.db") as store:
        guid = store.records.create(key).guid
        assert key not in store.records.get(guid).content
        with pytest.raises(PolicyStop, match="'c'"):
            store.records.create(card)
        assert store.records.list().total == 1
        counts = {one.policy: one.total for one in store.policies.verdicts().counts}
        assert counts == {"k": 1, "c": 1}


def test_a_store_without_a_context_is_closed_by_close(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    store = open_store(file)
    store.records.create("tea")
    with pytest.raises(StoreBusy):
        open_store(file)

    store.close()
    store.close()

    with pytest.raises(Refused, match="is closed; open it again"):
        store.records.list()
    assert not Path(f"{file}-wal").exists()
    assert count_alone(file, tmp_path / "copy") == 1
    with open_store(file) as again:
        assert again.records.list().total == 1


@pytest.mark.parametrize("end", ["", "del store", "import os; os._exit(0)"])
def test_a_store_that_nobody_closes_keeps_what_it_acknowledged(tmp_path: Path, end: str) -> None:
    file = tmp_path / "notes.db"
    program = f"""
from memrelay import open_store
store = open_store({str(file)!r}, embedder="none")
store.records.create("tea")
{end}
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=CHECKOUT)

    assert Path(f"{file}-wal").exists() == ("_exit" in end)
    with open_store(file) as store:
        assert store.records.list().total == 1


def test_an_idle_store_has_everything_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with open_store(file, embedder="none") as store:
        store.records.create("tea")
        wait_for(lambda: not Path(f"{file}-wal").stat().st_size, "the log is empty", 30)

        assert count_alone(file, tmp_path / "copy") == 1
        store.records.create("milk")
        assert store.records.list().total == 2


def test_a_snapshot_is_complete_without_a_log(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with open_store(tmp_path / "notes.db") as store:
        store.records.create("tea")
        store.snapshot(copy)
        store.records.create("milk")
        with pytest.raises(Refused, match="exists; write the snapshot to a new file"):
            store.snapshot(copy)

    assert not Path(f"{copy}-wal").exists()
    with open_store(copy) as store:
        assert [one.content for one in store.records.list().items] == ["tea"]
    assert_sound(copy)


def test_write_is_an_alias_of_create(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db") as store:
        made = store.records.write("tea", tags=["a"])

        assert store.records.list().items == (made,)


def test_a_record_has_a_history_and_opening_the_file_deletes_expired_records(
    tmp_path: Path,
) -> None:
    file = tmp_path / "notes.db"
    with open_store(file, actor="ada") as store:
        made = store.records.create("tea")
        store.records.delete(made.guid, reason="mistaken")
        assert store.records.restore(made.guid).content == "tea"
        states = store.records.history(made.guid).items
        soon = datetime.fromtimestamp(time.time() + 0.2, UTC).isoformat()
        store.records.create("secret", expires_at=soon)
    time.sleep(0.3)

    with open_store(file) as store:
        assert [(one.number, one.actor, one.reason) for one in states] == [
            (3, None, None),
            (2, "ada", None),
            (1, "ada", "mistaken"),
        ]
        assert store.records.list().total == 1
    with closing(sqlite3.connect(file)) as connection:
        assert (b"secret",) not in connection.execute(
            "SELECT CAST(content AS BLOB) FROM records"
        ).fetchall()


def test_a_filter_compares_fields_of_the_data(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        made = store.records.create("tea", data={"price": 3})
        store.records.create("milk", data={"price": "3"})

        assert store.records.list(filter={"data.price": {"gte": 3}}).items == (made,)
        with pytest.raises(Refused, match=r"filter\.data\.price\.gt: gt compares with"):
            store.records.list(filter={"data.price": {"gt": None}})
        with pytest.raises(Refused, match=r"data\.price: an integer has 64 bits"):
            store.records.create("tea", data={"price": 2**64})


def test_records_created_in_quick_succession_have_different_ascending_ids(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        guids = [store.records.create("tea").guid for _ in range(200)]

    assert len(set(guids)) == 200 and guids == sorted(guids)


def test_an_invalid_input_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        with pytest.raises(Refused, match=r"records\.create: content: "):
            store.records.create("")
        with pytest.raises(Refused, match=r"order: .*; limit: "):
            store.records.list(limit=0, order="up")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="colour"):
            store.records.create("tea", colour="green")  # type: ignore[call-arg]

        assert store.records.list().total == 0


def test_a_file_can_be_open_only_once(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db"):
        with (
            pytest.raises(StoreBusy, match="in this program already"),
            open_store(tmp_path / "x.db"),
        ):
            pass
        with open_store(tmp_path / "y.db") as other:
            assert other.records.list().total == 0


def test_a_file_that_is_not_a_store_is_refused_and_no_file_is_created(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "other.db").execute(
        "CREATE TABLE somebodys(data)"
    ).connection.close()
    (tmp_path / "notes.txt").write_text("tea")
    (tmp_path / "empty.db").touch()
    (tmp_path / "folder.db").mkdir()
    before = sorted(tmp_path.iterdir())

    for path in before:
        with pytest.raises(StoreBroken, match="is not a Memrelay store"), open_store(path):
            pass

    assert sorted(tmp_path.iterdir()) == before


def test_an_update_repairs_a_record_with_damaged_tags(
    tmp_path: Path,
) -> None:
    file = tmp_path / "notes.db"
    with open_store(file) as store:
        made = store.records.create("tea", tags=["people"])
    with sqlite3.connect(file) as changed:
        changed.execute("""UPDATE records SET tags = '["peo'""")
    changed.close()

    with open_store(file) as store:
        with pytest.raises(RecordDamaged, match=f"record {made.guid} is damaged.*records.update"):
            store.records.list()
        store.records.update(made.guid, tags=["people"])
        assert store.records.list().total == 1


def test_a_link_opens_its_target(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "x.db")
    with (
        open_store(tmp_path / "x.db") as store,
        pytest.raises(StoreBusy, match="in this program already"),
        open_store(tmp_path / "link.db"),
    ):
        pass
    with open_store(tmp_path / "link.db") as again:
        assert again.records.create("tea").scope == "x" and store.records is not again.records


def test_a_link_into_a_memory_root_takes_the_lock_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "root" / "instances").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "root" / "instances")

    with (
        alone(tmp_path / "root"),
        pytest.raises(NotTheOwner, match="a worker serves"),
        open_store(tmp_path / "link" / "x.db"),
    ):
        pass


def test_threads_take_turns(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store, ThreadPoolExecutor(8) as pool:
        made = [pool.submit(store.records.create, str(number)) for number in range(200)]

        assert len({one.result().guid for one in made}) == 200
        assert store.records.list().total == 200


def test_a_closed_store_refuses_every_call(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        pass

    with pytest.raises(Refused, match="is closed; open it again"):
        store.records.list()


def test_a_forked_process_is_refused_and_its_parent_continues(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path / "x.db")],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert "was opened in process" in done.stderr


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with (
        pytest.raises(StoreBroken, match="its parent must be a folder"),
        open_store(tmp_path / "file" / "x.db"),
    ):
        pass


def test_a_store_of_a_memory_root_is_refused_while_a_worker_runs() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        made = call(system, uid, "records.create", {"content": "tea"})
        with (
            pytest.raises(NotTheOwner, match="a worker serves"),
            open_store(system.store_file(uid)),
        ):
            pass
        worker.stop()

        with open_store(system.store_file(uid)) as store:
            assert store.records.get(made["guid"]).content == "tea"
            assert store.records.create("milk").scope == f"instances/{uid}/memories"
        system.start_worker()

        assert call(system, uid, "records.list")["total"] == 2


def test_an_erasure_finds_a_text_in_every_field_and_any_json_escaping(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db") as store:
        store.records.create("kept", tags=["a", "b"], data={"a": 1})
        store.records.create("tagged", tags=['say "no"'])
        store.records.create("told", data={"said": 'first\nsay "no"'})
        store.records.create("named", data={"C:\\secret": 1})

        counts = [
            store.records.erase(text=text).records
            for text in ('say "no"', "C:\\secret", '","', '":')
        ]

        assert counts == [2, 1, 0, 0]
        assert [one.content for one in store.records.list().items] == ["kept"]


def test_opening_the_file_completes_an_interrupted_erasure(
    tmp_path: Path,
) -> None:
    file = tmp_path / "notes.db"
    with open_store(file) as store:
        store.records.create("a zwitscherling sings")
        with subprocess.Popen(
            [sys.executable, "-c", READS, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as reader:
            assert reader.stdout is not None and reader.stdout.readline() == b"reading\n"
            with pytest.raises(StoreBusy):
                store.records.erase(text="zwitscherling")

    with open_store(file) as store:
        assert not [path for path in tmp_path.iterdir() if b"zwitscherling" in path.read_bytes()]
        assert store.records.erasures().items[0].ended_at is not None


def test_an_erasure_reports_named_memories_whose_names_have_the_text(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db", embedder="none") as store:
        named = store.memories.create("zwitscherling's tea")
        described = store.memories.create("birds", description="a zwitscherling sings")
        store.memories.create("plants")
        store.records.create("the zwitscherling sings")

        store.records.erase(text="zwitscherling")
        (erasure,) = store.records.erasures().items
        store.records.erase(text="plane")

        assert f"{named.id}, {described.id}; change or delete them" in erasure.left_over
        assert "zwitscherling" not in erasure.left_over and erasure.ended_at is not None
        assert store.records.erasures(limit=1).items[0].left_over == ""


def test_an_erased_text_is_no_longer_in_the_file(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db") as store:
        kept = store.records.create("kept").guid
        made = store.records.create("a zwitscherling sings")
        store.records.update(made.guid, content="nothing of that")

        erased = store.records.erase(text="zwitscherling", reason="asked for")

        assert (erased.records, erased.versions) == (1, 1)
        assert not [path for path in tmp_path.iterdir() if b"zwitscherling" in path.read_bytes()]
        assert [one.guid for one in store.records.list().items] == [kept]
        assert store.records.erasures().items[0].ended_at is not None


def test_a_search_by_meaning_finds_a_record_without_a_common_word(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db") as store:
        made = store.records.create("The customer prefers email over phone calls")
        store.records.create("The fiscal year ends in March")

        hits = store.records.search("preferred contact method", mode="semantic", limit=1)

        assert [hit.record.guid for hit in hits.items] == [made.guid]


def test_a_question_finds_a_record_with_other_words(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db") as store:
        store.records.create("my cat sleeps all day")

        first = store.records.search("cat")
        found = store.records.search("which pets take naps?", wait=True)

    assert (first.mode, first.degraded, len(first.items)) == ("hybrid", "loading", 1)
    assert (found.mode, found.degraded) == ("hybrid", None)
    assert [hit.record.content for hit in found.items] == ["my cat sleeps all day"]


def test_a_search_that_does_not_wait_makes_some_vectors(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db") as store:
        store.records.search("tea", wait=True)
        for number in range(TEXTS_PER_SEARCH + 1):
            store.records.create(f"tea {number}")

        degraded = [store.records.search("tea").degraded for _ in range(2)]

    assert degraded == ["incomplete", None]


def test_a_store_without_vectors_is_searched_for_all_words(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db", embedder="none") as store:
        store.records.create("my cat sleeps all day")
        store.records.create("a kitten takes naps")
    with open_store(tmp_path / "notes.db") as store:
        found = store.records.search("cat naps", wait=True)
        ranked = store.records.search("cat naps", recency=0.5)

    assert (found.mode, found.degraded, found.items) == ("fts", None, ())
    assert found.nothing is not None and found.nothing.reason == "not together"
    assert found.explanation is None
    assert (ranked.mode, ranked.degraded) == ("hybrid", "no vectors")


def test_embed_makes_the_vectors_ahead(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db", embedder="local") as store:
        store.records.create("my cat sleeps all day")

        assert store.records.embed().missing == 0
        found = store.records.search("a kitten takes naps", mode="hybrid").items
        assert [item.record.content for item in found] == ["my cat sleeps all day"]


def test_without_an_embedder_only_words_are_compared(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db", embedder="none") as store:
        store.records.create("my cat sleeps all day")

        assert store.records.search("a kitten takes naps", mode="hybrid").items == ()
        assert len(store.records.search("cats", mode="hybrid").items) == 1
        with pytest.raises(Refused, match=r"embedding\.model"):
            store.records.embed()


def test_an_unknown_embedder_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(Refused, match='use "bge", "local", "none"'),
        open_store(tmp_path / "notes.db", embedder="remote"),  # type: ignore[arg-type]
    ):
        pass


def test_a_new_state_replaces_the_old_one_by_default(tmp_path: Path) -> None:
    old, new = "The user prefers aisle seats", "The user prefers window seats"
    with open_store(tmp_path / "notes.db") as store:
        for memory in ("current", "seed"):
            for text in (old, new):
                mode = {"mode": None} if memory == "seed" else {}
                written = store.entries.create(memory=memory, content=text, **mode)

            assert written.content == (new if memory == "current" else f"{old}\n{new}")
            assert written.replaced == ((old,) if memory == "current" else ())


def test_the_command_line_writes_current_states() -> None:
    entries = known_operation("entries.create")
    fields = {"memory_id": "m", "content": "tea"}

    assert orjson.loads(encode_input(entries, fields))["mode"] == "current"
    assert orjson.loads(encode_input(entries, fields | {"mode": "merge"}))["mode"] == "merge"


def test_an_entry_with_the_same_meaning_is_stored_once(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db") as store:
        memory = store.memories.create("Customer")
        first = store.entries.create(memory.id, "Customer prefers email over phone calls")
        planned = store.entries.create(memory.id, "Customer prefers email", dry_run=True)
        second = store.entries.create(memory.id, "The customer likes email more than phone")

        assert planned.action == "updated" and planned.content.startswith(first.content)
        assert store.entries.get(first.id).content == first.content
        assert (second.action, second.id) == ("skipped", first.id)
        found = store.knowledge.search("preferred contact method")
        assert [result.entry_id for result in found.results] == [first.id]


def test_a_store_prints_nothing_to_stdout(tmp_path: Path) -> None:
    program = (
        "import sys; from memrelay import open_store; from memrelay.logs import get_logger\n"
        "with open_store(sys.argv[1]) as store: store.records.create('tea')\n"
        "get_logger('memrelay').warning('event')"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "x.db")],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert (done.stdout, done.stderr) == ("", "event\n")


def test_a_file_of_a_home_serves_the_operations_of_that_home(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db") as store:
        store.items.put("a1", "k", "green tea", agent="a1")
        store.grants.set("a1", "a2", agent="a1", level="search")
        assert [one.store for one in store.stores.list(agent="a2").stores] == ["a2", "a1"]
        assert store.stores.list(agent="a3", chat="c").stores[1].source == "chat"
        store.contexts.open("user", "u", "a3", ttl_s=60)
        assert store.contexts.list(sort="user").contexts[0].agent == "a3"


def test_the_home_of_items_in_a_memory_root_is_closed_to_records(tmp_path: Path) -> None:
    (tmp_path / "owner.lock").touch()
    with open_store(tmp_path / "instances" / "u" / "stores.db") as store:
        store.items.put("a1", "k", "green tea", agent="a1")
        with pytest.raises(Refused, match="holds the items of agents"):
            store.records.search("tea")
        assert store.records.erase(text="green tea").records == 1


def test_a_file_is_read_as_it_was(tmp_path: Path) -> None:
    with open_store(tmp_path / "notes.db", embedder="none") as store:
        tea = store.records.create("green tea")
        store.records.delete(tea.guid)
        store.records.create("coffee")

        assert [one.content for one in store.records.list(as_of="n:1").items] == ["green tea"]
        assert store.last_read is not None and store.last_read.change == 1
        assert [hit.record for hit in store.records.search("tea", as_of="n:1").items] == [tea]
        assert store.operate("records.list", {}, as_of="n:2")["total"] == 0
        with pytest.raises(Refused, match="has no `as_of`"):
            store.operate("records.create", {"content": "x"}, as_of="n:1")
        copies = list(tmp_path.glob(".asof-*"))
        assert len(copies) == 1

        store.records.erase(guids=[tea.guid])
        assert store.records.list(as_of="n:1").total == 0
    assert not list(tmp_path.glob(".asof-*"))
