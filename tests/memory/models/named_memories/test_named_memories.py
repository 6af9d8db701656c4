"""Named memories and their entries: writes without an embedder, ids, tags and versions."""

import time
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.filter_sql import Conditions
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound, Refused, VersionConflict
from memrelay.memory.models.named_memories.entry_text import MAX_ENTRY_CHARACTERS
from memrelay.memory.records.ids import guid_of, uid_of
from tests.memory.builders import NOW, fresh_store, make_store, perform
from tests.memory.models.named_memories.entry_cases import A, B, C, contents, make_memory, write


def test_ids_contain_the_pipeline_and_a_prefix(tx: Store) -> None:
    memory = make_memory(tx)
    entry = write(tx, memory, A)

    assert (uid_of("mem", memory), uid_of("me", entry.id)) == ("a3d8f1b2", "a3d8f1b2")
    assert uid_of("me", memory) == uid_of("mem", "mem_x") == uid_of("mem", "") == ""
    assert (entry.memory_id, entry.source, entry.action) == (memory, "manual", "created")


@pytest.mark.parametrize("again", [A, A.upper(), f"  {A}.", A.replace(" ", "\t")])
def test_the_same_text_is_skipped_and_confirms_the_entry(tx: Store, again: str) -> None:
    memory = make_memory(tx)
    first = write(tx, memory, A)

    second = write(tx, memory, again, source="agent")

    assert (second.action, second.id, second.content, second.source) == (
        "skipped",
        first.id,
        A,
        "manual",
    )
    assert (second.confirmations, second.last_confirmed_at is not None, second.version) == (
        1,
        True,
        first.version,
    )
    assert contents(tx, memory) == [A]


@pytest.mark.parametrize(
    "other",
    [
        "The invoice is due in June",
        "The invoice is due in May 2027",
        "the invoice is not due in May",
    ],
)
def test_a_similar_text_is_not_a_duplicate(tx: Store, other: str) -> None:
    memory = make_memory(tx)

    assert write(tx, memory, B).action == "created" and write(tx, memory, other).action != "skipped"


def test_a_merge_keeps_both_texts_without_duplicate_lines(tx: Store) -> None:
    memory = make_memory(tx)
    first = write(tx, memory, A, tags=["a"])

    merged = write(
        tx, memory, B, update_threshold=0, duplicate_threshold=1.1, tags=["b"], source="agent"
    )
    again = [write(tx, memory, text) for text in (B, A.upper(), f"{A}\n{B}")]

    assert (merged.action, merged.id, merged.content) == ("updated", first.id, f"{A}\n{B}")
    assert (merged.tags, merged.source) == (("a", "b"), "manual")
    assert [one.action for one in again] == ["skipped"] * 3 and contents(tx, memory) == [
        f"{A}\n{B}"
    ]


def test_a_merge_that_would_be_too_long_creates_a_new_entry(tx: Store) -> None:
    memory = make_memory(tx)
    write(tx, memory, "a" * (MAX_ENTRY_CHARACTERS - 2))

    assert write(tx, memory, "bb", update_threshold=0, duplicate_threshold=2).action == "created"


@pytest.mark.parametrize(
    ("mode", "actions"),
    [
        ("create", ["created", "created"]),
        ("skip", ["skipped", "created"]),
        ("merge", ["skipped", "updated"]),
        ("supersede", ["skipped", "updated"]),
    ],
)
def test_the_mode_decides_what_happens_to_a_similar_entry(
    tx: Store, mode: str, actions: list[str]
) -> None:
    memory = make_memory(tx)
    write(tx, memory, A)

    found = [
        write(tx, memory, A, mode=mode).action,
        write(tx, memory, C, mode=mode, update_threshold=0, duplicate_threshold=1.5).action,
    ]

    assert found == actions
    if mode == "supersede":
        assert contents(tx, memory) == [C]


def test_a_page_of_memories_stays_within_the_result_size(tx: Store) -> None:
    made = [make_memory(tx, f"m{number}", description="漢" * 1000) for number in range(5)]

    pages, cursor = [], ""
    while cursor is not None:
        pages.append(perform(tx, "memories.list", cursor=cursor, result_bytes=7000))
        cursor = pages[-1].next_cursor

    assert [one.id for page in pages for one in page.items] == made and len(pages) == 3
    assert max(len(orjson.dumps(page)) for page in pages) < 7200


