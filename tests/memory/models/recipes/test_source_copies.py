"""What recipes read is exported, imported, erased and salvaged."""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.engine.copy import copy_database, inspect
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.transfer.export import export_lines, read_line, to_json
from memrelay.memory.transfer.salvage import salvage_into
from tests.memory.builders import NOW, RECIPES_ID, make_store, perform

OTHER_ID = "instances/c0ffee00/recipes"
# JSON escapes both quotes.
SECRET = 'call "Ada"'
EDGE = "INSERT INTO edges(id, instance, kind, from_node, to_node, created_at) VALUES"
VIEW = "INSERT INTO views(id, template, instance, created_at) VALUES"


def event(payload: Any, stream: str = "s") -> dict[str, Any]:
    return {"stream_id": stream, "event_type": "t", "payload": payload}


def call(store: Store, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def fill(store: Store) -> None:
    place = {"instance": "app", "namespace": "n", "auto_create": True}
    call(store, "kv.set", key="k", value={"a": [1, "ä"]}, **place)
    call(store, "kv.set", key="secret", value={"note": f"please {SECRET}"}, **place)
    events = [event(1), event({"b": 2}, "r"), event({SECRET: 1}), event(None)]
    call(store, "events.append", instance="log", events=events, auto_create=True)
    with closing(apsw.Connection(store.path)) as connection:
        connection.execute(
            f"{EDGE} ('z', 'g', 'knows', 'a', 'b', 1), ('a', 'g', 'knows', 'b', 'c', 1)"
        )
        connection.execute(f"{EDGE} ('s', 'g', ?, 'a', 'b', 1)", (SECRET,))
        connection.execute(f"{VIEW} ('v', 't', 'g', 1), (?, 't', 'g', 1)", (SECRET,))


def lines_of(store: Store, folder: Path) -> list[str]:
    copy = folder / "copy"
    copy.unlink(missing_ok=True)
    copy_database(Path(store.path), copy)
    return [to_json(line).decode() for line in export_lines(copy, store.memory_id, NOW)]


def test_an_import_gives_another_pipeline_equal_sources(tmp_path: Path) -> None:
    own, other = make_store(tmp_path, RECIPES_ID), make_store(tmp_path, OTHER_ID)
    fill(own)
    lines = lines_of(own, tmp_path)

    first, again = (call(other, "records.import", lines=lines) for _ in range(2))

    # Two instances, two pairs, four events, three edges, two views.
    assert (first.added, again.added, again.same) == (13, 0, 13)
    assert lines_of(other, tmp_path) == lines
    found = call(other, "events.query", instance="log", order_by={"field": "timestamp"})
    assert [one["payload"] for one in found.events] == [1, {"b": 2}, {SECRET: 1}, None]
    added = call(other, "events.append", instance="log", events=[event(5)])
    assert added.events[0].sequence_number == 4
    own.close()
    other.close()


def test_an_import_does_not_replace_a_different_pair_unasked(tmp_path: Path) -> None:
    store = make_store(tmp_path, RECIPES_ID)
    fill(store)
    lines = lines_of(store, tmp_path)
    call(store, "kv.set", instance="app", namespace="n", key="k", value=2)

    with pytest.raises(Refused, match="kv 'k' of 'n' of 'app': the store has different data"):
        call(store, "records.import", lines=lines)

    assert call(store, "records.import", lines=lines, replace=True).replaced == 1
    found = call(store, "kv.get", instance="app", namespace="n", keys=["k"])
    assert found.items[0].value == {"a": [1, "ä"]}
    store.close()


def test_a_line_without_valid_json_is_refused_and_other_json_is_stored_alike() -> None:
    pair = '{"kv":{"instance":"i","namespace":"n","key":"k","value":"%s","updated_at":1}}'
    with pytest.raises(Refused, match="invalid line of an export"):
        read_line(pair % "{")
    line = read_line(pair % r"{ \"a\": \"\\u00e4\" }")
    assert line.kv is not None and line.kv.value == '{"a":"ä"}'


def test_an_erasure_by_text_deletes_the_rows_that_quote_it(tmp_path: Path) -> None:
    store = make_store(tmp_path, RECIPES_ID)
    fill(store)
    call(store, "kv.set", instance="app", namespace="n", key=SECRET, value=1)

    erased = call(store, "records.erase", text=SECRET)

    # Two key-value pairs, an event, an edge and a view.
    assert erased.records == 5
    with store.transaction() as tx:
        noted = [(sort, text) for _, sort, text in tx.erasures.wanted()]
        assert ("text", SECRET) in noted
        assert [one for one in tx.feed.after(0, 99) if "Ada" in str(one)] == []
        tx.erasures.forget(1 << 40, (0, 0, 0))
    store.rewrite()
    assert b"Ada" not in Path(store.path).read_bytes()
    assert call(store, "kv.count", instance="app").count == 1
    found = call(store, "events.query", instance="log", order_by={"field": "timestamp"})
    assert [one["payload"] for one in found.events] == [1, {"b": 2}, None]
    with closing(apsw.Connection(store.path)) as connection:
        assert connection.execute("SELECT id FROM edges ORDER BY row").fetchall() == [
            ("z",),
            ("a",),
        ]
        assert connection.execute("SELECT id FROM views").fetchall() == [("v",)]
    store.close()


def test_an_erasure_by_text_finds_recipes_and_the_edges_of_nodes(tmp_path: Path) -> None:
    store = make_store(tmp_path, RECIPES_ID)
    for label in (SECRET, "clean"):
        definition = {"id": "r", "label": label}
        name = "recipes.create" if label == SECRET else "recipes.update"
        call(store, name, definition=definition, **({} if label == SECRET else {"id": "r"}))
    call(store, "rules.create", name=SECRET)
    call(store, "instances.create", sort="graph", name="g")
    nodes = [{"id": "a", "kind": "p", "name": SECRET}, {"id": "b", "kind": "p", "name": "b"}]
    call(store, "graph.add_nodes", instance="g", nodes=nodes)
    edge = {"kind": "knows", "from_node_id": "a", "to_node_id": "b"}
    call(store, "graph.add_edges", instance="g", edges=[edge])

    erased = call(store, "records.erase", text=SECRET)

    assert erased.records == 3
    assert call(store, "graph.list_edges", instance="g").items == ()
    assert [one.id for one in call(store, "graph.list_nodes", instance="g").items] == ["b"]
    assert call(store, "recipes.list").items == call(store, "rules.list").items == ()
    store.close()


def test_a_salvage_repairs_the_json_of_events(tmp_path: Path) -> None:
    store = make_store(tmp_path, RECIPES_ID)
    fill(store)
    with closing(apsw.Connection(store.path)) as connection:
        connection.execute("UPDATE events SET payload = '{', metadata = '[1]' WHERE row = 2")
        connection.execute("UPDATE events SET at = -5 WHERE row = 1")
    new = tmp_path / "new.db"

    rows = salvage_into(new, Path(store.path)).rows
    store.close()

    assert (rows["kv"], rows["events"], rows["edges"], rows["views"]) == (2, 4, 3, 2)
    assert inspect(new).faults == []
    with closing(apsw.Connection(str(new))) as connection:
        found = connection.execute(
            "SELECT at, payload, metadata FROM events ORDER BY row"
        ).fetchall()
    assert found[0] == (0, "1", "{}")
    assert found[1][1:] == ("null", "{}")
    assert found[3][1:] == ("null", "{}")
