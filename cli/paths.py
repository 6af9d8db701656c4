"""Paths as people write them: with a ~, below some folder, and with names that the system and
SQLite read alike."""

import os
import sys
from pathlib import Path
from typing import Any

import yaml


def path_below(folder: Path, written: str | Path) -> Path:
    """What is written, from the folder on where it is relative. Raises ValueError with the rule and
    the remedy."""
    try:
        path = Path(folder, Path(written).expanduser())
    except RuntimeError as error:
        raise ValueError(
            "must be a path in full: nobody's home folder is known by the name that it begins with"
        ) from error
    if "\0" in str(path):
        raise ValueError("must be a path without the character NUL")
    if not _is_one_file(str(path)):
        raise ValueError(_why_two())
    return path


def _is_one_file(path: str) -> bool:
    """Whether it is the same file to SQLite, which writes names in UTF-8, and to the system, where
    the locale decides."""
    try:
        return os.fsencode(path) == path.encode()
    except UnicodeEncodeError:
        return False


def _why_two() -> str:
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return "must be a path in UTF-8, and a folder in it has another name; rename that folder, or name another path"
    return f"must be a path in plain ASCII while the locale is {encoding}; name another, or set LC_ALL=C.UTF-8"


# A file in YAML, in which no key stands twice at one place: readers of YAML take the last of them
# without a word.


class NotYaml(Exception):
    """Where a file breaks which rule."""


class _Repeated(yaml.constructor.ConstructorError):
    """A key that stands twice."""


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """PyYAML's call."""
        marks: dict[str, yaml.Mark] = {}
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if (mark := marks.setdefault(key.value, key.start_mark)) is not key.start_mark:
                raise _Repeated(
                    None,
                    None,
                    f"{key.value} stands in line {mark.line + 1} already; put both into one",
                    key.start_mark,
                )
        return super().construct_mapping(node, deep)


def read_yaml(file: Path) -> Any:
    """What it holds, None where that is nothing. Raises OSError and NotYaml."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), _Loader)
    except (UnicodeError, yaml.YAMLError) as error:
        raise NotYaml(_why(error)) from error


def _why(error: UnicodeError | yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem_mark:
        return "not YAML in UTF-8"
    rule = error.problem if isinstance(error, _Repeated) else f"not YAML: {error.problem}"
    return f"line {error.problem_mark.line + 1}: {rule}"