def test_memories_are_isolated_from_each_other(tx: Store) -> None:
    one, other = make_memory(tx), make_memory(tx)
    entry = write(tx, one, A)

    assert write(tx, other, A).action == "created"
    with pytest.raises(RecordNotFound, match="Memory entry not found"):
        perform(tx, "entries.get", id=entry.id, memory_id=other)
    with pytest.raises(RecordNotFound, match="Memory entry not found"):
        perform(tx, "entries.delete", id=entry.id, memory_id=other)
    perform(tx, "memories.delete", id=one)
    assert contents(tx, other) == [A]
    for name, keys in (
        ("memories.get", {"id": one}),
        ("entries.get", {"id": entry.id}),
        ("entries.list", {"memory_id": one}),
    ):
        with pytest.raises(RecordNotFound):
            perform(tx, name, **keys)


def test_the_next_write_sees_edits_and_deletions_of_every_origin(tx: Store) -> None:
    memory = make_memory(tx)
    entry = write(tx, memory, A)
    (guid,) = [
        record.guid for record in tx.records.select(Conditions({"scope": memory}), "asc", None, 0)
    ]

    perform(tx, "records.update", guid=guid, content=B)
    found = write(tx, memory, A).action, write(tx, memory, B).action
    perform(tx, "entries.update", id=entry.id, content=C)
    found += write(tx, memory, B).action, write(tx, memory, C).action
    perform(tx, "records.delete", guid=guid)

    assert found == ("created", "skipped", "created", "skipped")
    assert write(tx, memory, C).action == "created"


def test_any_record_with_the_kind_and_scope_of_an_entry_is_an_entry(tx: Store) -> None:
    memory = make_memory(tx)
    perform(tx, "records.create", content=A, kind="entry", scope=memory)

    assert write(tx, memory, A).action == "skipped" and contents(tx, memory) == [A]


def test_the_name_and_description_of_a_memory_can_be_changed_and_cleared(tx: Store) -> None:
    memory = perform(tx, "memories.create", name="a", description="b", tags=["c", "c"])
    changed = perform(
        tx,
        "memories.update",
        id=memory.id,
        name="d",
        clear=["description"],
        if_version=[memory.version],
    )

    assert (changed.name, changed.description, changed.tags) == ("d", None, ("c",))
    with pytest.raises(VersionConflict):
        perform(tx, "memories.update", id=memory.id, name="e", if_version=[memory.version])
    assert perform(tx, "memories.update", id=memory.id) == changed


TEXTS = st.text(st.sampled_from("ab*?%_\\[]"), max_size=6)


