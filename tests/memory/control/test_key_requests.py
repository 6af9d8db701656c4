"""Requests for keys: their faults, the pipelines that they name, and the limits of a creator."""

import asyncio
from itertools import product

import pytest

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.key_requests import (
    Creator,
    ExceedsCreator,
    KeyRequest,
    create_key,
    list_notes,
)
from memrelay.memory.control.keys import ALL, SCOPES, CreatedKey, KeysExist
from memrelay.memory.errors import InvalidInput
from tests.memory.control.catalogs import ControlPlane

NOW = 1_000_000
UNLIMITED = Creator(frozenset(SCOPES), frozenset({ALL}), None, has_key=True)


def create(
    control_plane: ControlPlane, request: KeyRequest, creator: Creator | None = None
) -> tuple[CreatedKey, list[str]]:
    """Create a key next to the pipelines tea, and two with the name twin."""

    async def run() -> tuple[CreatedKey, list[str]]:
        async with Catalog(*control_plane) as catalog:
            for uid, name in (("t1", "tea"), ("w1", "twin"), ("w2", "twin")):
                await catalog.deploy(uid, name, f"hash {uid}", b"{}", 1)
            created = await create_key(catalog, request, NOW, creator)
            return created, list_notes(created, await catalog.active())

    return asyncio.run(run())


def request(**fields: object) -> KeyRequest:
    return KeyRequest(**({"name": "ann", "scopes": ["read"], "pipelines": [ALL]} | fields))  # type: ignore[arg-type]


def test_pipelines_are_stored_by_uid(control_plane: ControlPlane) -> None:
    created, _ = create(control_plane, request(name=" ann ", pipelines=["tea", "w1", "t1"]))

    assert (created.key.name, created.key.pipelines) == ("ann", {"t1", "w1"})


def test_all_faults_of_a_request_are_reported_with_their_fields(
    control_plane: ControlPlane,
) -> None:
    bad = request(name=" ", scopes=["read", "raed"], pipelines=["nope", "twin"], expires="5y")

    with pytest.raises(InvalidInput) as caught:
        create(control_plane, bad)

    rules = {one.path: one.message for one in caught.value.faults}
    assert rules.keys() == {"/name", "/scopes/1", "/pipelines/0", "/pipelines/1", "/expires"}
    assert "no pipeline 'nope' is deployed; choose from tea (t1)" in rules["/pipelines/0"]
    assert "--allow-undeployed" in rules["/pipelines/0"]
    assert rules["/pipelines/1"].endswith("choose a uid: w1, w2")
    assert "not '5y'" in rules["/expires"]


def test_an_empty_lifetime_makes_no_key_that_lasts_forever(control_plane: ControlPlane) -> None:
    with pytest.raises(InvalidInput, match="such as 90d, or never; not ''"):
        create(control_plane, request(expires=""))


def test_a_pipeline_may_come_later_if_the_request_allows_it(control_plane: ControlPlane) -> None:
    later = request(pipelines=["t1", "later"], allow_undeployed=True)

    created, notes = create(control_plane, later)

    assert created.key.pipelines == {"t1", "later"}
    assert [note for note in notes if "not deployed yet: later;" in note]
    with pytest.raises(InvalidInput, match="'no such' is deployed, and it is not a uid"):
        create(control_plane, request(pipelines=["no such"], allow_undeployed=True))


def test_only_the_first_key_states_that_http_requires_a_key(control_plane: ControlPlane) -> None:
    notes = [create(control_plane, request())[1] for _ in range(2)]

    assert [any("HTTP now requires a key" in one for one in each) for each in notes] == [
        True,
        False,
    ]


@pytest.mark.parametrize(("owned", "wanted"), list(product(SCOPES, SCOPES)))
def test_a_new_key_has_only_scopes_of_its_creator(
    control_plane: ControlPlane, owned: str, wanted: str
) -> None:
    creator = UNLIMITED._replace(scopes=frozenset({owned, "admin"}))

    if wanted in (owned, "admin"):
        created, _ = create(control_plane, request(scopes=[wanted]), creator)
        assert created.key.scopes == {wanted}
        return
    with pytest.raises(ExceedsCreator, match=f"you lack {wanted}; choose from") as caught:
        create(control_plane, request(scopes=[owned, wanted]), creator)
    assert caught.value.pointer == "/scopes"


@pytest.mark.parametrize(
    ("owned", "wanted", "is_allowed"),
    [
        ((ALL,), (ALL,), True),
        ((ALL,), ("t1",), True),
        (("t1", "w1"), ("t1",), True),
        (("t1", "w1"), ("w1", "t1"), True),
        (("t1",), ("t1", "w1"), False),
        (("t1",), ("w1",), False),
        (("t1",), (ALL,), False),
        (("t1", "w1", "w2"), (ALL,), False),
        (("t1",), ("t1", ALL), False),
    ],
)
def test_a_new_key_has_only_pipelines_of_its_creator(
    control_plane: ControlPlane, owned: tuple[str, ...], wanted: tuple[str, ...], is_allowed: bool
) -> None:
    creator = UNLIMITED._replace(pipelines=frozenset(owned))

    if is_allowed:
        assert create(control_plane, request(pipelines=wanted), creator)[0].key.pipelines == set(
            wanted
        )
        return
    with pytest.raises(ExceedsCreator, match="at most your pipelines; choose from") as caught:
        create(control_plane, request(pipelines=wanted), creator)
    assert caught.value.pointer == "/pipelines"


def test_a_new_key_expires_no_later_than_its_creator(control_plane: ControlPlane) -> None:
    creator = UNLIMITED._replace(expires_at=NOW + 3_600_000)

    inherited, short = (
        create(control_plane, request(expires=expires), creator)[0].key.expires_at
        for expires in (None, "30m")
    )

    assert (inherited, short) == (creator.expires_at, NOW + 1_800_000)
    for expires in ("never", "2h"):
        with pytest.raises(ExceedsCreator, match="expires no later than yours"):
            create(control_plane, request(expires=expires), creator)


def test_a_creator_without_a_key_makes_only_the_first_key(control_plane: ControlPlane) -> None:
    creator = UNLIMITED._replace(has_key=False)

    assert create(control_plane, request(), creator)[0].is_first
    with pytest.raises(KeysExist, match="another program created the first key"):
        create(control_plane, request(), creator)
