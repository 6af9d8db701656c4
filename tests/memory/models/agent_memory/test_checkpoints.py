"""Operations on checkpoints: shared values, writes, lists, deletion, copies and pruning."""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordDamaged, Refused
from memrelay.memory.models.agent_memory.checkpoint_table import from_text, pack, to_text, unpack
from tests.memory.builders import make_store, perform
from tests.memory.models.agent_memory.checkpoint_cases import (
    call,
    count_rows,
    get,
    ids,
    put,
    to_data,
    values_of,
    write,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def test_numbers_and_values_survive_their_stored_form() -> None:
    for numbers in ([], [1], [1, 2, 3], [5, 6, 1, 9, 9]):
        assert from_text(to_text(numbers)) == numbers
    assert to_text([1, 2, 3, 7]) == "1-3,7"
    for value in (b"", b"x" * 1024, b"x" * 1025, bytes(range(256)) * 8):
        assert unpack(pack(value)) == value
    assert len(pack(b"x" * 1025)) < 100 and pack(b"x" * 1024)[1:] == b"x" * 1024
    for damaged in (b"", b"\2x", b"\1x"):
        with pytest.raises(ValueError, match="a stored value"):
            unpack(damaged)


def test_a_checkpoint_shares_the_values_of_its_base(store: Store) -> None:
    first = put(store, "c1", [b"one", b"two"], metadata={"step": 1, "run_id": "r"})
    second = put(store, "c2", [b"four"], runs=[[0, 2]], base=first.mark, parent="c1")
    third = put(store, "c3", [b"five"], runs=[[2, 1], [0, 1]], base=second.mark, parent="c2")

    assert (first.stored, second.stored, third.stored) == (True, True, True)
    found = get(store)
    assert values_of(found) == [b"c3", b"four", b"one", b"five"]
    assert (found.id, found.parent, found.mark) == ("c3", "c2", third.mark)
    assert found.channels[0].items == 3
    assert values_of(get(store, "c1")) == [b"c1", b"one", b"two"]
    assert get(store, "c1").metadata == {"step": 1, "run_id": "r"}
    assert count_rows(store, "checkpoint_values") == 4


def test_a_base_that_is_gone_or_changed_is_not_used(store: Store) -> None:
    base = put(store, "c1", [b"one"]).mark
    put(store, "c1", [b"other"])
    assert put(store, "c2", runs=[[0, 1]], base=base).stored is False
    assert put(store, "c2", runs=[[0, 1]], base="c9:00000000").stored is False
    assert put(store, "c2", runs=[[0, 1]], base=base, thread="u").stored is False
    assert ids(store) == ["c1"]
    assert count_rows(store, "checkpoint_values") == 1
    with pytest.raises(Refused, match="the base has 1 parts, not 2"):
        put(store, "c2", runs=[[0, 2]], base=get(store).mark)


def test_sizes_and_channels_must_fit_the_data(store: Store) -> None:
    for given, message in (
        ({"data": to_data(b"a"), "size": 1}, "`data` has 2 bytes, but the sizes add up to 1"),
        ({"data": to_data(b"a"), "size": 2, "channels": [{"name": "a", "type": "b"}]}, "1 parts"),
        ({"data": "?", "size": 1}, "`data` is not base64"),
        ({"id": "latest"}, "cannot be 'latest'"),
        ({"piece": "a"}, "a piece needs `of`"),
    ):
        with store.transaction() as tx, pytest.raises(Refused, match=message):
            perform(tx, "checkpoints.put", **{"id": "c1", "thread": "t"} | given)
    assert get(store).found is False


def test_long_data_comes_in_pieces(store: Store) -> None:
    text = b64encode(pack(b"c1") + pack(b"x" * 1000)).decode()
    given = {"id": "c1", "thread": "t", "of": "u1"}
    for at in (0, 500):
        piece = {"piece": text[at : at + 500], "at": at}
        assert call(store, "checkpoints.put", **given, **piece).stored
    assert call(store, "checkpoints.put", **given, piece="gap", at=1200).stored is False
    last = {"data": text[1000:], "size": 3, "parts": [[1001]]}
    channels = [{"name": "a", "type": "bytes"}]
    assert call(store, "checkpoints.put", **given, **last, at=1000, channels=channels).stored
    assert values_of(get(store)) == [b"c1", b"x" * 1000]
    assert call(store, "checkpoints.put", **given, **last, at=1000).stored is False


def test_a_long_checkpoint_is_read_in_slices(store: Store) -> None:
    put(store, "c1", [b"a" * 900, b"b" * 900])
    whole, data = get(store), b""
    while len(data) < whole.total:
        wanted = {"id": "c1", "thread": "t", "at": len(data)}
        with store.transaction() as tx:
            found = perform(tx, "checkpoints.get", result_bytes=500, **wanted)
        assert found.sizes == whole.sizes and len(b64decode(found.data)) <= 250
        data += b64decode(found.data)
    assert data == b64decode(whole.data)


def test_known_parts_are_not_returned(store: Store) -> None:
    first = put(store, "c1", [b"one", b"two"])
    write(store, "c1", (0, "a", b"w"))
    found = get(store, known=first.mark)
    assert (values_of(found), len(found.sizes)) == ([b"c1", b"w"], 1)
    put(store, "c1", [b"other"])
    assert values_of(get(store, known=first.mark)) == [b"c1", b"other", b"w"]


def test_the_first_write_wins_except_on_special_channels(store: Store) -> None:
    assert write(store, "c1", (0, "a", b"1"), (-1, "__error__", b"e1")).added == 2
    assert write(store, "c1", (0, "a", b"2"), (1, "b", b"3"), (-1, "__error__", b"e2")).added == 2
    found = get(store, "c1")
    assert found.found is False  # a task may write before its checkpoint
    assert values_of(found) == [b"e2", b"1", b"3"]
    write(store, "c1", (0, "a", b"4"), task="j", path="~a")
    write(store, "c1", (0, "a", b"5"), task="z", path="")
    assert [one.task for one in get(store, "c1").writes] == ["k", "k", "k", "z", "j"]


def test_two_agents_never_share_a_thread(store: Store) -> None:
    put(store, "c1", [b"secret"], agent="a")
    write(store, "c1", (0, "x", b"secret"), agent="a")
    other = get(store, "c1", agent="b")
    assert (other.found, other.writes) == (False, ())
    put(store, "c1", [b"mine"], agent="b")
    assert values_of(get(store, agent="a"))[1] == b"secret"
    assert call(store, "checkpoints.delete", threads=["t"], agent="b").deleted == 1
    assert get(store, agent="a").found and not get(store, agent="b").found
    call(store, "checkpoints.copy", source="t", target="u", agent="b")
    assert ids(store, thread="u") == []


def test_a_list_has_the_newest_checkpoints_first(store: Store) -> None:
    for n in range(5):
        put(store, f"c{n}", [b"x"], metadata={"step": n, "source": ["input", "loop"][n % 2]})
    put(store, "d0", [b"x"], thread="u", ns="child", agent="b")
    page = call(store, "checkpoints.list", limit=2, offset=1)
    assert ([one.id for one in page.items], page.total) == (["c4", "c3"], 6)
    assert page.items[0].size == len(pack(b"c4")) + len(pack(b"x"))
    assert ids(store, thread="t", before="c2") == ["c1", "c0"]
    assert ids(store, metadata={"source": "loop"}) == ["c3", "c1"]
    assert ids(store, metadata={"source": "loop", "step": 1}) == ["c1"]
    assert ids(store, metadata={"none": None}) == []
    assert ids(store, ns="child") == ids(store, agent="b") == ["d0"]


def test_children_of_a_deleted_checkpoint_get_its_parent(store: Store) -> None:
    base, parent = "", ""
    for n in range(4):
        ident = f"c{n}"
        base = put(store, ident, [b"%d" % n], runs=[[0, n]], base=base, parent=parent).mark
        write(store, ident, (0, "a", b"w"))
        parent = ident
    assert call(store, "checkpoints.delete", ids=["c1", "c2", "nope"]).deleted == 2
    assert (get(store, "c3").parent, get(store, "c0").parent) == ("c0", "")
    assert values_of(get(store, "c3")) == [b"c3", b"0", b"1", b"2", b"3", b"w"]
    call(store, "checkpoints.delete", ids=["c3"])
    assert (count_rows(store, "checkpoint_values"), count_rows(store, "checkpoint_writes")) == (
        1,
        1,
    )


def test_a_copy_has_its_own_values(store: Store) -> None:
    put(store, "z", [b"before"], thread="u")
    base = put(store, "c1", [b"one"], metadata={"run_id": "r"}).mark
    put(store, "c2", [b"two"], runs=[[0, 1]], base=base, parent="c1")
    write(store, "c2", (0, "a", b"w"))
    assert call(store, "checkpoints.copy", source="t", target="u").copied == 2
    call(store, "checkpoints.delete", threads=["t"])
    assert values_of(get(store, "c2", thread="u")) == [b"c2", b"one", b"two", b"w"]
    assert values_of(get(store, "z", thread="u")) == [b"z", b"before"]
    assert ids(store, thread="u") == ["z", "c2", "c1"]
    with pytest.raises(Refused, match="cannot be copied into itself"):
        call(store, "checkpoints.copy", source="u", target="u")
    assert call(store, "checkpoints.copy", source="u", target="v").copied == 3
    assert count_rows(store, "checkpoint_values") == 6


def test_forgotten_runs_lose_their_checkpoints_and_writes(store: Store) -> None:
    put(store, "c1", [b"1"], metadata={"run_id": "r1"})
    put(store, "c2", [b"2"], metadata={"run_id": "r2"}, parent="c1")
    write(store, "c1", (0, "a", b"w"))
    assert call(store, "checkpoints.forget_runs", runs=["r1", "no"]).deleted == 1
    assert (ids(store), get(store, "c2").parent) == (["c2"], "")
    assert count_rows(store, "checkpoint_writes") == 0


def test_pruning_keeps_the_newest_of_each_namespace(store: Store) -> None:
    for ns in ("", "child"):
        for n in range(5):
            put(store, f"c{n}", [b"%d" % n], ns=ns, parent=f"c{n - 1}" if n else "")
    assert call(store, "checkpoints.prune", threads=["t", "no"], keep=2).deleted == 6
    assert ids(store, ns="") == ids(store, ns="child") == ["c4", "c3"]
    assert get(store, "c3").parent == ""
    assert call(store, "checkpoints.prune", threads=["t"], strategy="delete").deleted == 4
    assert count_rows(store, "checkpoint_values") == 0


def test_pruning_spares_what_a_delta_channel_is_rebuilt_from(store: Store) -> None:
    counted = {"counters_since_delta_snapshot": {"messages": [1, 1]}}
    put(store, "c0", [b"old"])
    put(store, "c1", [b"snapshot"], parent="c0")
    for n in (2, 3, 4):
        put(store, f"c{n}", parent=f"c{n - 1}", channels=[], metadata=counted)
        write(store, f"c{n}", (0, "messages", b"w"))
    assert call(store, "checkpoints.prune", threads=["t"]).deleted == 1
    assert ids(store) == ["c4", "c3", "c2", "c1"]
    assert len(get(store, "c2").writes) == 1


def test_a_lost_value_is_reported(store: Store) -> None:
    put(store, "c1", [b"1", b"2"])
    store._connection.execute("DELETE FROM checkpoint_values WHERE n = 2")
    with pytest.raises(RecordDamaged, match="checkpoint c1 of thread 't' lacks 1 of its values"):
        get(store)
