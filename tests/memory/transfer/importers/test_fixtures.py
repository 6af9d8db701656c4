"""The fixtures are what the code of the other systems writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.foreign import FIXTURES

MAKERS = Path(__file__).parent / "makers"
POSTGRESQL = Path("/usr/lib/postgresql/15/bin")
INSTALL_S, RUN_S = 500, 200
PACKAGES = {
    "mem0": ("mem0ai==2.2.1",),
    "redis_ams": ("agent-memory-client==0.14.0",),
    "zep": ("zep-python==2.0.2",),
    "letta": ("letta==0.16.8", "asyncpg", "aiosqlite", "sqlite-vec"),
}


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_S + RUN_S + 60)
@pytest.mark.parametrize("maker", PACKAGES)
def test_a_maker_writes_the_fixtures_again(maker: str, tmp_path: Path) -> None:
    given = []
    if maker == "zep":
        if not POSTGRESQL.is_dir():
            pytest.skip("PostgreSQL 15 is not installed")
        given = [str(POSTGRESQL)]
    python = install(tmp_path / "venv", *PACKAGES[maker])
    made = tmp_path / "made"
    made.mkdir()

    # Without the checkout on the path: the makers have the names of the packages.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-P", str(MAKERS / f"{maker}.py"), str(made), *given]
    environment = clean | {"HOME": str(tmp_path)}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_S
    )

    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in made.iterdir())
    assert names == sorted(path.name for path in FIXTURES.glob(f"{maker}*"))
    for name in names:
        assert (made / name).read_text() == (FIXTURES / name).read_text(), name


def install(folder: Path, *packages: str) -> str:
    """Create an environment with packages and return its Python. Skip the test if that fails."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=INSTALL_S)
    pip = [str(folder / "bin" / "pip"), "install", "-q"]
    # The pip of older Pythons cannot resolve the packages of Letta.
    for command in ([*pip, "-U", "pip"], [*pip, *packages]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            pytest.skip("the packages cannot be installed in time")
        if done.returncode:
            pytest.skip(f"the packages cannot be installed: {done.stderr[-200:]}")
    return str(folder / "bin" / "python")
