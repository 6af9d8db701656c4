"""A model can be removed: its folder, its line in MODELS, the models that import it, and its faces.
The rest imports, starts, serves /write and passes the tests of the engine.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.engine.models import MODELS, models
from tests.acceptance.test_installed import User
from tests.architecture.models import BETWEEN
from tests.support.sessions import CHECKOUT

PREFIX = "memrelay.memory.models."
NAMES = [name.removeprefix(PREFIX) for name in MODELS if name.startswith(PREFIX)]
IMPORT_ALL = """
import importlib, pkgutil, memrelay
for module in pkgutil.walk_packages(memrelay.__path__, "memrelay."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
ENGINE_TESTS = "tests/memory/engine"
# The tests about the tables of all models together.
OF_ALL_MODELS = ("test_every_table.py",)


def remove(tree: Path, name: str) -> list[str]:
    """Remove a model from a copy of the tree. Return the names that no other file may use: of
    modules, and the beginnings of operations.
    """
    importers = [other for other, imported in BETWEEN.items() if name in imported]
    gone = []
    for model in (name, *importers):
        faces = models()[PREFIX + model].faces
        gone += [PREFIX + model, *(f"memrelay.{face}" for face in faces)]
    nouns = {f'"{noun}.' for model in (name, *importers) for noun in models()[PREFIX + model].nouns}
    for module in gone:
        path = tree / module.replace(".", "/")
        for migration in path.glob("migrations/*.sql"):
            # Files of stores have its tables, and migrations are numbered without a gap.
            shutil.move(migration, tree / "memrelay/memory/engine/migrations")
        shutil.rmtree(path, ignore_errors=True)
        path.with_suffix(".py").unlink(missing_ok=True)
    manifests = tree / "memrelay/memory/engine/models.py"
    lines = [f'    "{PREFIX}{model}",\n' for model in (name, *importers)]
    text = manifests.read_text()
    for line in lines:
        assert line in text
        text = text.replace(line, "")
    manifests.write_text(text)
    # LangGraph's items have operations on records, the noun of every store.
    return [*gone, *(nouns - {'"records.'})]


def select_tests(tree: Path, gone: list[str]) -> Iterator[str]:
    """Yield the tests of the engine that use nothing that was removed."""
    names = re.compile("|".join(rf"{re.escape(name)}\b" for name in gone))
    for file in sorted((tree / ENGINE_TESTS).glob("test_*.py")):
        if file.name not in OF_ALL_MODELS and not names.search(file.read_text()):
            yield file.relative_to(tree).as_posix()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the package and of the tests."""
    without_bytecode = shutil.ignore_patterns("__pycache__")
    for folder in ("memrelay", "tests", "docs", "benchmarks"):
        shutil.copytree(CHECKOUT / folder, tmp_path / "tree" / folder, ignore=without_bytecode)
    for file in ("pyproject.toml", "config.yaml"):
        shutil.copy(CHECKOUT / file, tmp_path / "tree")
    return tmp_path / "tree"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_the_rest_works_without_a_model(tree: Path, tmp_path: Path, name: str) -> None:
    gone = remove(tree, name)
    folders = [path for path in sys.path if path.endswith("site-packages")]
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("MEMRELAY_")
    } | {"PYTHONPATH": os.pathsep.join([str(tree), *folders]), "MEMRELAY_WEB__PORT": "0"}
    (tmp_path / "user").mkdir()

    with User(tmp_path / "user", environment) as user:
        assert user.python(IMPORT_ALL) == ""
        assert "Press Ctrl-C to stop" in user.up()
        assert '"guid"' in user.memrelay("say", "memory_test", "/write The meeting is at 3pm")
        assert "3pm" in user.memrelay("say", "memory_test", "/search meeting")
    files = list(select_tests(tree, gone))
    assert files
    done = subprocess.run(
        [sys.executable, "-S", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *files],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-4000:]
