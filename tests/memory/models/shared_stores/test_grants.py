"""Who may give, change and remove grants, and when they end."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import Denied, Refused
from memrelay.memory.models.shared_stores.table import GrantTable
from tests.memory.builders import NOW, perform
from tests.memory.models.shared_stores.access_cases import call, enter, level_of, open_stores, share

LATER = format_time(NOW + 10_000)
CHAT = {"chat": "c", "vouched": ["chat"]}
USER = {"user": "u", "vouched": ["user"]}
CONTEXT = {"sort": "chat", "id": "c"}


@pytest.fixture
def stores() -> Iterator[Store]:
    with open_stores() as store:
        yield store


def grants(store: Store, agent: str, of: str = "", **given: object) -> dict[str, str]:
    """Return {grantee: level} of a store."""
    found = call(store, "grants.list", agent=agent, store=of, **given).grants
    return {grant.grantee: grant.level for grant in found}


@pytest.mark.parametrize("given", [{}, {"level": None}])
def test_a_grant_without_a_level_is_for_reading(stores: Store, given: dict[str, None]) -> None:
    made = call(stores, "grants.set", agent="a1", store="a1", grantee="a2", **given)
    assert (made.level, made.granted_by, made.expires_at) == ("read", "a1", None)


def test_an_unknown_level_is_refused(stores: Store) -> None:
    with pytest.raises(ValueError, match="level"):
        share(stores, "a1", "a1", "a2", "admin")


def test_an_agent_always_has_its_own_store(stores: Store) -> None:
    share(stores, "a1", "a1", "a2", "readwrite")
    for granter in ("a1", "a2"):
        with pytest.raises(Refused, match="its own store"):
            share(stores, granter, "a1", "a1", "search")


def test_only_its_giver_and_the_stores_own_agent_change_a_grant(stores: Store) -> None:
    for agent in ("a2", "a3"):
        share(stores, "a1", "a1", agent, "readwrite")
    share(stores, "a2", "a1", "a4", "read")

    with pytest.raises(Denied, match="another agent gave"):
        share(stores, "a3", "a1", "a4", "readwrite")
    with pytest.raises(Denied, match="another agent gave"):
        call(stores, "grants.remove", agent="a3", store="a1", grantee="a4")
    share(stores, "a2", "a1", "a4", "search")
    assert grants(stores, "a3", "a1")["a4"] == "search"
    share(stores, "a1", "a1", "a4", "read")
    with pytest.raises(Denied):
        call(stores, "grants.remove", agent="a2", store="a1", grantee="a4")
    assert call(stores, "grants.remove", agent="a1", store="a1", grantee="a4").removed
    assert not call(stores, "grants.remove", agent="a1", store="a1", grantee="a4").removed


def test_an_agent_cannot_raise_its_own_grant(stores: Store) -> None:
    share(stores, "a1", "a1", "a2", "readwrite", ttl_s=10)
    with pytest.raises(Denied):
        share(stores, "a2", "a1", "a2", "readwrite", ttl_s=0)


@pytest.mark.parametrize(("of", "session"), [("c", CHAT), ("u", USER)])
def test_a_session_cannot_become_a_grant_to_oneself(
    stores: Store, of: str, session: dict[str, object]
) -> None:
    with pytest.raises(Denied, match="cannot become a grant"):
        share(stores, "a1", of, "a1", "readwrite", **session)
    share(stores, "a1", of, "a2", "readwrite", **session)
    share(stores, "a2", of, "a3", "readwrite")
    for granter in ("a2", "a3"):
        with pytest.raises(Denied, match="on which it depends"):
            share(stores, granter, of, "a1", "read")
    assert level_of(stores, "a1", of) is None


@pytest.mark.parametrize(("of", "session"), [("c", CHAT), ("u", USER)])
@pytest.mark.parametrize("level", ["search", "read"])
def test_a_grant_outranks_a_session_until_its_grantee_removes_it(
    stores: Store, of: str, session: dict[str, Any], level: str
) -> None:
    share(stores, "a1", of, "a2", level, **session)

    assert level_of(stores, "a2", of, **session) == level
    with pytest.raises(Denied):
        share(stores, "a2", of, "a3", "read", **session)
    listed = call(stores, "stores.list", agent="a2", **session).stores
    assert {one.store: (one.level, one.source) for one in listed}[of] == (level, "grant")
    with pytest.raises(Denied):
        call(stores, "grants.remove", agent="a3", store=of, grantee="a2")
    assert call(stores, "grants.remove", agent="a2", store=of, grantee="a2", **session).removed
    assert level_of(stores, "a2", of, **session) == "readwrite"


def test_no_vouched_agent_ends_the_grants_that_another_gave(stores: Store) -> None:
    share(stores, "a2", "c", "a3", "readwrite", **CHAT)
    for level in ("search", "read"):
        share(stores, "a1", "c", "a2", level, **CHAT)
    call(stores, "grants.remove", agent="a1", store="c", grantee="a2", **CHAT)
    assert level_of(stores, "a3", "c") == "readwrite"

    share(stores, "c", "c", "a2", "read")
    assert level_of(stores, "a3", "c") is None


def test_a_grant_lowers_a_participant_and_says_so(stores: Store) -> None:
    enter(stores, "chat", "c", "a1")
    enter(stores, "chat", "c", "a2")
    share(stores, "a2", "c", "a3", "readwrite")
    changes = (("readwrite", False), ("read", True), ("read", False), ("search", True))
    for level, lowers in changes:
        assert share(stores, "a1", "c", "a2", level).lowers == lowers
        assert level_of(stores, "a2", "c") == level
    assert level_of(stores, "a3", "c") is None
    assert not share(stores, "a1", "c", "a4", "search").lowers
    call(stores, "grants.remove", agent="a2", store="c", grantee="a2")
    assert level_of(stores, "a2", "c") == "readwrite"


def test_an_agent_gives_up_a_grant_of_any_level(stores: Store) -> None:
    share(stores, "a1", "a1", "a2", "search")
    assert call(stores, "grants.remove", agent="a2", store="a1", grantee="a2").removed
    with pytest.raises(Denied):
        call(stores, "grants.remove", agent="a2", store="a1", grantee="a2")


def test_a_grant_of_a_participant_counts_if_chats_are_off(stores: Store) -> None:
    enter(stores, "chat", "c", "a1")
    share(stores, "a1", "c", "a2", "read")
    call(stores, "stores.configure", agent="a2", chat=False)

    assert level_of(stores, "a2", "c", **CHAT) == "read"


def test_a_grant_from_a_vouched_right_ends_with_the_context(stores: Store) -> None:
    day = format_time(NOW + 86_400_000)
    assert share(stores, "a1", "c", "a3", "readwrite", **CHAT).expires_at == day
    enter(stores, "chat", "c", "a8", ttl_s=10)
    enter(stores, "chat", "c", "a9", ttl_s=5)
    assert share(stores, "a1", "c", "a2", "readwrite", **CHAT).expires_at == LATER
    assert share(stores, "a1", "c", "a4", "read", ttl_s=1, **CHAT).expires_at == (
        format_time(NOW + 1000)
    )
    assert share(stores, "a2", "c", "a5", "read", ttl_s=0).expires_at == LATER
    assert share(stores, "a1", "u", "a2", "read", **USER).expires_at == day


def test_a_grant_ends_no_later_than_the_right_of_its_giver(stores: Store) -> None:
    share(stores, "a1", "a1", "a2", "readwrite", ttl_s=10)
    assert share(stores, "a2", "a1", "a3", "readwrite").expires_at == LATER
    assert share(stores, "a3", "a1", "a4", "read", ttl_s=60).expires_at == LATER
    assert share(stores, "a3", "a1", "a5", "read", ttl_s=1).expires_at == format_time(NOW + 1000)
    enter(stores, "chat", "c", "a1", ttl_s=10)
    assert share(stores, "a1", "c", "a2", "read", ttl_s=0).expires_at == LATER
    assert share(stores, "a1", "c", "a3", "read", **CHAT).expires_at == LATER


def test_grants_end_when_the_right_of_their_giver_ends(stores: Store) -> None:
    share(stores, "a1", "a1", "a2", "readwrite")
    share(stores, "a2", "a1", "a3", "readwrite")
    share(stores, "a3", "a1", "a4", "read")

    share(stores, "a1", "a1", "a2", "readwrite", ttl_s=10)
    found = call(stores, "grants.list", agent="a1").grants
    assert {one.grantee: one.expires_at for one in found} == dict.fromkeys(
        ("a2", "a3", "a4"), LATER
    )
    share(stores, "a1", "a1", "a2", "read")
    assert grants(stores, "a1") == {"a2": "read"}


def test_grants_end_when_their_giver_leaves_the_chat(stores: Store) -> None:
    enter(stores, "chat", "c", "a1")
    share(stores, "a1", "c", "a2", "readwrite")
    share(stores, "a2", "c", "a3", "read")

    assert not call(stores, "contexts.close", sort="user", id="c", agent="a1").closed
    assert level_of(stores, "a3", "c") == "read"
    assert call(stores, "contexts.close", sort="chat", id="c", agent="a1").closed
    assert [level_of(stores, agent, "c") for agent in ("a1", "a2", "a3")] == [None] * 3


def test_a_grant_keeps_its_end_unless_another_is_given(stores: Store) -> None:
    share(stores, "a1", "a1", "a2", "read", ttl_s=10)
    assert share(stores, "a1", "a1", "a2", "search").expires_at == LATER
    assert share(stores, "a1", "a1", "a2", "search", ttl_s=0).expires_at is None
    share(stores, "a1", "a1", "a3", "read", ttl_s=10)
    again = call(
        stores, "grants.set", NOW + 10_000, agent="a1", store="a1", grantee="a3", level="read"
    )
    assert again.expires_at is None


def test_expired_grants_are_not_listed_and_go_with_the_next_one(stores: Store) -> None:
    share(stores, "a1", "a1", "b", "read", ttl_s=10)
    share(stores, "a2", "a2", "b", "read")
    listed = call(stores, "grants.list", NOW + 10_000, agent="a1").grants
    assert listed == ()
    call(stores, "grants.set", NOW + 10_000, agent="a3", store="a3", grantee="b")
    assert stores.table(GrantTable).find("a1", "b") is None
    assert stores.table(GrantTable).find("a2", "b")


def test_grants_are_listed_in_pages(stores: Store) -> None:
    for number in range(5):
        share(stores, "a1", "a1", f"b{number}", "read")
    found, cursor = [], ""
    while cursor is not None:
        page = call(stores, "grants.list", agent="a1", limit=2, cursor=cursor)
        found += [grant.grantee for grant in page.grants]
        cursor = page.next_cursor
    assert found == ["b0", "b1", "b2", "b3", "b4"]


def test_contexts_are_listed_in_pages_by_chat_and_agent(stores: Store) -> None:
    for ident, agent in (("c1", "a1"), ("c1", "a2"), ("c2", "a1")):
        enter(stores, "chat", ident, agent)
    enter(stores, "user", "u", "a1", ttl_s=10)
    assert enter(stores, "user", "u", "a1").expires_at == LATER

    def names(**given: object) -> list[str]:
        return [f"{one.id} {one.agent}" for one in call(stores, "contexts.list", **given).contexts]

    assert names() == ["c1 a1", "c1 a2", "c2 a1", "u a1"]
    assert names(sort="user") == ["u a1"] and names(id="c1", agent="a2") == ["c1 a2"]
    page = call(stores, "contexts.list", limit=2)
    assert names(cursor=page.next_cursor) == ["c2 a1", "u a1"]
    later = call(stores, "contexts.list", NOW + 10_000, sort="user").contexts
    assert later == ()
    for cursor in ("x", "5", "[1,2]"):
        with pytest.raises(Refused, match="cursor"):
            names(cursor=cursor)


def test_a_long_chain_of_grants_ends_with_its_first_grant(stores: Store) -> None:
    agents = ["a0", *[f"a{number}" for number in range(1, 1201)]]
    with stores.transaction() as tx:
        for granter, grantee in pairwise(agents):
            perform(tx, "grants.set", agent=granter, store="a0", grantee=grantee, level="readwrite")

    call(stores, "grants.remove", agent="a0", store="a0", grantee="a1")

    assert level_of(stores, "a1200", "a0") is None


@pytest.mark.parametrize("name", ["grants.set", "contexts.open"])
def test_an_end_beyond_all_dates_is_refused(stores: Store, name: str) -> None:
    named = {"grants.set": {"store": "a1", "grantee": "a2"}, "contexts.open": CONTEXT}[name]
    with pytest.raises(ValueError, match="ttl_s"):
        call(stores, name, agent="a1", ttl_s=1e308, **named)


def test_a_change_of_a_grant_reads_no_grants_of_other_givers(stores: Store) -> None:
    statements: list[tuple[str, object]] = []
    connection = stores._connection
    connection.exec_trace = lambda _, sql, values: statements.append((sql, values)) or True
    share(stores, "a1", "a1", "a2", "read")
    connection.exec_trace = None

    plans = [
        str(plan[3])
        for sql, values in statements
        if sql.startswith("SELECT * FROM grants")
        for plan in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)
    ]

    assert plans and all(plan.count("=?") == 2 for plan in plans), plans
