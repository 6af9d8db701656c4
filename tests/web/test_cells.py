"""Deploys to a cluster with several cells."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.bus import keys
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check
from memrelay.pipelines.checked import BundleRefused
from memrelay.pipelines.secret_references import NO_SECRETS
from memrelay.web.api.deployments import Deployments
from tests.support.bundles import Json, make_bundle, make_relay


@pytest.fixture(autouse=True)
def four_cells() -> Iterator[None]:
    keys.use_cells(4)
    yield
    keys.use_cells(0)


def deploy(root: Path, bundle: Json) -> None:
    async def run() -> None:
        async with Catalog(root) as catalog:
            checked = check(json.dumps(bundle).encode()).accepted()
            await Deployments(catalog, None, NO_SECRETS).deploy(checked)

    root.mkdir(exist_ok=True)
    asyncio.run(run())


def uid_in(cell: str) -> str:
    return next(f"p{number}" for number in range(99) if keys.find_cell(f"p{number}") == cell)


def with_store(uid: str, store: str) -> Json:
    bundle = make_bundle(uid)
    changed: Json = json.loads(
        json.dumps(bundle).replace("instances/${pipeline_uid}/memories", store)
    )
    return changed


def test_a_pipeline_shares_stores_only_within_its_cell(tmp_path: Path) -> None:
    here, near, far = "p0", keys.find_cell("p0"), keys.find_cell("p1")
    assert near != far

    deploy(tmp_path / "a", make_bundle(here))
    deploy(tmp_path / "a", with_store(here, f"instances/{uid_in(near)}/memories"))

    with pytest.raises(BundleRefused, match="belongs to another cell"):
        deploy(tmp_path / "a", with_store(here, f"instances/{uid_in(far)}/memories"))


def test_public_swarms_need_one_cell(tmp_path: Path) -> None:
    relay = make_relay("tell", r"^/tell\s+(.*)", to="news")
    bundle = make_bundle("p0", relay) | {"swarms": [{"name": "news", "visibility": "public"}]}

    with pytest.raises(BundleRefused, match=r"set bus\.cells to 1"):
        deploy(tmp_path / "a", bundle)
    keys.use_cells(1)
    deploy(tmp_path / "a", bundle)
