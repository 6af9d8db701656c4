"""Which agent has which access to which store: the access matrix, on the operations."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Denied
from tests.memory.builders import NOW
from tests.memory.models.shared_stores.access_cases import call, enter, level_of, open_stores, share

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def stores() -> Iterator[Store]:
    """One store. Each case has agents and stores of its own."""
    with open_stores() as store:
        yield store


def nothing(store: Store, agent: str, of: str) -> None:
    """Give no access."""


def granted(level: str, **given: Any) -> Callable[[Store, str, str], None]:
    return lambda store, agent, of: share(store, of, of, agent, level, **given)


def revoked(store: Store, agent: str, of: str) -> None:
    share(store, of, of, agent, "readwrite")
    call(store, "grants.remove", agent=of, store=of, grantee=agent)


def entered(sort: str, **given: Any) -> Callable[[Store, str, str], None]:
    return lambda store, agent, of: enter(store, sort, of, agent, **given)


def left(store: Store, agent: str, of: str) -> None:
    enter(store, "chat", of, agent)
    call(store, "contexts.close", sort="chat", id=of, agent=agent)


def both(*steps: Callable[[Store, str, str], None]) -> Callable[[Store, str, str], None]:
    def run(store: Store, agent: str, of: str) -> None:
        for step in steps:
            step(store, agent, of)

    return run


def switched(**given: Any) -> Callable[[Store, str, str], None]:
    return lambda store, agent, of: call(store, "stores.configure", agent=agent, **given)


VOUCHED = ("chat", "user")
SESSION = {"chat": "OF", "vouched": VOUCHED}
USER_SESSION = {"user": "OF", "vouched": VOUCHED}
# By name: how the agent gets access, the rest of its identity, its level, and where it comes from.
# OF stands for the id of the store.
CASES: dict[str, tuple[Callable[[Store, str, str], None], dict[str, Any], str | None, str]] = {
    "none": (nothing, {}, None, ""),
    "search": (granted("search"), {}, "search", "grant"),
    "read": (granted("read"), {}, "read", "grant"),
    "readwrite": (granted("readwrite"), {}, "readwrite", "grant"),
    "unexpired": (granted("read", ttl_s=61), {}, "read", "grant"),
    "expired": (granted("readwrite", ttl_s=60), {}, None, ""),
    "revoked": (revoked, {}, None, ""),
    "participant": (entered("chat"), {}, "readwrite", "chat"),
    "participant until later": (entered("chat", ttl_s=61), {}, "readwrite", "chat"),
    "participant until now": (entered("chat", ttl_s=60), {}, None, ""),
    "left chat": (left, {}, None, ""),
    "chat": (nothing, SESSION, "readwrite", "chat"),
    "chat by name only": (nothing, {"chat": "OF"}, None, ""),
    "chat, but vouched for the user": (nothing, SESSION | {"vouched": ("user",)}, None, ""),
    "agent of a user": (entered("user"), {}, "readwrite", "user"),
    "user": (nothing, USER_SESSION, "readwrite", "user"),
    "user by name only": (nothing, {"user": "OF"}, None, ""),
    "grant before chat": (granted("search"), SESSION, "search", "grant"),
    "grant before user": (granted("read"), USER_SESSION, "read", "grant"),
    "chat before user": (nothing, SESSION | USER_SESSION, "readwrite", "chat"),
    "chat after an expired grant": (granted("search", ttl_s=60), SESSION, "readwrite", "chat"),
    "all off": (both(granted("read"), switched(enabled=False)), SESSION, None, ""),
    "chat off": (switched(chat=False), SESSION, None, ""),
    "participants off": (both(entered("chat"), switched(chat=False)), {}, None, ""),
    "user off": (switched(user=False), USER_SESSION, None, ""),
    "other classes off": (switched(own=False, user=False), SESSION, "readwrite", "chat"),
    "grant with classes off": (
        both(granted("read"), switched(own=False, chat=False, user=False)),
        {},
        "read",
        "grant",
    ),
    "on again": (
        both(switched(enabled=False), switched(enabled=True)),
        SESSION,
        "readwrite",
        "chat",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_matching_rule_decides_the_access(stores: Store, name: str) -> None:
    prepare, session, expected, source = CASES[name]
    agent, of = f"agent of {name}", f"store of {name}"
    prepare(stores, agent, of)
    given = {key: of if value == "OF" else value for key, value in session.items()}

    assert level_of(stores, agent, of, NOW + MINUTE_MS, **given) == expected
    listed = call(stores, "stores.list", NOW + MINUTE_MS, agent=agent, **given).stores
    found = [(one.level, one.source) for one in listed if one.store == of]
    assert found == ([(expected, source)] if expected else [])


def test_an_agent_has_its_own_store_unless_it_is_switched_off(stores: Store) -> None:
    assert level_of(stores, "alone", "alone") == "readwrite"
    assert call(stores, "stores.list", agent="alone").stores[0].source == "self"
    call(stores, "stores.configure", agent="alone", own=False)
    assert level_of(stores, "alone", "alone") is None
    assert call(stores, "stores.list", agent="alone").stores == ()
    with pytest.raises(Denied):
        call(stores, "grants.list", agent="alone")


def test_settings_that_are_left_out_keep_their_values(stores: Store) -> None:
    call(stores, "stores.configure", agent="kept", chat=False)
    settings = call(stores, "stores.configure", agent="kept", user=False)
    assert (settings.enabled, settings.own, settings.chat, settings.user) == (
        True,
        True,
        False,
        False,
    )


@pytest.mark.parametrize(("level", "may_share"), [("search", 0), ("read", 0), ("readwrite", 1)])
def test_sharing_and_listing_grants_need_readwrite(
    stores: Store, level: str, may_share: bool
) -> None:
    owner, agent = f"{level} owner", f"{level} agent"
    share(stores, owner, owner, agent, level)
    steps = (
        lambda: share(stores, agent, owner, f"{level} other", "read"),
        lambda: call(stores, "grants.list", agent=agent, store=owner),
        lambda: call(stores, "grants.remove", agent=agent, store=owner, grantee=f"{level} other"),
    )
    for step in steps:
        if may_share:
            step()
        else:
            with pytest.raises(Denied):
                step()


def test_a_denial_is_the_same_for_a_store_that_does_not_exist(stores: Store) -> None:
    share(stores, "real", "real", "friend", "readwrite")
    texts = []
    for of in ("real", "unreal"):
        with pytest.raises(Denied) as caught:
            call(stores, "grants.list", agent="stranger", store=of)
        texts.append(str(caught.value).replace(of, "STORE"))
    assert texts[0] == texts[1]


def test_stores_are_listed_in_pages_with_the_own_one_first(stores: Store) -> None:
    for number in range(6):
        share(stores, f"g{number}", f"g{number}", "paged", "read")
        enter(stores, "chat", f"g{number}c", "paged")
    share(stores, "g1c", "g1c", "paged", "search")
    session = {"agent": "paged", "user": "g3u", "chat": "g2c", "vouched": VOUCHED}
    whole = call(stores, "stores.list", **session).stores
    for limit in (1, 2, 5, 14):
        found, cursor = [], ""
        while cursor is not None:
            taken = call(stores, "stores.list", limit=limit, cursor=cursor, **session)
            assert len(taken.stores) <= limit
            found += taken.stores
            cursor = taken.next_cursor
        assert tuple(found) == whole
    others = sorted({f"g{number}{end}" for number in range(6) for end in ("", "c")} - {"g2c"})
    assert [one.store for one in whole] == ["paged", "g2c", "g3u", *others]
    assert {one.store: one.level for one in whole}["g1c"] == "search"