def matches_glob(pattern: str, text: str) -> bool:
    """Match a glob as the model document defines it: `*` any text, `?` one character."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(matches_glob(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and matches_glob(pattern[1:], text[1:])


@given(
    tags=st.lists(st.lists(TEXTS.filter(str.strip), max_size=3), max_size=4),
    globs=st.lists(TEXTS, min_size=1, max_size=3),
)
def test_tag_globs_match_as_documented(tags: list[list[str]], globs: list[str]) -> None:
    globs = [glob for glob in globs if glob] or ["*"]
    with fresh_store() as store, store.transaction() as tx:
        holder = make_memory(tx, "holder")
        for number, its_tags in enumerate(tags):
            make_memory(tx, f"m{number}", tags=its_tags)
            write(tx, holder, f"fact {number}", tags=its_tags, mode="create")
        wanted = [
            number
            for number, its_tags in enumerate(tags)
            if any(matches_glob(glob, tag) for tag in its_tags for glob in globs)
        ]

        listed = perform(tx, "memories.list", tags=globs)

        assert [one.name for one in listed.items] == [
            f"m{number}" for number in wanted
        ] and listed.total == len(wanted)
        assert contents(tx, holder, tags=globs) == [f"fact {number}" for number in wanted]


def test_every_change_gives_a_new_version_even_within_one_millisecond(
    tx: Store,
) -> None:
    memory = make_memory(tx, "a")
    entry = write(tx, memory, A).id

    names = [
        perform(tx, "memories.update", id=memory, name=name).version for name in ("b", "a", "b")
    ]
    texts = [perform(tx, "entries.update", id=entry, content=text).version for text in (B, A, B)]
    written = [
        write(tx, memory, text, mode="supersede", update_threshold=0).version for text in (A, B)
    ]

    assert len(set(names)) == 3 and len({*texts, *written}) == 5


def test_a_hostile_glob_is_matched_quickly(tx: Store) -> None:
    make_memory(tx, tags=["a" * 256])

    assert perform(tx, "memories.list", tags=["*a" * 127 + "b"] * 64).items == ()


def test_entries_of_thousands_of_lines_are_compared_quickly(tx: Store) -> None:
    memory = make_memory(tx)
    write(tx, memory, "\n".join(f"fact {number}" for number in range(2800)), mode="create")
    started = time.monotonic()

    for first in range(100, 105):
        write(
            tx,
            memory,
            "\n".join(f"fact {number}" for number in range(first, first + 2800)),
            mode="skip",
        )

    # takes a second or two; comparing all pairs of lines takes minutes
    assert time.monotonic() - started < 60


def test_a_fact_among_many_lines_is_found_by_its_words(tx: Store) -> None:
    memory = make_memory(tx)
    lines = [f"Customer {number} pays by invoice {number}" for number in range(100, 180)]
    whole = write(tx, memory, "\n".join([*lines[:60], B, *lines[60:]]))

    found = write(tx, memory, "In May the invoice is due", mode="skip", duplicate_threshold=0.8)

    assert (found.action, found.id) == ("skipped", whole.id)


def test_a_merge_extends_metadata_and_an_edit_replaces_it(tx: Store) -> None:
    memory, always = make_memory(tx), {"update_threshold": 0, "duplicate_threshold": 2}
    first = write(tx, memory, A, metadata={"a": 1, "b": {"c": 1}})

    kept = write(tx, memory, A, metadata={"z": 1})
    grown = write(tx, memory, B, metadata={"b": 2}, **always)
    edited = perform(tx, "entries.update", id=first.id, metadata={})

    assert (kept.action, kept.metadata, first.metadata) == (
        "skipped",
        first.metadata,
        {"a": 1, "b": {"c": 1}},
    )
    assert (grown.action, grown.metadata) == (
        "updated",
        {"a": 1, "b": 2},
    ) and grown.version != first.version
    assert (edited.metadata, edited.content) == (
        {},
        grown.content,
    ) and edited.version != grown.version


def test_a_merge_with_too_much_metadata_creates_a_new_entry(tx: Store) -> None:
    memory, always = make_memory(tx), {"update_threshold": 0, "duplicate_threshold": 2}
    first = write(tx, memory, A, metadata={"a": "x" * 40_000})

    second = write(tx, memory, B, metadata={"b": "x" * 40_000}, **always)

    assert (second.action, second.metadata.keys()) == ("created", {"b"})
    assert [first.content, second.content] == contents(tx, memory) == [A, B]


def test_an_entry_in_the_row_of_a_deleted_one_is_recognized_by_its_text(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        memory = make_memory(tx)
        write(tx, memory, A)
        perform(tx, "entries.delete", id=write(tx, memory, B).id)
    store.close()
    store = make_store(tmp_path)

    # the new entry gets the row of the deleted one
    with store.transaction() as tx:
        perform(tx, "records.create", content=C, kind="entry", scope=memory)
        results = [write(tx, memory, text).action for text in (B, C, A)]

    store.close()
    assert results == ["created", "skipped", "skipped"]


def test_an_expired_entry_is_created_again(tx: Store) -> None:
    memory, later_ms = make_memory(tx), NOW + 60_000
    write(tx, memory, A)
    (guid,) = [
        record.guid for record in tx.records.select(Conditions({"scope": memory}), "asc", None, 0)
    ]
    perform(tx, "records.update", guid=guid, expires_at="2023-11-14T22:13:21Z")

    results = [write(tx, memory, A, now_ms=later_ms).action for _ in range(2)]

    assert results == ["created", "skipped"]


def test_a_name_selects_the_oldest_memory_or_creates_one(tx: Store) -> None:
    first, second = make_memory(tx, "Ada"), make_memory(tx, "Ada")

    written = [
        perform(tx, "entries.create", memory=named, content=text)
        for named, text in (("Ada", A), (second, A), ("Bob", A), ("Bob", B))
    ]

    assert [one.memory_id for one in written[:2]] == [first, second]
    assert written[2].memory_id == written[3].memory_id
    (created,) = perform(tx, "memories.list", order="desc", limit=1).items
    assert (created.id, created.name) == (written[2].memory_id, "Bob")


@pytest.mark.parametrize("named", [{}, {"memory_id": "mem_x", "memory": "Ada"}])
def test_a_write_names_exactly_one_memory(tx: Store, named: dict[str, str]) -> None:
    with pytest.raises(Refused, match="set either `memory_id`, or `memory`"):
        perform(tx, "entries.create", content=A, **named)

    assert perform(tx, "memories.list").total == 0


def test_an_id_of_a_deleted_memory_creates_none(tx: Store) -> None:
    memory = make_memory(tx)
    perform(tx, "memories.delete", id=memory)

    with pytest.raises(RecordNotFound, match="no memory has the id"):
        perform(tx, "entries.create", memory=memory, content=A)

    assert perform(tx, "memories.list").total == 0


def test_the_history_keeps_the_reason_of_a_deleted_entry(tx: Store) -> None:
    entry = write(tx, make_memory(tx), A)
    guid = guid_of("me", tx.memory_id, entry.id)

    perform(tx, "entries.delete", id=entry.id, reason="Ada asked for it")

    states = perform(tx, "records.history", guid=guid).items
    assert (states[1].change, states[1].reason) == ("delete", "Ada asked for it")
