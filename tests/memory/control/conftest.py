"""The tests of the control plane run on both databases."""

from pathlib import Path

import pytest

from tests.memory.control.catalogs import ControlPlane
from tests.support.postgres import Postgres


@pytest.fixture(params=["sqlite", "postgres"])
def control_plane(request: pytest.FixtureRequest, tmp_path: Path) -> ControlPlane:
    """Return a memory root and the `storage.url` of its control plane."""
    if request.param == "sqlite":
        return ControlPlane(tmp_path)
    server: Postgres = request.getfixturevalue("postgres")
    return ControlPlane(tmp_path, server.create_database())
