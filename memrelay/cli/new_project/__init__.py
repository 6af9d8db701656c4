"""New projects from templates: the folders that `memrelay new` makes."""

import keyword
import os
import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from string import Template

from memrelay.blocks.sources import all_outside_sources, built_in_source
from memrelay.installation import IS_CHECKOUT

TEMPLATES = Path(__file__).resolve().parent / "templates"
SHARED = "shared"
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
# `block` is the decorator, and pytest takes functions that begin with `test` for tests.
TAKEN = re.compile(r"block|tests?(_.*)?")
# Files by the name of their template, which ends with .txt so that no tool reads it as code.
FILES = {
    "README.md": "README.md",
    "block.py": "blocks/{name}.py",
    "bundle.json": "bundle.json",
    "config.yaml": "config.yaml",
    "gitignore": ".gitignore",
    "pyproject.toml": "pyproject.toml",
    "test.py": "test_{name}.py",
}


class InvalidName(ValueError):
    """A name that no new project can have. Its text states the rule and the fix."""


def create_project(kind: str, name: str, parent: Path) -> list[Path]:
    """Create the folder `name` in `parent` from the templates of a kind, `block` or `pipeline`.

    Return the files, relative to `parent`. Raises InvalidName; FileExistsError if there is
    anything with this name, and then changes nothing.
    """
    _check_name(name)
    folder = parent / name
    values = {
        "name": name,
        "class_name": "".join(word.capitalize() for word in name.split("_")),
        "program": shlex.quote(find_program("memrelay", folder)),
        "python": shlex.quote(find_program("python", folder)),
    }
    sources = [file for part in (SHARED, kind) for file in (TEMPLATES / part).glob("*.txt")]
    texts = {
        Path(name, FILES[source.stem].format(name=name)): Template(
            source.read_text(encoding="utf-8")
        ).substitute(values)
        for source in sources
    }
    folder.mkdir()
    (folder / "blocks").mkdir()
    for file, text in texts.items():
        (parent / file).write_text(text, encoding="utf-8")
    return sorted(texts)


def find_program(name: str, folder: Path) -> str:
    """Return how a shell in `folder` calls a program of the environment of Memrelay."""
    # An installed wheel is on the PATH.
    return os.path.relpath(Path(sys.prefix, "bin", name), folder) if IS_CHECKOUT else name


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise InvalidName(
            f"{name[:100]!r} is no name for a new project: use lower-case letters, digits and _, "
            "first a letter, at most 40, and no keyword of Python, like tidy_up"
        )
    if TAKEN.fullmatch(name):
        raise InvalidName(
            f"{name!r} would be confused with the decorator @block or with tests: choose another "
            "name"
        )
    others = [built_in_source(name), *all_outside_sources()]
    origins = [one.origin for one in others if one is not None and one.name == name]
    if not origins and find_spec(name) is not None:
        # The tests import the block by its name.
        origins = ["a module of Python or of an installed package"]
    if origins:
        raise InvalidName(f"the name {name!r} is taken ({origins[0]}): choose another name")
